"""Monotonicity and smoothness: against the outputs of latte on given paths, and on codes of which they are known."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics._dependent_gaps import Paths
from tests.programs import compiled_whole

PLACES = np.linspace(-1, 1, 9)
PATHS = (PLACES, PLACES**3 + 0.2 * PLACES, np.sign(PLACES - 0.1), np.sin(3 * PLACES), np.cos(5 * PLACES))
# Of latte-metrics 0.0.1a6 (latte.functional.interpolatability) on PATHS at PLACES, with liad_thresh=0.05.
LATTE = {
    "monotonicity": (1, 1, 1, 0, 0),
    "smoothness": (1, 0.6111111111111112, 0, 0.6579875141734927, 0.5182148266789315),
}


@pytest.mark.parametrize("name", LATTE)
def test_scores_of_a_path_are_those_of_latte(name):
    value, yes = np.tile(PATHS, (5, 1, 1)).astype(np.float32), np.ones(5, bool)
    paths = Paths(value, np.full(5, 0.25, np.float32), yes, yes, np.array(True))
    exact = {"tolerance": 1e-3} if name == "smoothness" else {}
    score = compiled_whole(METRICS[name].score.with_options(reg_dim=(0, 1, 2, 3, 4), **exact))(paths)
    np.testing.assert_allclose(score.per_factor, LATTE[name], atol=1e-5)
    assert score.score == pytest.approx(np.mean(LATTE[name]), abs=1e-5)


def test_codes_that_rise_bend_and_jump():
    values = np.random.default_rng(0).uniform(-1, 1, size=(5000, 4)).astype(np.float32)
    folded = np.where(values[:, 2] > 0, 3 - values[:, 2], values[:, 2])  # the middle values lie at both ends of a gap
    codes = np.stack([-values[:, 0], np.cbrt(values[:, 1]), folded, values[:, 3]], axis=1)
    values[:, 3] = values[:, 3] > 0
    scores = evaluate(codes, Factors.of(values, (None, None, None, 2)), ("monotonicity", "smoothness"))
    np.testing.assert_allclose(scores.part("monotonicity.per_factor")[[0, 1, 3]], 1)
    assert scores.part("monotonicity.per_factor")[2] < 0.9
    smooth = scores.part("smoothness.per_factor")
    assert smooth[0] == 1
    assert smooth[1] > 0.6 > 0.4 > smooth[3]


def exact_path(code: list[int], value: list[int], points: int) -> list[Fraction]:
    """The path by its words, in fractions: means over the nearest samples by rank, in which equal codes share one."""
    n, order = len(code), sorted(range(len(code)), key=code.__getitem__)
    ordered = [code[i] for i in order]
    alike = {c: Fraction(sum(v for d, v in zip(code, value, strict=True) if d == c), code.count(c)) for c in code}
    width, end = Fraction(n, points), min(round(n / points / 2), (n - 1) // 2)

    def below(rank):
        whole = math.floor(rank)
        return sum(alike[c] for c in ordered[:whole]) + (rank - whole) * (alike[ordered[whole]] if whole < n else 0)

    path = []
    for i in range(points):
        place = ordered[end] + (ordered[n - 1 - end] - ordered[end]) * Fraction(i, points - 1)
        middle = Fraction(sum(c < place for c in ordered) + sum(c <= place for c in ordered), 2)
        middle = min(max(middle, width / 2), n - width / 2)
        path.append((below(middle + width / 2) - below(middle - width / 2)) / width)
    return path


@pytest.mark.parametrize("levels", [(0, 1, 2, 3), (0, 1), (0, 2, 3, 5, 9), (-4, 0, 1, 8)])
def test_codes_with_few_values_do_not_depend_on_rounding(levels):
    """Places in such a code hit its values but for rounding: a perfect code of four values had .10, and .25 if × .3."""
    rng = np.random.default_rng(len(levels))
    shares = rng.dirichlet(np.ones(len(levels)))
    code = np.array(levels)[rng.choice(len(levels), 120, p=0.5 * shares + 0.5 / len(levels))]
    value = np.searchsorted(levels, code)
    slope = np.diff([float(each) for each in exact_path(code.tolist(), value.tolist(), 10)])
    bend = np.abs(np.diff(slope))
    expected = 1 - (bend**2).sum() / bend.sum() / np.ptp(slope)
    zoo = np.stack([scale * code + shift for scale, shift in ((1, 0), (0.1, 0), (0.3, 0), (-1 / 3, 2), (np.pi, -7))])
    scores = evaluate(zoo[:, :, None].astype(np.float32), value[:, None], ("smoothness", "monotonicity"))
    np.testing.assert_allclose(scores["smoothness"], expected, atol=1e-4)
    np.testing.assert_allclose(scores["monotonicity"], 1)
