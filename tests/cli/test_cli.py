"""The command line as a user runs it."""

import ast
import csv
import errno
import importlib
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxdis
from jaxdis import cli
from jaxdis._core.references import REFERENCES
from jaxdis.cli import COMMANDS, main
from jaxdis.cli._listing import rows_of
from tests.draws import representations


@pytest.fixture
def codes_file(tmp_path):
    codes, values = representations(4)
    path = tmp_path / "codes.npz"
    np.savez(path, codes=codes, factors=values, names=["shape", "[red]size"])
    return path


def test_score_writes_a_table_a_csv_and_json(codes_file, tmp_path, capsys):
    out, columns = tmp_path / "out.csv", tmp_path / "out.json"
    arguments = ["score", str(codes_file), "--metrics", "mig", "sap_r2", "--csv", str(out), "--json", str(columns)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "mig" in printed
    assert "sap_r2" in printed
    assert "4 members" in printed
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 4
    loaded = json.loads(columns.read_text())
    assert loaded["mig"][3] == pytest.approx(float(rows[3]["mig"]), rel=1e-6)


def test_score_marks_continuous_factors_and_undefined_scores(tmp_path, capsys):
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(2, 100, 2))
    codes[1, 3, 0] = np.nan
    np.savez(tmp_path / "c.npz", codes=codes, factors=np.c_[rng.integers(0, 3, 100), rng.random(100)], sizes=[3, 0])
    assert main(["score", str(tmp_path / "c.npz"), "--metrics", "mig", "--json", str(tmp_path / "out.json")]) == 0
    assert "1 non-finite values in 1 of 2 members (1)" in capsys.readouterr().err.replace("\n", " ")
    assert json.loads((tmp_path / "out.json").read_text())["mig"][1] is None


@pytest.mark.parametrize(
    "what", ["metrics", "relations", "scores", "objectives", "models", "data", "studies", "references"]
)
def test_lists_fit_eighty_columns_and_hold_every_row(what, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", what]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    rows = rows_of(what)
    for name, row in rows.items():
        assert re.search(rf"^{re.escape(name)}(\s|$)", printed, re.MULTILINE), name
        assert main(["list", what, name]) == 0
        whole = capsys.readouterr().out
        assert max(map(len, whole.splitlines())) <= 80 or "http" in whole or ">>>" in whole
        assert "``" not in whole
        assert ":func:" not in whole
        assert set(row.references) <= set(REFERENCES)
    if what in ("metrics", "relations", "scores"):
        assert set(getattr(jaxdis, what.upper())) <= set(rows)
        assert len({row.title for row in rows.values()}) == len(rows)


def test_the_metrics_that_are_computed_by_default_are_marked():
    marked = {name: row.title for name, row in rows_of("metrics").items() if "[standard" in row.title}
    assert set(marked) == {"mig", "modularity", "sap", "mcc", "explicitness", "dci_forest", "irs"}
    assert [name for name, title in marked.items() if "[standard for encoders]" in title] == ["irs"]


def test_the_installed_command_uses_all_cores_and_the_cache(codes_file, tmp_path):
    """A process of its own: devices and cache are set before JAX starts."""
    command = [
        sys.executable,
        "-m",
        "jaxdis",
        "score",
        str(codes_file),
        "--metrics",
        "sap_r2",
        "--cache",
        str(tmp_path / "p"),
    ]
    # Without the flags of the tests: programs that compile in no time are not kept.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "sap_r2" in done.stdout
    assert any((tmp_path / "p").iterdir())


def help_texts() -> Iterator[str]:
    """Docstrings of commands, and of their fields."""
    for path in Path(cli.__file__).parent.glob("*.py"):
        for command in ast.walk(ast.parse(path.read_text())):
            if isinstance(command, ast.ClassDef) and any(getattr(part, "name", "") == "run" for part in command.body):
                yield ast.get_docstring(command)
                for field, text in itertools.pairwise(command.body):
                    if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                        yield text.value.value


def test_help_breaks_no_sentence():
    """tyro joins a line of text to the one above it only if it begins with a letter, so not if it is indented."""
    texts = list(help_texts())
    assert len(texts) > 60
    for text in texts:
        for above, line in itertools.pairwise(text.split("\n")):
            assert not line or not above or line[0].isalpha() or above.endswith("."), text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_in_words_and_fits_the_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    printed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in printed.splitlines() if not line.startswith("usage:"))
    for unclear in ("[[", "{None}", "STR", "(default: None)", "(default: )", "(default: False)", "(repeatable)"):
        assert unclear not in printed
    text = " ".join(printed.replace("│", " ").split())
    for option in re.split(r" --(?=[a-z])", text)[1:]:
        assert option.count("(default:") <= 1, option


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jaxdis {jaxdis.__version__}\n"


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("arguments", ["list metrics", "score --help"])
def test_nothing_is_said_if_nobody_reads_the_output(arguments):
    command = f"{sys.executable} -m jaxdis {arguments} | true; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True)
    assert ended.returncode in (0, 141)
    assert ended.stderr == b""


