"""Every objective and every preset describes itself, and the command line shows it."""

import inspect
import re
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis._core.references import REFERENCES, cited_in
from jaxdis.cli import main
from jaxdis.models import OBJECTIVES
from jaxdis.models._config import describe
from jaxdis.papers import PAPERS
from tests.models.conftest import interrupted_and_resumed, same

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


class Weights(NamedTuple):
    weight: float = 1.0
    learning_rate: float = 1e-2


def squared(terms, settings):
    return terms.reconstruction + settings.weight * jnp.square(terms.mean).sum(1).mean()


def pulled(terms, hyperparameters):
    return squared(terms, Weights(hyperparameters.kl))


OWN = {"pulled": (pulled, "kl"), "squared": (models.Objective(Weights, "weight", squared), "weight")}


@pytest.mark.parametrize("name", OWN)
def test_an_objective_that_is_passed_is_trained_resumed_and_read(name, images, tmp_path):
    objective, swept = OWN[name]
    before = dict(OBJECTIVES)
    method = models.Vae(objective=objective, network=models.Mlp((8,), 3), batch_size=8)
    sweep = {name: {swept: [0.0, 50.0], "learning_rate": 1e-2}}
    members, how = models.members(sweep, 2, method), {"data": images, "log_every": 40, "checkpoint_every": 40}
    config = models.Config("squares", method=method, steps=120)
    zoo = models.train(config, *members, **how)
    assert zoo.select(**{swept: 0.0}).labels[0]["model"] == name
    sizes = np.square(zoo.encode(images).mean).sum(2).mean(1)
    assert sizes[2:].max() < 0.2 * sizes[:2].min()
    assert same(interrupted_and_resumed(80, config, *members, **how, directory=tmp_path / "run"), zoo)
    zoo.save(tmp_path / "zoo.npz")
    with pytest.raises(ValueError, match="pass it to load"):
        models.load(tmp_path / "zoo.npz")
    assert same(models.load(tmp_path / "zoo.npz", method=method), zoo)
    assert before == OBJECTIVES


def test_objectives_are_told_apart_by_their_functions():
    first, second = (models.Vae(objective=objective) for objective, _ in OWN.values())
    assert first == models.Vae(objective=pulled)
    assert describe(first) != describe(second)
    assert describe(first)["objective"]["loss"].endswith("test_table.pulled")
    with pytest.raises(ValueError, match="sweep: must have names among pulled, got 'beta'"):
        models.members({"beta": {}}, method=first)
