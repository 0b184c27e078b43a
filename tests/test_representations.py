"""What a notebook shows of objects: a few lines as text, a table as HTML, with text of users escaped."""

import re
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import jaxdis
from jaxdis.models import Config, Members, Vae, Zoo
from jaxdis.study import Study, Training

LABELS = tuple({"model": "<b>beta", "beta": 4.0, "seed": seed} for seed in range(40))


class Losses(NamedTuple):
    loss: np.ndarray


def cells_of(found: str) -> list[list[str]]:
    rows = re.findall("<tr>(.*?)</tr>", found)
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_a_zoo_is_a_table_of_its_labels_and_last_losses():
    losses = Losses(np.arange(80.0).reshape(40, 2))
    zoo = Zoo(Config("hearts", method=Vae(("beta",))), {}, None, losses, np.full(40, -1), LABELS)
    head, first, *rows = cells_of(zoo._repr_html_())
    assert head == ["model", "beta", "seed", "final loss"]
    assert first == ["&lt;b&gt;beta", "4.000", "0", "1.000"]
    assert len(rows) == 29
    assert "10 more rows are not shown" in zoo._repr_html_()
    assert "Vae on hearts: 40 members" in zoo._repr_html_()
    assert len(repr(zoo)) < 200
    (axes,) = zoo.plot().axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), losses.loss.mean(axis=0))


def test_members_are_a_table_of_their_labels():
    """Whose columns do not touch on a bare page, which has no style sheet."""
    found = Members(np.zeros(2), None, LABELS[:2])._repr_html_()
    assert all("padding" in cell for cell in re.findall("<t[hd][^>]*>", found) if cell != "<thead>")
    head, *rows = cells_of(found)
    assert head == ["model", "beta", "seed"]
    assert rows == [["&lt;b&gt;beta", "4.000", seed] for seed in ("0", "1")]


def test_a_relation_is_its_matrix_below_its_ceiling():
    relation = jaxdis.Relation.of(jnp.eye(2), jnp.array([2.0, 3.0]))
    head, *rows = cells_of(relation._repr_html_())
    assert head == ["", "factor 0", "factor 1"]
    assert rows == [["ceiling", "2.000", "3.000"], ["code 0", "1.000", "0.000"], ["code 1", "0.000", "1.000"]]


def test_a_study_says_what_it_trains():
    config = Config("dsprites", method=Vae(("beta", "beta_tc")), steps=100)
    study = Study.of("mine", [Training.of(config, {"beta": {"beta": (1, 4)}}, 3)], ["mig", "sap"])
    assert repr(study) == "Study('mine', 2 metrics)\n  Vae on dsprites: 6 members"
    assert cells_of(study._repr_html_()) == [["method", "data", "members"], ["Vae", "dsprites", "6"]]