def test_other_outputs_are_logged_now_and_then(codes_file, capsys, monkeypatch):
    monkeypatch.setattr("jaxdis._core.display.EVERY", 0.0)
    assert main(["score", str(codes_file), "--metrics", "sap_r2", "mig"]) == 0
    said = capsys.readouterr().err
    assert re.search("scoring: 1 of 2 metrics; sap_r2.*\n(.*\n)*scoring: 2 of 2 metrics; mig.*\n", said)
    told = []

    def once(words, now=False):
        if words.startswith("scoring: ") and (now or not told):
            told.append(words)
            return True
        return False

    with monkeypatch.context() as patch:
        for module in ("cli._terminal", "_core.display"):
            patch.setattr(f"jaxdis.{module}.tell_now_and_then", once)
        assert main(["score", str(codes_file), "--metrics", "sap_r2", "mig"]) == 0
    assert [line.partition("; ")[0] for line in told] == ["scoring: 1 of 2 metrics", "scoring: 2 of 2 metrics"]
    monkeypatch.setattr("jaxdis._core.display.EVERY", 60.0)
    assert main(["score", str(codes_file), "--metrics", "sap_r2", "mig"]) == 0
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_told_once(capsys):
    for name in ("jit_a", "jit_b"):
        words = f"Error writing persistent compilation cache entry for '{name}': OSError: No space left"
        cli.terminal.warn(words)
        cli.terminal.warn(f"seed0.npz: {words}")  # as of several files
    said = capsys.readouterr().err
    assert len(said.split("warning:")) == 2
    assert "compiled programs are not kept (OSError: No space left)" in " ".join(said.split())


@pytest.mark.parametrize(
    ("library", "extra"),
    [
        ("matplotlib", "plots"),
        ("distributed", "cluster"),
        ("zarr", "omics"),
    ],
)
def test_a_library_that_is_missing_is_told_with_its_extra(library, extra):
    error = ModuleNotFoundError(f"No module named {library!r}", name=library)
    assert f"jaxdis[{extra}]" in cli.in_one_line(error)


def test_docstrings_may_be_left_out():
    command = [sys.executable, "-OO", "-m", "jaxdis", "list", "metrics", "mig"]
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_help_lists_all_commands(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "``" not in printed
    assert printed.index("  jaxdis score codes.npz") < printed.index("usage:")
    assert max(map(len, printed.splitlines())) <= 80
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name}  ", printed, re.MULTILINE)
        assert inspect.getdoc(command.load()).split("\n\n")[0].replace("\n", " ") == command.summary


