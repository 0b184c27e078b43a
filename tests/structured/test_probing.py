"""Algorithm 1: orders of slots against brute force and planted truth; the trace; encodings of categories."""

import functools
import itertools

import jax
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from jaxdis.factors import Factors
from jaxdis.structured import best_orders, probe, take_slots
from jaxdis.structured._probing import basis, layout_of, mixing
from tests.programs import compiled_whole
from tests.structured.planted import columns, plant, recovered, shapes

best_orders, take_slots, mixing = map(compiled_whole, (best_orders, take_slots, mixing))


def problem(seed, n, slots, dims=3, targets=4):
    rng = np.random.default_rng(seed)
    codes, coefficients = rng.normal(size=(n, slots, dims)), rng.normal(size=(slots, dims, targets))
    wanted = rng.normal(size=(n, targets)) * 2
    return tuple(np.asarray(array, np.float32) for array in (codes, wanted, coefficients))


def errors(codes, wanted, coefficients, orders):
    says = np.einsum("nsi,sic->nc", np.asarray(take_slots(codes, np.asarray(orders, np.int32))), coefficients)
    return ((np.asarray(wanted) - says) ** 2).sum(axis=1)


@pytest.mark.parametrize("slots", [1, 2, 5, 7])
def test_exact_orders_are_those_of_brute_force(slots):
    """300 samples make a second, partly empty block; 7! orders come in chunks."""
    n = 300 if slots < 7 else 20
    codes, wanted, coefficients = problem(slots, n, slots)
    current = np.tile(np.arange(slots, dtype=np.int32), (n, 1))
    found = best_orders(codes, wanted, coefficients, current)
    every = [np.tile(order, (n, 1)) for order in itertools.permutations(range(slots))]
    least = np.min([errors(codes, wanted, coefficients, order) for order in every], axis=0)
    np.testing.assert_allclose(errors(codes, wanted, coefficients, found), least, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("slots", [5, 9])
def test_search_never_loses_and_is_near_the_optimum(slots):
    codes, wanted, coefficients = problem(slots, 300, slots)
    current = np.tile(np.arange(slots, dtype=np.int32), (300, 1))
    found = np.asarray(best_orders(codes, wanted, coefficients, current, exact=False))
    assert (np.sort(found, axis=1) == np.arange(slots)).all()
    before, after = errors(codes, wanted, coefficients, current), errors(codes, wanted, coefficients, found)
    assert (after <= before + 1e-3).all()
    for a, b in itertools.combinations(range(slots), 2):  # no exchange of two slots is better
        swapped = found.copy()
        swapped[:, [a, b]] = swapped[:, [b, a]]
        assert (errors(codes, wanted, coefficients, swapped) >= after - 1e-3).all()
    if slots == 5:
        best = errors(codes, wanted, coefficients, best_orders(codes, wanted, coefficients, current))
        assert (after < best + 1e-3).mean() > 0.4  # random problems are its worst case
        assert after.mean() < before.mean() / 2


@functools.partial(jax.jit, static_argnames=("categorical", "objects", "start", "iterations", "exact", "encoding"))
def run(codes, factors, **options):
    return probe(codes, factors, **options)


@pytest.mark.parametrize(
    ("objects", "seed", "samples", "encoding"),
    [(3, 0, 1000, "ordered"), (6, 3, 1000, "ordered"), (4, 2, 600, "one_hot"), (8, 1, 400, "ordered")],
)
def test_planted_orders_are_recovered(objects, seed, samples, encoding):
    """In at least 99 % of the samples of a local group, shuffled at random, up to one global renaming.

    Orders of more than seven slots are searched.
    """
    planted = plant(seed, objects, samples=samples)
    how = {"categorical": shapes(objects), "objects": columns(objects), "encoding": encoding}
    assert recovered(run(planted.codes, planted.factors, **how).orders, planted.held) >= 0.99
    # The order that came is one of 6 or more: it is right by chance.
    assert recovered(np.tile(np.arange(objects), (samples, 1)), planted.held) < (0.1 if objects > 3 else 0.25)


def test_algorithm_1_as_printed_recovers_them_too():
    planted = plant(0, 4)
    found = run(planted.codes, planted.factors, categorical=shapes(4), start="given")
    assert recovered(found.orders, planted.held) >= 0.99
    trace = np.asarray(found.trace)
    count = int(found.iterations)
    assert 2 < count < 50
    assert (np.diff(trace) <= 1e-5).all()
    assert trace[0] > 2 * trace[-1]
    assert (trace[count:] == trace[count - 1]).all()  # it stands still where it stopped
    longer = run(planted.codes, planted.factors, categorical=shapes(4), start="given", iterations=count)
    np.testing.assert_array_equal(longer.orders, found.orders)


def test_narrow_groups_need_a_start():
    """Where objects differ more than samples do, with as much noise, Algorithm 1 as printed ends badly."""
    rng = np.random.default_rng(0)
    center = rng.integers(5, 35, (4, 5))
    values = center + rng.integers(-3, 4, (1000, 4, 5))
    scaled = values / 20 - 1
    held = np.argsort(rng.random((1000, 4)), axis=1)
    codes = np.take_along_axis(np.tanh(scaled), held[:, :, None], axis=1) + 0.1 * rng.normal(size=(1000, 4, 5))
    factors = Factors.of(values.reshape(1000, 20), (40,) * 20)
    objects = tuple(tuple(range(5 * o, 5 * o + 5)) for o in range(4))
    best = run(np.asarray(codes, np.float32), factors, objects=objects)
    given = run(np.asarray(codes, np.float32), factors, start="given")
    assert recovered(best.orders, held) >= 0.97  # noise makes another order fit better now and then
    assert recovered(given.orders, held) < 0.5
    assert best.trace[-1] < given.trace[-1]


def test_m_step_is_ridge_regression():
    """The trace's first entry by scikit-learn, with numbers and a category of three classes as −1, 0, 1."""
    rng = np.random.default_rng(3)
    codes = rng.normal(size=(500, 2, 3)).astype(np.float32)
    score = codes[:, 0, 0] + 0.1 * rng.normal(size=500)
    classes = np.array([2, 0, 1])[np.digitize(score, [-0.5, 0.5])]  # along the code in the order 2, 0, 1
    number = (codes[:, 1, 1] * 3 + rng.normal(size=500)).round().astype(int)
    number -= number.min()
    factors = Factors.of(np.c_[classes, number])
    found = run(codes, factors, categorical=(0,), start="given", iterations=1)
    inputs = (codes - codes.mean((0, 1))) / codes.std((0, 1))
    best = np.inf
    for order in itertools.permutations((-1.0, 0.0, 1.0)):
        targets = np.c_[np.array(order)[classes], number]
        targets = (targets - targets.mean(0)) / targets.std(0)
        model = Ridge(alpha=1.0).fit(inputs.reshape(500, -1), targets)
        left = (targets - model.predict(inputs.reshape(500, -1))) ** 2
        best = min(best, (left.sum() + (model.coef_**2).sum()) / targets.size)
    assert found.trace[0] == pytest.approx(best, abs=1e-5)
    assert np.unique(np.round(np.asarray(found.targets)[:, 0], 4)).size == 3
    middle = np.asarray(found.targets)[classes == 0, 0].mean()
    low, high = sorted(np.asarray(found.targets)[classes == c, 0].mean() for c in (1, 2))
    assert low < middle < high


def test_encodings():
    values = np.array([[0, 2], [1, 1], [2, 0], [0, 1], [1, 1], [2, 2]], np.float32)
    for encoding, width in (("ordered", 1), ("one_hot", 3)):
        layout = layout_of((3, 3), (0,), encoding)
        table = np.asarray(compiled_whole(basis)(layout, values))
        table = table - table.mean(axis=0, keepdims=True)
        gram = table.T @ table / 6
        mix = mixing(layout, gram, 0.5 * gram)
        targets = table @ mix
        assert targets.shape == (6, width + 1)
        np.testing.assert_allclose((targets**2).mean(axis=0) @ layout.owner, 1.0, atol=1e-6)  # a factor has variance 1
    for sizes, encoding, message in (((None,), "ordered", "discrete"), ((9,), "ordered", "all their orders")):
        with pytest.raises(ValueError, match=message):
            layout_of(sizes, (0,), encoding)


def test_degenerate_inputs_are_defined():
    rng = np.random.default_rng(0)
    one_slot = run(np.asarray(rng.normal(size=(50, 1, 3)), np.float32), Factors.of(rng.integers(0, 3, (50, 2))))
    assert (np.asarray(one_slot.orders) == 0).all()
    still = run(np.ones((50, 3, 2), np.float32), Factors.of(np.zeros((50, 2), int), (3, 3)))
    assert np.isfinite(still.trace).all()
    codes = np.asarray(rng.normal(size=(60, 2, 2)), np.float32)
    more_objects = run(codes, Factors.of(rng.integers(0, 3, (60, 3))), objects=((0,), (1,), (2,)))
    assert np.isfinite(more_objects.trace).all()
    more_slots = run(
        np.asarray(rng.normal(size=(60, 4, 2)), np.float32),
        Factors.of(rng.integers(0, 3, (60, 2))),
        objects=((0,), (1,)),
    )
    assert (np.sort(np.asarray(more_slots.orders), axis=1) == np.arange(4)).all()
