"""Codes far from 0: the same numbers wherever they lie, or, of rows that ask where they lie, for both types."""

import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate, relate
from tests.metrics.test_contracts import SOURCES, family, quick_if, shortened_plan

RNG = np.random.default_rng(0)
VALUES = np.stack([RNG.integers(0, size, 200) for size in (3, 4)], axis=1)
FACTORS = Factors.of(VALUES, (3, 4))
# A normal code, one with heavy tails, one on a grid.
CODES = np.c_[
    VALUES[:, 0] + 0.3 * RNG.normal(size=200), VALUES[:, 1] + 0.1 * RNG.standard_t(2, 200), VALUES.sum(axis=1)
]
# In deviations; at 1e6, float64 leaves 1e-10 of a code.
OFFSETS = (1e2, 1e4, 1e6)
# They read where codes are.
PLACED = {name for name, metric in METRICS.items() if metric.source.traits.placed}


@pytest.mark.parametrize("name", quick_if(SOURCES, {"mig", "rmig", "mcc"}.__contains__))
def test_wide_codes_score_the_same_at_any_offset(name):
    """All members at once: offsets of members and of codes differ. Codes are shifted before any metric sees them."""
    far = np.stack([CODES, *(CODES + offset * CODES.std(axis=0).round(1) for offset in OFFSETS)])
    plan, same_key = shortened_plan(family(name)), {"numbers": [0] * 4}
    scores = evaluate(far, FACTORS, plan, test=(far, FACTORS), **same_key)
    if name in PLACED:
        far = far.astype(np.float32)
        expected = evaluate(far, FACTORS, plan, test=(far, FACTORS), **same_key)
        expected = {**expected.columns, **expected.parts}
    for column, values in {**scores.columns, **scores.parts}.items():
        for place, each in enumerate(values):
            other = expected[column][place] if name in PLACED else values[0]
            np.testing.assert_allclose(each, other, atol=1e-3, err_msg=f"{column} of member {place}")


def test_placed_rows_are_those_that_ask_where_codes_are():
    assert {METRICS[name].source.name for name in PLACED} == {"svm_accuracy", "mutual_information_sampled"}


def test_sampled_codes_beyond_the_bins_have_no_information_in_either_type():
    for given in (CODES + 5000, (CODES + 5000).astype(np.float32)):
        assert (relate(given, FACTORS, "mutual_information_sampled").strength == 0).all()


def test_a_bin_for_zero_is_for_zeros_alone():
    spec = METRICS["mig"].relation
    away = relate(CODES + 1e3, FACTORS, spec.with_options(zero="bin"))
    np.testing.assert_allclose(away.strength, relate(CODES + 1e3, FACTORS, spec).strength, atol=0.02)
