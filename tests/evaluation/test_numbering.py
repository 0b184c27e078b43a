"""Classes that no sample has: neither scores nor programs depend on them, but values stay what they are."""

import jax
import numpy as np
import pytest

import jaxdis
from jaxdis import RELATIONS, Factors, evaluate, relate
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._run import shared_by, stages_of
from jaxdis.metrics._plan import plan_of
from tests.draws import representations

CODES, VALUES = representations(noise=0.3)
GAPS = np.array([3, 4, 9, 40])


def shared_in(metric, factors, test=None, validation=None):
    """What the members share in a metric's program, which is compiled for the sizes of its factors."""
    factors = Factors.checked(factors)
    _, shared, _ = bind(CODES, factors, test=test, validation=validation)
    (stage,) = stages_of(plan_of(metric))
    return shared_by(stage, shared)


@pytest.mark.parametrize("name", ["mig", "sap", "mig_ksg", "irs", "explicitness"])
def test_gaps_between_classes_change_nothing(name):
    plain, gaps = (evaluate(CODES, factors, name) for factors in (VALUES, GAPS[VALUES]))
    for column in plain:
        assert gaps[column] == plain[column]


@pytest.mark.parametrize("name", ["mcc", "sap_r2", "dci_lasso", "dci_forest"])
def test_values_keep_their_distances_where_they_are_read_as_values(name):
    """The correlation of a code with a factor is that of their values, whatever numbers are left out."""
    factors = shared_in(name, GAPS[VALUES]).factors
    assert factors.sizes == (10, 41)
    np.testing.assert_array_equal(np.asarray(factors.values), GAPS[VALUES])
    assert shared_in(name, Factors.of(GAPS[VALUES], (99, 99))).factors.sizes == (10, 41)
    if name == "mcc":
        codes = GAPS[VALUES[:, [0, 1, 0]]].astype(np.float32)
        assert evaluate(codes, GAPS[VALUES], name)["mcc"] == pytest.approx(1, abs=1e-6)


def test_classes_are_those_of_all_roles():
    """A class that training lacks has the same number in all samples, and counts."""
    others = (CODES[:50], np.full((50, 2), 60))
    factors = Factors.of(GAPS[VALUES], (99, 99))
    shared = shared_in("sap", factors, test=others, validation=(CODES[:50], np.full((50, 2), 3)))
    assert shared.factors.sizes == shared.test_factors.sizes == shared.validation_factors.sizes == (4, 5)
    np.testing.assert_array_equal(np.asarray(shared.factors.values), VALUES)
    np.testing.assert_array_equal(np.asarray(shared.test_factors.values)[0], [3, 4])
    np.testing.assert_array_equal(np.asarray(shared.validation_factors.values)[0], [0, 0])


def test_continuous_factors_stay_beside_numbered_ones():
    mixed = Factors.of(np.c_[GAPS[VALUES[:, 0]], CODES[:, 1]], (50, None))
    factors = shared_in("mig", mixed).factors
    assert factors.sizes == (3, None)
    np.testing.assert_array_equal(np.asarray(factors.values), np.c_[VALUES[:, 0], CODES[:, 1]].astype(np.float32))


def test_a_relation_of_its_own_and_a_function_of_a_user():
    trees = RELATIONS["boosted_trees"].with_options(splitter="histogram", stages=2, depth=1)
    plain, gaps = (relate(CODES, factors, trees).strength for factors in (VALUES, GAPS[VALUES]))
    np.testing.assert_array_equal(plain, gaps)

    def largest(codes, factors):
        return jaxdis.relations.Relation.of(jax.numpy.full((3, 2), float(max(factors.sizes))), jax.numpy.ones(2))

    assert relate(CODES, GAPS[VALUES], jaxdis.Spec(largest)).strength.max() == 41
