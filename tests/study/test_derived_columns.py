"""Columns of a study beside the scores of members: losses of its samples, UDR, accuracies by size, factors."""

import csv
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS
from jaxdis._core.files import read_csv_columns
from jaxdis._core.spec import Spec
from jaxdis._core.store import Store
from jaxdis.metrics import Direct
from jaxdis.metrics._between_members import Udr, udr
from jaxdis.models import load
from jaxdis.models._evidence import evidence
from jaxdis.study import Sampling
from jaxdis.study import _compute_cells as compute
from jaxdis.study._definition import cells
from jaxdis.study._run_study import run
from tests.study.tiny import tiny


class Curve(NamedTuple):
    score: jax.Array
    by_size: jax.Array
    samples: jax.Array


def curve(codes, factors):
    """As a learning curve, which takes long."""
    by_size = jnp.stack([jnp.abs(codes[:size]).mean() for size in (10, 50)])
    return Curve(by_size[-1], by_size, jnp.array([10, 50]))


CURVE = Direct(Spec(curve))


def with_columns(seeds: int = 2):
    metrics = {name: METRICS[name] for name in ("mig", "med")}
    return tiny(seeds=seeds, metrics={**metrics, "curve": CURVE, "udr": Udr(least_kl=1e-9)})


@pytest.fixture(scope="module")
def finished(tiny_copy):
    study = with_columns()
    return study, Store(tiny_copy), read_csv_columns(run(study, tiny_copy, extend=True))


def test_udr_compares_the_seeds_of_a_setting(finished):
    study, store, table = finished
    found = list(cells(study))
    for setting in range(3):
        mine = found[2 * setting : 2 * setting + 2]
        assert len({member.label["model"] for member in mine}) == 1
        codes = np.stack([store.arrays("encode", member.encode)["mean"] for member in mine])
        np.testing.assert_allclose(table["udr"][2 * setting : 2 * setting + 2], jax.jit(udr)(codes).score, rtol=1e-5)


def test_more_seeds_make_new_cells_of_seeds_and_keep_the_others():
    smaller = {member.train: member for member in cells(with_columns())}
    for member in cells(with_columns(seeds=3)):
        if member.train in smaller:
            before = smaller[member.train].scores
            assert member.scores[:3] == before[:3]
            assert member.scores[3] != before[3]


def test_codes_equal_to_the_prior_are_not_informative():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(2, 500, 3)).astype(np.float32)
    variances = np.full((2, 500, 3), 0.1, np.float32)
    codes[:, :, 2], variances[:, :, 2] = 0.01 * codes[:, :, 2], 0.9999
    both = [Udr(least_kl=0.01).score(c, v) for c, v in ((codes, variances), (codes[:, :, :2], variances[:, :, :2]))]
    np.testing.assert_allclose(*both, rtol=1e-5)


def test_losses_of_samples_are_the_evidence_of_their_images(finished):
    study, store, table = finished
    member = next(cells(study))
    samples = compute.samples_of(study.trainings[0], study.sampling)
    images = samples.render(samples.train.values)
    zoo = load(store.path("train", member.train, ".npz"))
    key = jax.random.fold_in(jax.random.key(0), 0)
    expected = evidence(zoo, images, key)
    for name in expected._fields:
        assert table[f"sample_{name}"][0] == pytest.approx(float(getattr(expected, name)[0]), rel=1e-5)


def test_accuracies_by_size_are_columns(finished):
    study, store, table = finished
    record = store.result("score", next(cells(study)).scores[2])
    columns = [table[f"curve.{size}"][0] for size in (10, 50)]
    np.testing.assert_allclose(columns, record["parts"]["curve.by_size"])
    assert columns[-1] == pytest.approx(table["curve"][0])


def test_the_table_by_factor_holds_the_parts(finished):
    study, store, _ = finished
    rows = list(csv.DictReader((store.root / "results_by_factor.csv").read_text().splitlines()))
    found = list(cells(study))
    assert len(rows) == 5 * len(found)
    record = store.result("score", found[1].scores[0])["parts"]["mig.per_factor"]
    mine = [row for row in rows if row["id"] == found[1].train]
    assert [row["factor"] for row in mine] == ["shape", "scale", "orientation", "x", "y"]
    np.testing.assert_allclose([float(row["mig.per_factor"]) for row in mine], record)


def test_a_metric_of_seeds_cannot_be_one_of_novel_combinations():
    with pytest.raises(ValueError, match="novel: needs metrics of one member, got 'udr'"):
        tiny(metrics=("mig", "udr"), novel=("udr",), sampling=Sampling(64, 64))
