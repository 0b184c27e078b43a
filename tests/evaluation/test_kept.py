"""Scores that a store keeps are those of an evaluation without one, and nothing is computed twice."""

import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import jaxdis
from jaxdis import METRICS, Factors, evaluate
from jaxdis._core.spec import Spec
from jaxdis._core.store import Store, StoreError
from jaxdis.evaluation import _kept, _run
from jaxdis.evaluation._score_core import ARRAYS
from jaxdis.metrics import Direct
from tests.draws import representations
from tests.metrics.test_contracts import SOURCES, family, shortened_plan

RNG = np.random.default_rng(0)
CODES, VALUES = representations(6, noise=RNG.random((6, 1, 1)))
QUICK = ("mig", "mcc", "r2_linear")  # the second one has whole numbers, the last one splits samples by the key


@pytest.fixture
def computed(monkeypatch) -> list[tuple[str, ...]]:
    """What is computed: for each program's call, the metrics and how many members."""
    calls, compute = [], _run.compute

    def noted(request, arrived=None):
        calls.append((*sorted(name for name, _ in request.plan), len(request.rows)))
        return compute(request, arrived)

    monkeypatch.setattr(_run, "compute", noted)
    return calls


def assert_same(one, other):
    """The same numbers to the bit, in the same order, under the same names."""
    for field in ARRAYS:
        mine, others = getattr(one, field), getattr(other, field)
        assert list(mine) == list(others), field
        for name in mine:
            np.testing.assert_array_equal(mine[name], others[name], err_msg=name)
            assert mine[name].dtype == others[name].dtype
    plain = {f.name for f in dataclasses.fields(one)} - set(ARRAYS)
    assert {name: getattr(one, name) for name in plain} == {name: getattr(other, name) for name in plain}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", [{}, {"bootstrap": 2}, {"null": 2}, {"single": True}], ids=str)
def test_kept_scores_are_those_of_an_evaluation(how, tmp_path, computed):
    how = dict(how)
    codes = CODES[0] if how.pop("single", False) else CODES
    plain = evaluate(codes, VALUES, QUICK, 0, **how)
    assert_same(plain, evaluate(codes, VALUES, QUICK, 0, **how, store=tmp_path))
    computed.clear()
    assert_same(plain, evaluate(codes, VALUES, QUICK, 0, **how, store=tmp_path))
    assert computed == []


def test_what_is_missing_is_computed_and_nothing_else(tmp_path, computed):
    evaluate(CODES[:3], VALUES, "mig", store=tmp_path)
    computed.clear()
    evaluate(CODES, VALUES, "mig", store=tmp_path)
    evaluate(CODES, VALUES, ("mig", "sap_r2"), store=tmp_path)
    evaluate(CODES[::-1], VALUES, ("sap_r2", "mig"), members=list("abcdef"), store=tmp_path)
    assert computed == [("mig", 3), ("sap_r2", 6)]
    others = {"fine": METRICS["mig"].with_options(bins=7), "mig": METRICS["mig"]}
    evaluate(CODES, VALUES, others, store=tmp_path)
    changed = CODES.copy()
    changed[2, 5, 1] += 1
    evaluate(changed, VALUES, "mig", store=tmp_path)
    evaluate(CODES, VALUES[::-1], "mig", store=tmp_path)
    assert computed[2:] == [("fine", 6), ("mig", 1), ("mig", 6)]


def test_what_a_metric_does_not_read_is_no_part_of_its_identity(tmp_path, computed):
    evaluate(CODES, VALUES, ("mig", "r2_linear"), 0, store=tmp_path)
    computed.clear()
    evaluate(CODES, VALUES, ("mig", "r2_linear"), 1, store=tmp_path)  # another split
    evaluate(CODES, VALUES, ("mig", "r2_linear"), 0, variances=np.ones_like(CODES), store=tmp_path)
    evaluate(CODES, VALUES, ("mig", "r2_linear"), 0, test=(CODES[:, :60], VALUES[:60]), store=tmp_path)
    assert computed == [("r2_linear", 6), ("r2_linear", 6)]
    weighted = evaluate(CODES, VALUES, "mig", weights=VALUES[:, 0] + 1, store=tmp_path)
    assert computed[2:] == [("mig", 6)]
    assert_same(weighted, evaluate(CODES, VALUES, "mig", weights=VALUES[:, 0] + 1))


def test_members_draw_by_their_numbers(tmp_path, computed):
    forest = {"forest": METRICS["dci_forest"].with_options(trees=2, depth=2, choose_depth=False)}
    kept = evaluate(CODES[:2], VALUES, forest, 0, store=tmp_path)
    computed.clear()
    again = evaluate(CODES[1:2], VALUES, forest, 0, store=tmp_path, numbers=[1])
    assert again["forest.completeness"] == kept["forest.completeness"][1]
    assert computed == []
    evaluate(CODES[1:2], VALUES, forest, 0, store=tmp_path)  # number 0 draws others
    assert computed == [("forest", 1)]


def test_factors_that_lack_values(tmp_path, computed):
    lacking = np.where(RNG.random(VALUES.shape) < 0.1, np.nan, VALUES)
    factors = Factors.from_table({f"f{j}": lacking[:, j] for j in range(2)}, missing="each")
    plain = evaluate(CODES[:2], factors, ("mig", "sap_r2"))
    assert_same(plain, evaluate(CODES[:2], factors, ("mig", "sap_r2"), store=tmp_path))
    computed.clear()
    assert_same(plain, evaluate(CODES[:2], factors, ("mig", "sap_r2"), store=tmp_path))
    assert computed == []


