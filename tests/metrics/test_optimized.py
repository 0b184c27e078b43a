"""What every row does in the programs that users run: compiled with optimization, on codes with ties.

A compiler may compute a value anew for each reader, contract products with sums and turn quotients into products. Equal
samples then differ in the last place, unless the code takes care of it: see "Exact comparisons" in CONTRIBUTING.
"""

import functools

import jax
import numpy as np
import pytest

from jaxdis import METRICS, RELATIONS, Blend, Factors, evaluate
from jaxdis.factors import Sample
from jaxdis.metrics._metric import apply
from jaxdis.relations import _binning as binning
from tests.metrics.test_contracts import columns, family, shortened, shortened_plan

SIZES = (3, 5, None, 2)
ONE_DEVICE = {"devices": jax.devices()[:1]}
# Searches that end at another place after another rounding: how far scores may then lie apart.
#  infoe and dci_es: with little or no penalty, nearly separable classes have a flat optimum.
#  The others train by gradient descent.
APART = {"infoe": 1e-3, "nk": 0.05, "mlp_probe": 0.05, "linear_probe": 0.02, "dci_es": 1e-4}
APART["mutual_information_neural"] = 1e-3  # 2e-4 between a member in a batch and alone

pytestmark = pytest.mark.optimized


@functools.cache
def tied(n: int) -> tuple[np.ndarray, Factors]:
    """Four members of four codes: on a grid, whole numbers, half of them zero, and free; every sample twice."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, v, n) if v else rng.normal(size=n).round(1) for v in SIZES], axis=1)
    codes = np.einsum("nk,mkd->mnd", values, rng.normal(size=(4, len(SIZES), 4))) + 0.3 * rng.normal(size=(4, n, 4))
    codes[..., 0] = (codes[..., 0] / 0.03).round() * 0.03
    codes[..., 1] = codes[..., 1].round()
    codes[..., 2] = np.maximum(codes[..., 2], 0)
    codes[:, n // 2 :], values[n // 2 :] = codes[:, : n - n // 2], values[: n - n // 2]
    return codes.astype(np.float32), Factors.of(values, SIZES)


def assert_close(name: str, scores: dict, others: dict) -> None:
    for column, values in scores.items():
        # Distances and informations of several nats are rounded in proportion.
        np.testing.assert_allclose(values, others[column], atol=APART.get(name, 1e-5), rtol=1e-6, err_msg=column)


FEW, MANY = 50, 2000
FAMILIES = dict.fromkeys(map(family, METRICS))
slow = pytest.mark.slow
# What scores a relation does so in few operations on its matrix, whatever the number of samples.
SIZED = [pytest.param(names, FEW, id=f"{'-'.join(names)}-{FEW}") for names in FAMILIES]
SIZED += [
    pytest.param(names, MANY, id=f"{'-'.join(names)}-{MANY}", marks=slow)
    for names in FAMILIES
    if not isinstance(METRICS[names[0]], Blend)
]


@pytest.mark.parametrize(("names", "n"), SIZED)
def test_a_member_scores_the_same_alone_and_in_batches(names, n):
    """Of four members in batches of two, a member of either."""
    codes, factors = tied(n)
    plan = shortened_plan(names)
    zoo = columns(evaluate(codes, factors, plan, batch_size=2, **ONE_DEVICE))
    for member in (0, 3):
        alone = columns(evaluate(codes[member], factors, plan, numbers=[member], **ONE_DEVICE))
        assert_close(names[0], {column: values[member] for column, values in zoo.items()}, alone)


@pytest.mark.parametrize("n", [FEW, pytest.param(MANY, marks=slow)])
@pytest.mark.parametrize("name", RELATIONS)
def test_a_relation_is_the_same_in_a_batch_and_without_jit(name, n):
    codes, factors = tied(n)
    codes = codes if n == MANY else codes[:1]
    spec = shortened(RELATIONS[name])

    def relation(codes):
        sample = Sample(codes, factors)
        return jax.tree.leaves(apply(spec, jax.random.key(0), sample, sample))

    together = jax.jit(jax.vmap(relation))(codes)
    jax.config.update("jax_disable_most_optimizations", True)  # each operation is a program, compiled sooner so
    try:
        for left, right in zip(together, relation(codes[-1]), strict=True):
            np.testing.assert_allclose(left[-1], right, atol=APART.get(name, 1e-5))
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.parametrize("bins", [10, 20, 30])
def test_equal_width_bins_are_those_of_numpy_at_every_edge(bins):
    """Of codes on grids, whose values lie at the edges themselves."""
    place = jax.jit(binning.equal_width_bins, static_argnums=1)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        free = rng.normal(size=(50, 3))
        codes = np.c_[(free[:, 0] / 0.03).round() * 0.03, free[:, 1:].round((1, 2)[seed % 2]), rng.integers(0, 21, 50)]
        codes = codes.astype(np.float32)
        edges = [np.histogram(code, bins)[1] for code in codes.T]
        number = [np.digitize(code, edge[:-1]) - 1 for code, edge in zip(codes.T, edges, strict=True)]
        np.testing.assert_array_equal(place(codes, bins), np.stack(number, axis=1))
