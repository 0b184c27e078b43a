"""The commands: where each is defined, and what it does. ``jaxdis --help`` lists them and loads none of them."""

import importlib
import shutil
from typing import NamedTuple

from jaxdis.cli._text import entry, wrapped

_USAGE = "usage: jaxdis [-h] [--version] [--debug] COMMAND …"
_EXAMPLE = """Example, with arrays `codes` and `factors` in a file:

  jaxdis score codes.npz --metrics mig sap"""
_MORE = """`jaxdis COMMAND --help` explains a command.

`jaxdis --debug COMMAND …` shows where in the program an error arose; `jaxdis --version` prints the version."""


class Command(NamedTuple):
    """Where a command is defined, and the first line of its docstring."""

    module: str
    name: str
    summary: str

    def load(self) -> type:
        """Import the class of the command."""
        return getattr(importlib.import_module(f"jaxdis.cli.{self.module}"), self.name)


COMMANDS = {
    "quickstart": Command(
        "_study_commands",
        "Quickstart",
        "Run the whole pipeline in minutes: draw images, train a small zoo, score it and write an HTML report.",
    ),
    "score": Command("_score_command", "Score", "Score codes in files, or trained zoos, with disentanglement metrics."),
    "show": Command(
        "_show_command",
        "Show",
        "Show which code encodes which factor: a table with bars in the terminal, and on request a picture.",
    ),
    "compare": Command(
        "_compare_command",
        "Compare",
        "Compare scores between sets of models: differences in means, their intervals, and tests.",
    ),
    "report": Command(
        "_report_command",
        "Report",
        "Score codes from models that were trained elsewhere, and write a page: which setting is best, and how sure "
        "that is.",
    ),
    "sensitivity": Command(
        "_sensitivity_command",
        "Sensitivity",
        "Compute how far the models' ranking by each metric depends on options, sample sizes and seeds.",
    ),
    "train": Command(
        "_train_command", "Train", "Train a zoo of models: every variant × setting × seed in one program."
    ),
    "encode": Command(
        "_encode_command",
        "Encode",
        "Encode images with every member in a trained zoo, and write codes and factors to an .npz.",
    ),
    "study": Command(
        "_study_commands", "Study", "Run a study, show its progress, write its report, or verify its records."
    ),
    "reproduce": Command(
        "_reproduce_command",
        "Reproduce",
        "Reproduce a paper and write a page that shows its printed numbers next to the measured ones.",
    ),
    "benchmark": Command(
        "_benchmark_command",
        "Benchmark",
        "Measure members scored per second for each metric and zoo size, training updates per second, and compile "
        "times.",
    ),
    "data": Command(
        "_listing", "Data", "Draw a data set's contact sheet, or fetch the files for one that is read from files."
    ),
    "list": Command(
        "_listing", "List", "Show the library's tables; with names after a table, show these rows in full."
    ),
}


def overview() -> str:
    """What ``jaxdis --help`` prints."""
    width, column = shutil.get_terminal_size().columns, max(map(len, COMMANDS)) + 4
    rows = (entry(f"  {name}", command.summary, column, width) for name, command in COMMANDS.items())
    return "\n\n".join((_EXAMPLE, _USAGE, "Commands:", "\n".join(rows), wrapped(_MORE, width)))
