"""Every objective and every preset describes itself, and the command line shows it."""

import inspect
import re

import pytest

from jaxdis._core.references import REFERENCES, cited_in
from jaxdis.cli import main
from jaxdis.models import OBJECTIVES
from jaxdis.papers import PAPERS

PRESETS = {name: paper.preset for name, paper in PAPERS.items() if paper.preset is not None}
ROWS = {**OBJECTIVES, **PRESETS}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_describes_itself(name):
    row, about = ROWS[name], ROWS[name].about
    assert about.title
    assert about.summary.endswith(".")
    assert set(about.references) <= set(REFERENCES)
    function = row.settings if name in OBJECTIVES else row.make
    cited = set(cited_in(inspect.getdoc(function)))
    assert set(about.references) == cited


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_setting_has_a_meaning(name):
    row = OBJECTIVES[name]
    parameters = list(inspect.signature(row.settings).parameters)
    assert list(row.about.settings) == parameters
    assert row.swept in parameters
    assert inspect.getdoc(row.settings).startswith(f"{row.about.title}: reconstruction + ")


def test_no_two_rows_say_the_same():
    for words in ("title", "summary"):
        said = [getattr(row.about, words) for row in ROWS.values()]
        assert len(set(said)) == len(said)


def test_a_preset_is_named_by_the_key_of_its_paper():
    for name, preset in PRESETS.items():
        assert preset.about.references == (name,)
        assert preset.make.__module__.startswith(f"jaxdis.papers.{name}.")


def test_a_whole_objective_is_listed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", "objectives", "factor"]) == 0
    row = capsys.readouterr().out
    assert "FactorVAE: reconstruction + KL + a(t)·γ·TC." in row
    for name, parameter in inspect.signature(OBJECTIVES["factor"].settings).parameters.items():
        assert re.search(rf"^  {name}: .*\(default {parameter.default:g}\)", row.replace("\n    ", " "), re.MULTILINE)
    assert "kim2018: Kim, H.; Mnih, A." in row
    assert main(["list", "presets", "mahon2024"]) == 0
    assert "section: default 'custom'" in capsys.readouterr().out
    assert main(["list", "objectives", "bta"]) == 2
    assert "did you mean 'beta'" in capsys.readouterr().err
