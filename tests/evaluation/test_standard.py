"""What is computed when no metrics are named, and how its progress is shown."""

import io
import re
import types

import numpy as np
import pytest

import jaxdis
from jaxdis import Factors, evaluate
from jaxdis._core import display
from jaxdis.cli import main
from jaxdis.metrics._plan import of_classes, plan_of
from tests.draws import representations

RNG = np.random.default_rng(0)
CODES, VALUES = representations()
QUICK = ("mig", "modularity")


def test_of_continuous_factors_those_without_classes_are_computed(monkeypatch):
    continuous = Factors.of(RNG.normal(size=(200, 2)), sizes=(None, None))
    left_out = of_classes(plan_of("standard"), continuous.sizes)
    assert left_out
    monkeypatch.setattr("jaxdis.metrics._plan.STANDARD", (*QUICK, *left_out))
    scores = evaluate(CODES, continuous)
    assert list(scores) == list(QUICK)
    words = "it needs classes and was left out; Factors.binned makes some"
    assert [note for note in scores.notes if note[1] == words] == [(name, words) for name in left_out]
    with pytest.raises(ValueError, match="must have at least one discrete factor"):
        evaluate(CODES, continuous, left_out)


@pytest.mark.parametrize("missing", [False, True])
def test_of_angles_those_that_read_no_line_are_computed(missing, monkeypatch):
    monkeypatch.setattr("jaxdis.metrics._plan.STANDARD", (*QUICK, "dci_forest"))
    shape = [None if missing and row < 9 else value for row, value in enumerate(VALUES[:, 0].tolist())]
    table = {"shape": shape, "angle": RNG.uniform(0, 360, 200)}
    factors = Factors.from_table(table, kinds={"angle": ("circular", 360.0)}, missing="each")
    scores = evaluate(CODES, factors)
    assert list(scores) == list(QUICK)
    assert ("dci_forest", "it reads an angle as a number on a line and was left out") in scores.notes
    with pytest.raises(ValueError, match="must not be circular for dci_forest"):
        evaluate(CODES, factors, "dci_forest")


def test_of_an_encoder_too_those_that_read_no_line_are_computed(monkeypatch):
    monkeypatch.setattr("jaxdis.encoders._evaluate_encoder.STANDARD_OF_ENCODERS", (*QUICK, "dci_forest"))
    scores = jaxdis.evaluate_encoder(
        lambda images: images[:, ::16, ::16, 0].reshape(len(images), -1)[:, :3],
        jaxdis.data.dsprites(circular=True),
        samples=60,
        test_samples=30,
    )
    assert list(scores) == list(QUICK)
    assert "dci_forest" in dict(scores.notes)


def test_the_command_scores_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jaxdis.cli._terminal.start", lambda cache: None)
    monkeypatch.setattr("jaxdis.metrics._plan.STANDARD", QUICK)
    np.savez(tmp_path / "codes.npz", codes=CODES, factors=VALUES)
    assert main(["score", str(tmp_path / "codes.npz")]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in QUICK)


@pytest.mark.two_devices
def test_true_draws_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(display, "EVERY", 0.0)
    evaluate(np.stack([CODES, -CODES]), VALUES, ["mig", "sap_r2"], progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["scoring: 2 of 4 metrics × members; mig", "scoring: 4 of 4 metrics × members; sap_r2"]


def test_what_takes_longer_tells_how_far_it_is():
    told = []
    jaxdis.sample_curve(CODES, VALUES, "mig", sizes=(50, 100), progress=lambda *done: told.append(done))
    assert told[-1] == (4, 4)


def test_a_terminal_shows_a_bar():
    from rich.console import Console

    file = io.StringIO()
    plain = lambda: re.sub(r"\x1b\[[\d;?]*\w", "", file.getvalue())  # noqa: E731
    with display.bar("encoding", "images", Console(file=file, force_terminal=True, width=100)) as show:
        show(3, 8, "a [word]")
    assert "3/8 images" in plain()
    assert "a [word]" in plain()


def test_a_notebook_shows_a_bar_without_widgets(monkeypatch):
    shell = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr(shell, "display", lambda *what, **how: types.SimpleNamespace(update=shown.append))
    with display.bar("encoding", "images", types.SimpleNamespace(is_jupyter=True)) as show:
        show(3, 8, "<word>")
    (found,) = shown
    assert found.data == '<progress value="3" max="8"></progress> encoding: 3 of 8 images; &lt;word&gt;'
