"""The best codes of a factor, among many."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

from jaxdis import Direct, Scores, Spec, evaluate, plots, relate
from jaxdis.evaluation import _member, _request


class Mean(NamedTuple):
    score: jax.Array


MEAN = Direct(Spec(lambda codes, factors: Mean(codes.mean())))


def planted(n=500, d=2000):
    """Codes 3 d / 4, 2 and d − 1 copy the second factor in all, nine in ten and four in five samples."""
    rng = np.random.default_rng(0)
    values, codes = rng.integers(0, 4, (n, 2)), rng.normal(size=(n, d)).astype(np.float32)
    for code, share in ((3 * d // 4, 1), (2, 0.9), (d - 1, 0.8)):
        codes[:, code] = np.where(rng.random(n) < share, values[:, 1], rng.integers(0, 4, n))
    return codes, values


def test_planted_codes_come_first_and_chance_is_told():
    codes, values = planted()
    rows = evaluate(codes, values, "mig", null=4).top("factor_1")
    assert [row["rank"] for row in rows] == list(range(1, 11))
    assert [row["code"] for row in rows[:3]] == [1500, 2, 1999]
    assert rows[0]["share"] == pytest.approx(1, abs=1e-5)
    strength = np.asarray(relate(codes, values, "mutual_information").strength)[:, 1]
    np.testing.assert_allclose([row["value"] for row in rows], np.sort(strength)[:-11:-1], atol=1e-6)
    assert [row["p"] for row in rows[:3]] == [0.2] * 3
    assert rows[9]["p"] > 0.5  # of 1,997 codes of noise, not even the best
    assert plots.top_codes(rows).axes[0].get_yticklabels()[0].get_text() == "code 1500"


def test_intervals_are_those_of_the_strength():
    """With one code and one factor MIG is the share, up to the entropy of each replicate: within 30 %."""
    codes, values = planted(d=8)
    scores = evaluate(codes[:, 2:3], values[:, 1:], ("mig", "sap_r2"), bootstrap=30)
    (row,) = scores.top(0)
    width = (row["high"] - row["low"]) / (row["value"] / row["share"])
    assert width == pytest.approx(np.ptp(scores.interval("mig")), rel=0.3)
    assert row["low"] < row["value"] < row["high"]
    (row,) = scores.top(0, 1, "r2")
    np.testing.assert_allclose([row["low"], row["high"]], scores.interval("sap_r2"), rtol=1e-4)


def test_blocks_and_members_and_files(monkeypatch, tmp_path):
    codes, values = planted(d=40)
    zoo = evaluate(np.stack([codes, codes[:, ::-1]]), values, "mig")
    with pytest.raises(ValueError, match="top: must be asked of one member, got a zoo"):
        zoo.top(1)
    assert [zoo[member].top(1, 1)[0]["code"] for member in (0, 1)] == [30, 9]
    zoo[0].save(tmp_path / "scores.npz")
    assert Scores.load(tmp_path / "scores.npz").top(1) == zoo[0].top(1)
    assert Scores.concat([zoo[1], zoo[0]])[1].top(1) == zoo[0].top(1)
    monkeypatch.setattr(_member, "WIDE", 1)
    monkeypatch.setattr(_member, "BLOCK_NUMBERS", 15 * codes.size // 40)
    in_blocks = evaluate(codes, values, "mig").top(1, 3)
    assert [row["code"] for row in in_blocks] == [row["code"] for row in zoo[0].top(1, 3)]


def test_codes_that_are_constant_or_not_finite():
    codes, values = planted(d=8)
    codes[0, 2], codes[:, 3] = np.nan, 1
    with pytest.warns(RuntimeWarning, match="in codes 2"):
        rows = evaluate(codes, values, "mig").top(1)
    assert sorted(row["code"] for row in rows) == [0, 1, 3, 4, 5, 6, 7]
    assert rows[-1]["code"] == 3
    assert rows[-1]["value"] == 0


def test_refusals(monkeypatch):
    codes, values = planted(d=8)
    scores = evaluate(codes, values, "mig")
    for arguments, words in (
        (("shape",), "factor: must be one of factor_0, factor_1, or its number from 0, got 'shape'"),
        ((2,), "factor: must be one of factor_0, factor_1, or its number"),
        ((1, 0), "count: must"),
        ((1, 10, "r2"), "relation: must"),
    ):
        with pytest.raises(ValueError, match=words):
            scores.top(*arguments)
    with pytest.raises(ValueError, match="top: must have a relation that a metric scores"):
        evaluate(codes, values, {"mean": MEAN}).top(0)
    monkeypatch.setattr(_request, "MOST_KEPT", 15)
    assert not evaluate(codes, values, "mig").relations
    with pytest.raises(ValueError, match="rows: must be those of Scores.top"):
        plots.top_codes([])