def test_without_a_command_the_commands_are_listed(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "quickstart" in capsys.readouterr().out


def test_an_unknown_command_is_answered_with_the_nearest(capsys):
    assert "did you mean 'score'?" in refused(capsys, "scor")


@pytest.mark.parametrize("arguments", [("--help",), ("score", "--help"), ("list", "references")])
def test_help_is_shown_without_loading_heavy_libraries(arguments):
    command = [sys.executable, "-X", "importtime", "-m", "jaxdis", *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout
    loaded = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert "jaxdis.cli" in loaded
    assert not loaded & {"jax", "jaxlib", "flax", "scipy", "matplotlib", "numpy"}
    assert ("tyro" in loaded) == (arguments != ("--help",))


def refused(capsys, *arguments: object) -> str:
    """The one line of a command that cannot be done."""
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert error.startswith("jaxdis: ")
    assert "Traceback" not in error
    return error


# Each command, and a function that it calls.
WORKING = {
    "score": (("score", "{codes}"), "jaxdis.evaluation._evaluate.evaluate"),
    "list": (("list", "metrics"), "jaxdis.cli._listing.rows_of"),
    "data": (("data", "show", "dsprites", "--out", "{out}"), "jaxdis.data._datasets.save_sheet"),
    "train": (("train", "--out", "{out}"), "jaxdis.cli._zoo_commands.train_to_directory"),
    "quickstart": (("quickstart", "--out", "{out}"), "jaxdis.study.run"),
    "study": (("study", "run", "mahon2024", "--seeds", "1", "--out", "{out}"), "jaxdis.study.run"),
    "calibration": (
        ("study", "run", "calibration", "--out", "{out}"),
        "jaxdis.study.run",
    ),
    "plan": (("study", "run", "quickstart", "--plan", "--out", "{out}"), "jaxdis.study._trained_work.plan"),
    "benchmark": (("benchmark", "--metrics", "mig"), "jaxdis.cli._throughput.measure"),
    "show": (("show", "{codes}"), "jaxdis.evaluation._evaluate.relate"),
}


@pytest.fixture(params=WORKING)
def command(request, codes_file, tmp_path, monkeypatch):
    """A command's arguments, and how to let it fail in the middle."""
    arguments, function = WORKING[request.param]
    module, _, name = function.rpartition(".")
    arguments = [argument.format(codes=codes_file, out=tmp_path / "out") for argument in arguments]

    def fail(error):
        def failing(*_, **__):
            raise error

        monkeypatch.setattr(importlib.import_module(module), name, failing)

    return arguments, fail


def test_a_file_left_open_is_not_told(codes_file, capsys, monkeypatch):
    """An interrupted import leaves one."""

    def interrupted(*_, **__):
        open(codes_file, "rb").read(1)  # noqa: SIM115
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxdis.cli._listing.List.run", interrupted)
    assert main(["list", "metrics"]) == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_ctrl_c_is_one_line_and_130(command, capsys):
    arguments, fail = command
    fail(KeyboardInterrupt())
    assert main(arguments) == 130
    error = capsys.readouterr().err
    assert error.startswith("jaxdis: stopped")
    assert len(error.splitlines()) == 1
    kept = {"train": "keeps 0 updates", "quickstart": "no cell was finished", "study": "no cell was finished"}
    assert kept.get(arguments[0], "nothing was written") in error
    assert "the same command again" in error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 60 GiB"), "memory: needs more than there is (Unable to allocate 60 GiB)"),
        (MemoryError(), "memory: needs more than there is (an array does not fit)"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of\nmemory"), "RESOURCE_EXHAUSTED: out of memory"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (RecursionError("too deep"), "too deep"),
        (KeyError("a"), "KeyError: 'a'"),
        (zlib.error("incorrect data check"), "error: incorrect data check"),
        (ValueError("file: \x1b[31mred\x07\u202e name\r\n"), "file: [31mred name"),
        (ValueError("x" * 90_000), "x" * 900),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, Exception) else "",
)
def test_whatever_goes_wrong_is_one_line(error, message, codes_file, capsys, monkeypatch):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(importlib.import_module("jaxdis.evaluation._evaluate"), "evaluate", failing)
    line = refused(capsys, "score", codes_file)
    assert message in line
    assert len(line) < 1100
    assert line.isprintable()


def test_debug_shows_where_an_error_arose(codes_file, capsys):
    assert main(["--debug", "score", str(codes_file), "--metrics", "nonsense"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.strip().splitlines()[-1].startswith("jaxdis: ")


def test_a_full_disk_leaves_the_results_that_were_there(codes_file, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("before")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jaxdis._core.files.os.fsync", full)
    line = refused(capsys, "score", codes_file, "--metrics", "mig", "--csv", out)
    assert f"No space left on device in {tmp_path}; make room and run again" in line
    assert out.read_text() == "before"


def test_groups_of_slots_have_a_name_of_their_own(codes_file, capsys):
    said = refused(capsys, "score", codes_file, "--levels", "object", "property", "--groups", "2")
    assert "--groups: the number of groups of slots is --slot-groups, got --groups 2" in said


def test_a_narrow_terminal_shows_numbers(codes_file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    with np.load(codes_file) as arrays:
        np.savez(codes_file, codes=arrays["codes"][0], factors=arrays["factors"])
    assert main(["score", str(codes_file), "--metrics", "mig"]) == 0
    assert re.search(r"mig .*0\.\d{4}", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gamma", "5"), "gamma: needs an objective that has it, got beta"),
        (("--objective", "dip_i", "dip_ii", "--beta", "4"), "beta: needs an objective that has it, got dip_i, dip_ii"),
        (("--beta", "-4"), "beta: must be numbers of at least 0, got -4.0"),
        (("--beta", "nan"), "beta: must be numbers of at least 0, got nan"),
        (("--learning-rate", "-1"), "learning_rate: must be a number above 0, got -1.0"),
        (("--objective", "nonsense"), "objective: must be one of"),
        (("--seeds", "0"), "members: must have at least one variant and one seed"),
        (("--seeds", "200000"), "seeds: must have at most 100,000 members in all"),
        (("--steps", "0"), "steps: must be a whole number of at least 1, got 0"),
        (("--data", "nonsense"), "data: must be one of"),
        (
            ("--model", "gan"),
            "model: must be one of vae, pca, parted_vae, weak_de, labelled_partition, resnet_vae, infogan, "
            "monet, genesis, iodine, got 'gan'",
        ),
        (("--model", "pca", "--beta", "4"), "beta: must be given with the model vae, got pca"),
        (("--model", "pca", "--model-option", "codes=3"), "Pca: must have options among num_codes, passes"),
        (("--model", "pca", "--model-option", "num_codes=many"), "num_codes: must be a whole number"),
        (("--model", "pca", "--model-option", "num_codes"), "num_codes: must be a whole number"),
        (("--model", "pca", "--steps", "40"), "steps: must be from 2 to 9"),
        (("--model-option", "batch_size=0"), "batch_size: must be a whole number of at least 1, got 0"),
    ],
)
def test_settings_that_would_be_ignored_or_cannot_be_are_refused(options, message, tmp_path, capsys):
    assert message in refused(capsys, "train", *options, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "{codes}", "--metrics", "mig", "--seed", str(2**63)),
        ("score", "{codes}", "--metrics", "mig", "--csv", "{codes}/below/out.csv"),
        ("score", "no\x1b[31m\nfile\udcff.npz"),
        ("data", "show", "dsprites", "--seed", str(2**63), "--out", "{out}"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]).encode("ascii", "replace").decode(),
)
def test_odd_arguments_end_in_one_line(arguments, codes_file, tmp_path, capsys):
    given = [argument.format(codes=codes_file, out=tmp_path / "out.png") for argument in arguments]
    assert refused(capsys, *given).isprintable()
