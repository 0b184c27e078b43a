"""The command line: ``jaxdis score``, ``jaxdis list``, …; ``jaxdis COMMAND --help`` explains each."""

import sys
import warnings

import tyro

from jaxdis.cli import terminal
from jaxdis.cli.look import Data, List
from jaxdis.cli.score import Score
from jaxdis.cli.study import Quickstart, Study
from jaxdis.cli.train import Train

EXIT_BAD_INPUT = 2

COMMANDS = {
    "quickstart": Quickstart,
    "score": Score,
    "train": Train,
    "study": Study,
    "data": Data,
    "list": List,
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 when it went well, 2 and one line when the input was bad."""
    command = tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="jaxdis", description=__doc__)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: terminal.warn(message)
            command.run()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"jaxdis: {' '.join(str(error).split())}\n")
        return EXIT_BAD_INPUT
    return 0
