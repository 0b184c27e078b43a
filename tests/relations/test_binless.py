"""Relations without bins, and EDI, against the reference implementation and known truths."""

import jax
import numpy as np
import pytest

from jaxdis import METRICS, RELATIONS, Factors, evaluate, relate
from jaxdis.data import synthetic
from jaxdis.relations import impact_intensity
from tests.golden_values import numbers
from tests.programs import compiled_whole

impact = compiled_whole(impact_intensity)

# The authors' form: the joint estimate alone divides, and nothing guards it.
AUTHORS = {"capped": False, "noise": 0.0}


calibration = jax.jit(synthetic.calibration, static_argnums=(0, 2))


def calibration_case(case):
    expected = numbers("calibration")["cases"][case]
    cells, k = np.array(expected["cells"]), expected["num_factors"]
    rows = np.repeat(cells[:, :-1], cells[:, -1], axis=0)
    return rows[:, k:].astype(np.float32), Factors.of(rows[:, :k])


@pytest.mark.parametrize("case", synthetic.CASES)
def test_calibration_cases_equal_the_reference_up_to_its_noise(case):
    """The reference breaks ties by 1e-10 noise, which scatters by up to 0.01 nats; here the ties are met exactly."""
    expected = numbers("nearest")["calibration_edi_seed_0"][case]
    codes, factors = calibration_case(case)
    pairwise = relate(codes, factors, "mutual_information_neighbors").strength
    np.testing.assert_allclose(pairwise, expected["ksg_mi_matrix"], atol=0.015)
    # And lie by the plug-in values less their bias, since every cell holds many samples.
    plain = RELATIONS["mutual_information"].with_options(bins=100, correction="miller_madow")
    np.testing.assert_allclose(pairwise, relate(codes, factors, plain).strength, atol=2e-3)
    joint = relate(codes, factors, RELATIONS["impact_intensity"].with_options(**AUTHORS))
    captured = np.asarray(joint.fit) * np.asarray(relate(codes, factors, "mutual_information").ceiling)
    np.testing.assert_allclose(captured, np.minimum(expected["captured_mi"], 2.1972), atol=0.015)


@pytest.mark.parametrize("case", synthetic.CASES)
def test_edi_of_a_calibration_case_is_the_references(case):
    """Over five draws each; the cases that hide a permutation scatter by the draw, of the others three are enough."""
    expected = numbers("nearest")["calibration_edi_over_five_seeds"][case]
    metric = {"edi": METRICS["edi"].with_options(**AUTHORS)}
    draws = 3 if case.startswith("1") else 5
    found = [evaluate(*calibration(case, jax.random.key(s), 20_000), metric) for s in range(draws)]
    for aspect in ("modularity", "compactness", "explicitness"):
        mean = np.mean([scores[f"edi.{aspect}"] for scores in found])
        reference = expected[f"edi_{aspect}"]
        # Two means of five draws differ by up to 3 σ √(2 / 5); 0.01 for the reference's noise and network.
        assert mean == pytest.approx(reference["mean"], abs=1.9 * reference["std"] + 0.01), aspect


def test_edi_is_undefined_where_no_code_carries_information():
    codes, factors = synthetic.noise(1.0, jax.random.key(0), 2000, num_factors=3)
    scores = evaluate(codes, factors, "edi")
    assert np.isnan(scores["edi.modularity"])
    assert np.isnan(scores["edi.compactness"])
    assert scores["edi.explicitness"] < 0.02
    unguarded = evaluate(codes, factors, {"edi": METRICS["edi"].with_options(**AUTHORS)})
    assert unguarded["edi.compactness"] > 0  # what the guard is for: a ratio of two estimates of nothing


def test_the_share_of_a_perfect_code_beside_noise_is_capped():
    """Nearest neighbors among all codes miss some of what this code says alone."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, (60, 1))
    codes = np.concatenate([values, rng.normal(size=(60, 5))], axis=1).astype(np.float32)
    relation = impact(jax.random.key(0), codes, Factors.of(values, (4,)))
    assert np.asarray(relation.strength)[0, 0] == pytest.approx(1)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_edi_does_not_mind_a_monotone_warp(alpha):
    scores = evaluate(*synthetic.warp(alpha, jax.random.key(0), 2000, num_factors=3), "edi")
    assert scores["edi.modularity"] == pytest.approx(1, abs=0.02)
    assert scores["edi.compactness"] == pytest.approx(1, abs=0.02)


def test_capped_shares_are_of_the_larger_estimate():
    codes, factors = synthetic.rotation(0.2, jax.random.key(0), 2000, num_factors=3)
    plain = relate(codes, factors, RELATIONS["impact_intensity"].with_options(capped=False, noise=0.0)).strength
    capped = relate(codes, factors, RELATIONS["impact_intensity"].with_options(noise=0.0)).strength
    plain = np.asarray(plain)
    np.testing.assert_allclose(capped, plain / np.maximum(plain.max(axis=0), 1), rtol=1e-5)


def test_kinds_of_factors_keep_their_columns():
    rng = np.random.default_rng(0)
    values = np.c_[rng.random(400), rng.integers(0, 4, 400), rng.random(400), rng.integers(0, 3, 400)]
    codes = (values + 0.1 * rng.normal(size=values.shape)).astype(np.float32)
    found = relate(codes, Factors.of(values, (None, 4, None, 3)), "impact_intensity")
    assert (np.asarray(found.strength).argmax(axis=0) == np.arange(4)).all()
    assert (np.asarray(found.fit) > 0.3).all()


def test_networks_are_asked_for_by_name():
    codes, factors = synthetic.calibration("111", jax.random.key(0), 4000)
    few = {"max_epochs": 12}
    neural = relate(codes, factors, RELATIONS["mutual_information_neural"].with_options(**few)).strength
    exact = relate(codes, factors, "mutual_information").strength
    np.testing.assert_allclose(neural, exact, atol=0.11)  # 5 % of log 9
    both = RELATIONS["impact_intensity"].with_options(pairwise="neural", joint="neural", **few)
    shares = np.asarray(relate(codes, factors, both).strength)
    np.testing.assert_allclose(shares, np.eye(2), atol=0.06)
