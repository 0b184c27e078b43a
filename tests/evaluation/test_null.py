"""What chance gives: the same codes for permuted factors."""

import csv
import io
import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, Blend, Direct, Factors, Scores, evaluate
from jaxdis._core.spec import Spec
from jaxdis.cli import main
from jaxdis.cli._score_command import Score
from jaxdis.evaluation import _member
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._request import Null, permuted
from jaxdis.evaluation._score_core import p_value
from jaxdis.metrics import metric

STRONGEST = {"information": Blend("mutual_information", "strongest")}


def noise(members, n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(members, n, d)).astype(np.float32), rng.integers(0, (3, 4), (n, 2))


def test_codes_that_know_nothing_are_as_good_as_chance():
    """p is one of 21 ranks, all equally likely: over 60 members, standard errors are 4 % of the range."""
    scores = evaluate(*noise(60), STRONGEST, null=20)
    name = next(iter(scores))
    ranks = np.round(21 * scores.p_value(name))
    assert set(ranks) <= set(range(1, 22))
    assert abs(scores.p_value(name).mean() - 0.5) < 0.15
    assert np.mean(scores.p_value(name) <= 0.25) == pytest.approx(0.25, abs=0.15)
    spread = scores.nulls[name].std()
    assert abs(scores.above_null(name).mean()) < spread / 2
    np.testing.assert_allclose(scores.above_null(name), scores[name] - scores.nulls[name].mean(axis=-1))


def test_planted_codes_are_better_than_all_permutations():
    codes, values = noise(1)
    codes[0, :, :2] = values
    scores = evaluate(codes[0], values, "mig", null=20)
    assert scores.p_value("mig") == pytest.approx(1 / 21)
    assert scores.null("mig") < 0.05 < 0.8 < scores.above_null("mig")


def test_codes_in_blocks_have_the_same_null(monkeypatch):
    codes, values = noise(2, d=40)
    whole = evaluate(codes, values, "mig", null=3)
    monkeypatch.setattr(_member, "WIDE", 1)
    monkeypatch.setattr(_member, "BLOCK_NUMBERS", 15 * codes.size // 40)
    np.testing.assert_allclose(evaluate(codes, values, "mig", null=3).nulls["mig"], whole.nulls["mig"], atol=2e-6)


def test_factors_of_a_sample_stay_together_within_their_role():
    codes, values = noise(1, n=50)
    test = (codes[0, :20] + 1, values[:20])
    shared = bind(codes[0], values, 0, test=test).shared
    first, second = permuted(shared, Null(2), 0), permuted(shared, Null(2), 1)
    for role, given in (("factors", values), ("test_factors", test[1])):
        moved = np.asarray(getattr(first, role).values)
        assert sorted(map(tuple, moved)) == sorted(map(tuple, given))
        assert (moved != given).any()
        assert (moved != np.asarray(getattr(second, role).values)).any()


def test_p_values():
    nulls = np.array([0.1, 0.2, 0.3, np.nan])
    assert p_value(0.25, nulls, error=False) == (1 + 2) / 5
    assert p_value(0.25, nulls, error=True) == (1 + 3) / 5
    assert p_value(0.3 + 1e-7, nulls, error=False) == (1 + 2) / 5  # equal but for rounding
    assert np.isnan(p_value(np.nan, nulls, error=False))


class Distance(NamedTuple):
    score: jax.Array


@metric(errors=("score",))
def distance(codes, factors) -> Distance:
    """Give the distance of the first code to the first factor."""
    return Distance(jnp.abs(codes[:, 0] - factors.values[:, 0].astype(jnp.float32)).mean())


def test_errors_are_best_when_they_are_low():
    codes, values = noise(1)
    codes[0, :, 0] = values[:, 0]
    scores = evaluate(codes[0], values, {"distance": Direct(Spec(distance)), "mig": METRICS["mig"]}, null=9)
    assert scores["distance"] == 0
    assert scores.above_null("distance") < 0
    assert scores.p_value("distance") == 0.1
    assert scores[["distance"]].p_value("distance") == 0.1


def test_metrics_of_codes_alone_have_no_null():
    codes, values = noise(1, 200, 3)
    scores = evaluate(codes[0], values, ("mig", "total_correlation"), null=2)
    with pytest.raises(ValueError, match="null: needs a metric that read factors, got total_correlation"):
        scores.p_value("total_correlation")
    with pytest.raises(ValueError, match="null: must have a metric that reads factors, got total_correlation"):
        evaluate(codes[0], values, "total_correlation", null=2)


def test_refusals():
    codes, values = noise(1, 200, 3)
    gaps = Factors.from_table({"a": [0.5, None] + [1.0, 2.5] * 99}, missing="each")
    for arguments, words in (
        ({"null": -1}, "null: must be a number of permutations from 0 to 100,000, or of shifts, such as .*, got -1"),
        ({"null": 2, "weights": np.ones(200)}, "null: must be left out with weights"),
        ({"null": 2, "factors": gaps}, "null: must have factors without missing values"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(codes[0], **{"factors": values, "metrics": "sap_r2", **arguments})
    with pytest.raises(ValueError, match=r"null: needs permutations; ask for them by evaluate\(..., null=20\)"):
        evaluate(codes[0], values, "sap_r2").null("sap_r2")


def test_zoos_have_no_null():
    with pytest.raises(ValueError, match="--null: goes with files of codes; a zoo encodes"):
        Score(null=2)._score_zoo(Path("zoo"), {}, None, {})


def test_tables_and_files(tmp_path):
    codes, values = noise(2, 200, 3)
    zoo = evaluate(codes, values, "sap_r2", null=4, members=["a", "b"])
    for scores in (zoo, zoo["b"]):
        numbers = scores.to_dict()
        fields = {"null": scores.null, "above_null": scores.above_null, "p": scores.p_value}
        for field, value_of in fields.items():
            np.testing.assert_allclose(numbers[f"sap_r2.{field}"], value_of("sap_r2"))
        assert "permuted factors" in repr(scores)
        assert "permuted factors" in scores._repr_html_()
        assert {"sap_r2.null", "sap_r2.p"} <= set(next(csv.reader(io.StringIO(scores.to_csv()))))
        scores.save(tmp_path / "scores.npz")
        np.testing.assert_array_equal(Scores.load(tmp_path / "scores.npz").p_value("sap_r2"), scores.p_value("sap_r2"))
    assert Scores.concat([zoo["b"], zoo["a"]]).nulls["sap_r2"].tolist() == zoo.nulls["sap_r2"][::-1].tolist()


def test_progress_counts_every_permutation():
    seen = []
    evaluate(*noise(2, 200, 3), "sap_r2", null=2, progress=lambda done, count: seen.append((done, count)))
    assert seen[-1] == (6, 6)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_command(tmp_path, capsys):
    codes, values = noise(1, 200, 3)
    codes[0, :, :2] = values
    np.savez(tmp_path / "codes.npz", codes=codes[0], factors=values)
    out = tmp_path / "scores.json"
    arguments = ["--metrics", "sap_r2", "--null", "9", "--json", str(out)]
    assert main(["score", str(tmp_path / "codes.npz"), *arguments]) == 0
    assert "above null" in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["sap_r2.p"] == 0.1
    assert found["sap_r2.above_null"] == pytest.approx(found["sap_r2"] - found["sap_r2.null"])
