"""Relations without bins, EDI, and the scores of drvi, against reference implementations and known truths."""

import itertools

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
# Each of the three properties with each value of the others.
CASES = ("000", "011", "101", "110")

calibration = jax.jit(synthetic.calibration, static_argnums=(0, 2))


def calibration_case(case):
    expected = numbers("calibration")["cases"][case]
    cells, k = np.array(expected["cells"]), expected["num_factors"]
    rows = np.repeat(cells[:, :-1], cells[:, -1], axis=0)
    return rows[:, k:].astype(np.float32), Factors.of(rows[:, :k])


@pytest.mark.parametrize("case", CASES)
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


@pytest.mark.parametrize("case", CASES)
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


def test_edi_does_not_mind_a_monotone_warp():
    scores = evaluate(*synthetic.warp(0.5, jax.random.key(0), 2000, num_factors=3), "edi")
    assert scores["edi.modularity"] == pytest.approx(1, abs=0.02)
    assert scores["edi.compactness"] == pytest.approx(1, abs=0.02)


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


# Of drvi-py 0.2.8 (DiscreteDisentanglementBenchmark, labels as one-hot columns, 10 bins) on `cells()`.
DRVI = {
    "LMS-SMI": 0.5600052536728735,
    "MSAS-SMI": 0.6058371506540414,
    "MSGS-SMI": 0.4625906294761319,
    "LMS-SPN": 0.5741893022045091,
    "MSAS-SPN": 0.5890601358238994,
    "MSGS-SPN": 0.4824556064690785,
    "LMS-ASC": 0.3640355327259761,
    "MSAS-ASC": 0.4085561341680185,
    "MSGS-ASC": 0.20456603836018833,
}


def cells() -> tuple[np.ndarray, np.ndarray]:
    """2,000 cells of nine types by a power law, the rarest in about 50, and six codes, some of two types."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, 10) ** 1.2
    types = rng.choice(9, 2000, p=share / share.sum())
    codes = rng.normal(size=(2000, 6))
    for j in range(6):
        codes[:, j] += 4 * (types == j) + (2 * (types == (j + 7) % 9) if j % 3 == 0 else 0)
    return codes.astype(np.float32), types


def test_scores_of_cells_are_those_of_drvi():
    codes, types = cells()
    found = evaluate(codes, Factors.of(types).one_hot(), preset="drvi")
    assert found.keys() == DRVI.keys()
    for column, expected in DRVI.items():
        assert found[column] == pytest.approx(expected, abs=2e-7), column


def by_counting(order, classes, size: int) -> float:
    """The mean over classes, or that of class 1 of two, for one order of samples."""
    ordered = np.asarray(classes)[list(order)]
    aligned = []
    for value in [1] if size == 2 else range(size):
        here = ordered == value
        share = here.mean()
        aligned.append(max(0, ((here[1:] & here[:-1]).sum() / (here.sum() - 1) - share) / (1 - share)))
    return float(np.mean(aligned))


@pytest.mark.parametrize("size", [2, 3])
def test_alignment_counts_pairs(size):
    rng = np.random.default_rng(size)
    codes, classes = rng.normal(size=(60, 2)).astype(np.float32), rng.integers(0, size, (60, 1))
    codes[:, 1] = classes[:, 0] + 0.3 * codes[:, 0]
    found = relate(codes, classes, "neighbor_alignment").strength[:, 0]
    expected = [by_counting(np.argsort(code), classes[:, 0], size) for code in codes.T]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_equal_codes_count_as_in_random_order():
    """The mean number of pairs over all orders of samples that keep the order of codes."""
    codes, classes = np.array([0, 0, 0, 1, 1, 2, 3, 4, 5], np.float32), np.array([1, 1, 0, 1, 0, 0, 0, 0, 0])
    orders = [(*a, *b, 5, 6, 7, 8) for a in itertools.permutations(range(3)) for b in itertools.permutations((3, 4))]
    pairs = np.mean([(classes[list(order)][1:] & classes[list(order)][:-1]).sum() for order in orders])
    assert pairs == pytest.approx(1)
    found = relate(codes[:, None], classes[:, None], "neighbor_alignment").strength
    assert found[0, 0] == pytest.approx((pairs / 2 - 1 / 3) / (1 - 1 / 3), abs=1e-6)
