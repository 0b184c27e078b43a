"""XMIG, DMIG, DLIG, monotonicity and smoothness: against the outputs of latte, and on codes of known answers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate, relate
from jaxdis.metrics._dependent_gaps import Paths
from tests.programs import compiled_whole

NAMES = ("xmig", "dmig", "dlig")
# Of latte-metrics 0.0.1a6 (latte.functional.disentanglement.mutual_info, scikit-learn 1.9.1) on `planted()` with
# reg_dim=[2, 0, 1] and discrete=True: each score times its denominator, whose entropies are nearest-neighbor estimates
# there and exact here.
GAPS = {
    "xmig": (0.4286277, 0.6812583, 0.3894092),
    "dmig": (0.4286277, 0.5637079, 0.3894092),
    "dlig": (0.5889650, 0.5721419, 0.5901299),
}


def planted():
    """Two factors that agree in 60 % of the samples, one that is free; codes of each, of two together, and noise."""
    rng = np.random.default_rng(5)
    a = rng.integers(0, 4, 600)
    b = np.where(rng.random(600) < 0.6, a, rng.integers(0, 4, 600))
    c = rng.integers(0, 3, 600)
    codes = np.stack([b, c, a, a + c, 0 * a], axis=1) + 0.5 * rng.normal(size=(600, 5))
    return codes.astype(np.float32), np.stack([a, b, c], axis=1)


def entropy(*columns) -> float:
    shares = np.unique(np.stack(columns), axis=1, return_counts=True)[1] / len(columns[0])
    return float(-(shares * np.log(shares)).sum())


def test_gaps_are_those_of_latte():
    codes, values = planted()
    a, b, c = values.T
    plan = {name: METRICS[name].with_options(reg_dim=(2, 0, 1), estimator="neighbors") for name in NAMES}
    scores = evaluate(codes, values, plan)
    alone = [entropy(column) for column in (a, b, c)]
    # The next code is that of a and c together, which is no factor's own, or for b that of a. The code of c says
    # nothing of a and b, of which latte takes the last and jaxdis the first.
    possible = {
        "xmig": alone,
        "dmig": [alone[0], entropy(b, a) - alone[0], alone[2]],
        "dlig": [entropy(a, b) - alone[1], entropy(b, a) - alone[0], entropy(c, a) - alone[0]],
    }
    for name in NAMES:
        expected = np.array(GAPS[name]) / possible[name]
        np.testing.assert_allclose(scores.part(f"{name}.per_factor"), expected, atol=2e-4, err_msg=name)


def test_dependence_of_factors_is_no_fault_of_the_codes():
    """The second bit of b is the bit a. Perfect codes: the gaps are as large as they can be, where MIG is lower."""
    a, other = (column.ravel() for column in np.meshgrid([0, 1], [0, 1], indexing="ij"))
    values = np.stack([a, a + 2 * other], axis=1).repeat(50, axis=0)
    scores = evaluate(values.astype(np.float32), values, ("mig", *NAMES))
    # a is known once b is: it cannot gain a gap. b has a bit of its own.
    np.testing.assert_allclose(scores.part("mig.per_factor"), [0, 0.5], atol=1e-5)
    np.testing.assert_allclose(scores.part("dmig.per_factor"), [0, 1], atol=1e-5)
    np.testing.assert_allclose(scores.part("dlig.per_factor"), [0, 1], atol=1e-5)
    np.testing.assert_allclose(scores.part("xmig.per_factor"), [1, 1], atol=1e-5)


def test_a_given_code_that_is_not_the_best_has_a_negative_gap():
    a, b = (column.ravel() for column in np.meshgrid([0, 1], [0, 1], indexing="ij"))
    values = np.stack([a, b], axis=1).repeat(50, axis=0)
    codes = values[:, [1, 0]].astype(np.float32)
    plan = {name: METRICS[name].with_options(reg_dim=(0, 1)) for name in NAMES}
    scores = evaluate(codes, values, plan)
    assert scores["dmig"] == scores["dlig"] == pytest.approx(-1, abs=1e-5)
    assert scores["xmig"] == 0
    assert evaluate(codes, values, NAMES)["dmig"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("reg_dim", [(0,), (0, 1, 5)])
def test_codes_of_factors_must_exist(reg_dim):
    with pytest.raises(ValueError, match="reg_dim: must be 3 numbers of codes from 0 to 4"):
        evaluate(*planted(), {"dmig": METRICS["dmig"].with_options(reg_dim=reg_dim)})


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("factors", [1, 2])
def test_a_single_code_has_no_next_one(extra, factors):
    """Without another code, the factor's own was taken for the next: H(y | y) = 0, and a perfect code scored 0."""
    values = np.stack([np.arange(300) % 5, np.arange(300) // 5 % 2], axis=1)[:, :factors]
    codes = np.c_[values[:, :1], np.ones((300, extra))].astype(np.float32)
    for active in (None, np.arange(1 + extra) == 0):
        scores = evaluate(codes, values, ("mig", *NAMES), active=active)
        for name in ("mig", *NAMES):
            np.testing.assert_allclose(scores.part(f"{name}.per_factor"), [1, 0][:factors], atol=1e-5, err_msg=name)


def test_own_codes_have_the_largest_shares_of_entropy_not_the_most_nats():
    """Two factors of 2 and 16 values; by nats, the second would take the better code of both."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, 2, 3000), rng.integers(0, 16, 3000)], axis=1)

    def code(first, second):
        bit = np.where(rng.random(3000) < first, values[:, 0], 1 - values[:, 0])
        return bit + 2.0 * np.where(rng.random(3000) < second, values[:, 1], rng.integers(0, 16, 3000))

    codes = np.stack([code(0.95, 0.6), code(0.75, 0.45)], axis=1).astype(np.float32)
    relation = relate(codes, values, METRICS["mig"].relation.with_options(bins=32))
    nats, shares = relation.strength, relation.strength / relation.ceiling[None, :]
    assert nats[0, 0] + nats[1, 1] < nats[1, 0] + nats[0, 1]
    assert shares[0, 0] + shares[1, 1] > shares[1, 0] + shares[0, 1]
    ways = {"free": {}, "given": {"reg_dim": (0, 1)}}
    scores = evaluate(
        codes,
        values,
        {f"{name} {way}": METRICS[name].with_options(bins=32, **how) for name in NAMES for way, how in ways.items()},
    )
    for name in NAMES:
        assert scores[f"{name} free"] == scores[f"{name} given"]


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