@pytest.mark.parametrize("stopped_at", [1, 2, 4])
def test_a_run_that_was_stopped_ends_in_the_same_bytes(stopped_at, tmp_path, monkeypatch):
    monkeypatch.setattr(_kept, "MOST", 3)
    monkeypatch.setattr(_kept, "FEW", 1)
    monkeypatch.setattr(_run, "seconds_of", lambda stage: float(stage[0][0] == "sepin"))
    plan = ("mig", "sap_r2", "sepin")  # the last one draws by the number of the member
    evaluate(CODES, VALUES, plan, store=tmp_path / "whole")
    calls, compute = [], _run.compute

    def stopped(request, arrived=None):
        calls.append(request)
        if len(calls) == stopped_at:
            raise KeyboardInterrupt
        return compute(request, arrived)

    monkeypatch.setattr(_run, "compute", stopped)
    with pytest.raises(KeyboardInterrupt):
        evaluate(CODES, VALUES, plan, store=tmp_path / "stopped")
    evaluate(CODES, VALUES, plan, store=tmp_path / "stopped")
    assert len(calls) == 5  # two batches of members by two turns, and the one that was stopped
    left = {name: content for name, content in bytes_of(tmp_path / "stopped").items() if name.startswith("score")}
    assert left == {name: of for name, of in bytes_of(tmp_path / "whole").items() if name.startswith("score")}


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_damaged_records_are_computed_again(suffix, tmp_path, computed):
    plain = evaluate(CODES, VALUES, ("mig", "sap_r2"), store=tmp_path)
    name = sorted(Store(tmp_path).ids("score"))[0]
    Store(tmp_path).path("score", name, suffix).write_bytes(b"damaged")
    _kept.opened.cache_clear()
    computed.clear()
    with pytest.warns(RuntimeWarning, match="is damaged and computed again"):
        assert_same(plain, evaluate(CODES, VALUES, ("mig", "sap_r2"), store=tmp_path))
    assert len(computed) == 1


def test_another_process_that_was_first_is_believed(tmp_path, monkeypatch, computed):
    evaluate(CODES, VALUES, "mig", store=tmp_path / "first")
    locked = _kept.locked

    def after_the_other(path):
        (tmp_path / "second" / "score").symlink_to(tmp_path / "first" / "score")
        return locked(path)

    monkeypatch.setattr(_kept, "locked", after_the_other)
    computed.clear()
    evaluate(CODES, VALUES, "mig", store=tmp_path / "second")
    assert computed == []


def test_codes_that_are_not_sound_are_warned_of_again(tmp_path):
    codes = CODES.copy()
    codes[4, 0, 0] = np.nan
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"1 non-finite values in 1 of 6 members \(4\)"):
            scores = evaluate(codes, VALUES, "mig", store=tmp_path)
        assert np.isnan(scores["mig"]).tolist() == [False] * 4 + [True, False]


def test_members_are_told_of_as_they_are_taken_or_computed(tmp_path):
    evaluate(CODES[:2], VALUES, "mig", store=tmp_path)
    tables, counts = [], []
    how = {"arrived": tables.append, "progress": lambda done, total: counts.append((done, total))}
    evaluate(CODES, VALUES, ("mig", "dci_forest"), store=tmp_path, **how)
    assert [list(table)[0] for table in tables] == ["mig", "dci_forest.disentanglement"]
    assert counts == [(3, 6), (6, 6)]


class Answer(NamedTuple):
    score: Float[Array, ""]


def one(codes, factors) -> Answer:
    return Answer(jnp.mean(codes))


def another(codes, factors) -> Answer:
    return Answer(2 * jnp.mean(codes))


def test_a_function_of_ones_own_has_new_numbers_when_its_text_changes(tmp_path):
    another.__name__ = one.__name__
    scores = [evaluate(CODES, VALUES, {"mine": Direct(Spec(f))}, store=tmp_path)["mine"] for f in (one, another)]
    np.testing.assert_allclose(scores[1], 2 * scores[0])


@pytest.mark.parametrize("held", [{"scores": 2}, {"name": "quickstart", "trainings": []}], ids=["other", "study"])
def test_folders_of_something_else_are_refused(held, tmp_path):
    (tmp_path / "study.json").write_text(json.dumps(held))
    with pytest.raises(StoreError, match="must be a folder of scores, or a new one, got one with"):
        evaluate(CODES, VALUES, "mig", store=tmp_path)


def test_sensitivity_and_tables_of_blends_are_kept_as_well(tmp_path, computed):
    how = {"options": {"bins": (5, 10)}, "samples": (60, 120), "arguments": {"store": tmp_path}}
    plain = jaxdis.sensitivity(CODES, VALUES, "mig", options=how["options"], samples=how["samples"])
    for _ in range(2):
        found = jaxdis.sensitivity(CODES, VALUES, "mig", **how)
        np.testing.assert_array_equal(found.scores["mig"], plain.scores["mig"])
    assert len(computed) == 4  # two without a store, one for each number of samples with it


@pytest.mark.parametrize("name", SOURCES)
def test_every_metric_is_kept_as_it_is_computed(name, tmp_path):
    if METRICS[name].source.needs_validation:
        pytest.skip("needs validation samples")
    plan = shortened_plan(family(name))
    plain = evaluate(CODES[:2], VALUES, plan, 0)
    for _ in range(2):
        assert_same(plain, evaluate(CODES[:2], VALUES, plan, 0, store=tmp_path))
