"""XMIG, DMIG and DLIG: against the outputs of latte, and on bits of which all information is known."""

import numpy as np
import pytest

from jaxdis import METRICS, evaluate, relate

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
