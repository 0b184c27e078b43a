"""Alignment of neighbors, and the scores of drvi: against its outputs, and by counting pairs."""

import itertools

import numpy as np
import pytest

from jaxdis import Factors, evaluate, relate

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
