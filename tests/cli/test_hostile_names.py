"""Names from files and from the shell reach the terminal without what a terminal obeys, in every command."""

import csv
import json

import numpy as np
import pytest

import jaxdis
from jaxdis.cli import COMMANDS, main

# Colors, a title, a bell, a cursor that moves back, 8-bit control characters, a turn of direction, and a forged line.
HOSTILE = "\x1b[31mred\x1b]0;title\x07\x08\x9b2J\u202e\rx\nforged: line"
RNG = np.random.default_rng(0)
VALUES = np.stack([RNG.integers(0, 3, 200), RNG.integers(0, 4, 200)], axis=1)
ALLOWED = set("\n")


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def folder(tmp_path):
    """Codes in files with hostile names, with hostile names of factors and classes; scores with hostile columns."""
    for number in range(3):
        codes = (VALUES + (0.1 + number) * RNG.normal(size=(200, 2))).astype(np.float32)
        np.savez(tmp_path / f"{HOSTILE}{number}.npz", codes=codes, factors=VALUES, names=[HOSTILE, f"[/]{HOSTILE}"])
        np.save(tmp_path / f"codes{number}{HOSTILE}.npy", codes)
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        rows = [[f"{HOSTILE}{a}", b, "same"] for a, b in VALUES.tolist()]
        csv.writer(file).writerows([[HOSTILE, f"[bold]{HOSTILE}", f"still{HOSTILE}"], *rows])
    with (tmp_path / "runs.csv").open("w", newline="") as file:
        rows = [[f"{HOSTILE}{number}.npz", f"{HOSTILE}{number % 2}"] for number in range(3)]
        csv.writer(file).writerows([["file", f"beta{HOSTILE}"], *rows])
    for name in ("a", "b"):
        table = {"member": [HOSTILE] * 3, f"mig{HOSTILE}": RNG.normal(size=3).tolist(), "[/]": [0.1, 0.2, 0.4]}
        (tmp_path / f"{name}{HOSTILE}.json").write_text(
            json.dumps(table | {"members": [{"seed": n} for n in range(3)]})
        )
    return tmp_path


def clean(captured) -> None:
    """What was printed, after checking that no letter in it is one that a terminal obeys."""
    printed = captured.out + captured.err
    odd = {letter for letter in printed if not letter.isprintable()} - ALLOWED
    assert not odd, (odd, printed)
    assert not any(line.startswith("forged") for line in printed.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "{}/*.npz", "--metrics", "mig"],
        ["score", f"{{}}/{HOSTILE}0.npz", "--metrics", "mig"],
        ["score", "{}/codes*.npy", "--factors", "{}/labels.csv", "--metrics", "mig", "--missing", "drop"],
        ["show", "{}/codes0" + HOSTILE + ".npy", "--factors", "{}/labels.csv"],
        ["compare", f"{{}}/a{HOSTILE}.json", f"{{}}/b{HOSTILE}.json"],
        ["sensitivity", "{}/*.npz", "--metrics", "mig", "--options", "bins=5,10"],
        ["report", "{}/*.npz", "--metrics", "mig", "--meta", "{}/runs.csv", "--out", "{}/page" + HOSTILE],
    ],
)
def test_names_from_files_are_printed_without_control_characters(arguments, folder, capsys):
    assert main([argument.replace("{}", str(folder)) for argument in arguments]) == 0
    clean(capsys.readouterr())


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("arguments", [[HOSTILE], [f"--{HOSTILE}"], ["--out", HOSTILE, HOSTILE], ["--seed", HOSTILE]])
def test_what_commands_refuse_is_told_without_control_characters(name, arguments, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in ("quickstart", "benchmark", "reproduce"):  # a folder of that name is what they make
        arguments = ["--size", HOSTILE, "--minutes", HOSTILE, *arguments]
    try:
        code = main([name, *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code != 0
    clean(capsys.readouterr())


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_errors_about_tables_are_told_without_control_characters(debug, folder, capsys):
    codes, labels = str(folder / f"codes0{HOSTILE}.npy"), str(folder / "labels.csv")
    (folder / f"{HOSTILE}.csv").write_bytes((folder / "labels.csv").read_bytes()[:-9])
    for arguments in (["--columns", HOSTILE], ["--columns", f"x{HOSTILE}"], ["--columns", f"{HOSTILE}:continuous"]):
        assert main(["score", codes, "--factors", labels, *arguments, "--metrics", "no", *debug]) == 2
        assert main(["score", codes, "--factors", str(folder / f"{HOSTILE}.csv"), *debug]) == 2
    for path in (f"{HOSTILE}.npz", f"{HOSTILE}.h5", f"{HOSTILE}.csv", f"{HOSTILE}.parquet", f"{HOSTILE}.zarr"):
        (folder / path).write_bytes(b"x")
        assert main(["score", str(folder / path), *debug]) == 2
    printed = capsys.readouterr()
    if not debug:
        clean(printed)
    assert not set("\x1b\x07\x08\x9b\u202e\r") & set(printed.out + printed.err)


def test_bars_and_lines_now_and_then_hold_no_control_characters(capsys, monkeypatch):
    from jaxdis._core import display

    monkeypatch.setattr(display, "_told", -display.EVERY)
    display.tell_now_and_then(f"metrics: {HOSTILE}")
    assert "\x1b" not in capsys.readouterr().err
    assert jaxdis.cli._terminal.one_line(HOSTILE).isprintable()
