"""Factorizations equal NumPy's in every batch, and no program for a CPU has calls that can wait for each other."""

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis._core import factorizations as f
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member
from jaxdis.evaluation._run import shared_by
from jaxdis.metrics._plan import plan_of
from tests.metrics.test_contracts import every_source, family, shortened_plan
from tests.programs import equations_of

# What JAX lowers to calls of LAPACK or BLAS.
FACTORIZATIONS = {"cholesky", "eigh", "svd", "geqrf", "householder_product", "lu", "ormqr", "triangular_solve"}
CALL = re.compile(r"@(?:lapack|blas)_\w+\(.*?: \(tensor<((?:\d+x)+)f32>")


def products_of_reflections(right):
    vectors, scales = f.reflections(right)
    upper = jnp.triu(vectors.mT[..., : right.shape[-1], :])
    below = jnp.zeros((*right.shape[:-2], right.shape[-2] - right.shape[-1], right.shape[-1]))
    return f.reflected(vectors, scales, jnp.concatenate([upper, below], axis=-2))


NUMPY = np.linalg
# What is computed from positive matrices and right sides, and the same by NumPy.
ROWS = {
    "cholesky": (lambda m, r: f.cholesky(m), lambda m, r: NUMPY.cholesky(m)),
    "eigh": (lambda m, r: (lambda w, v: (v * w[..., None, :]) @ v.mT)(*f.eigh(m)), lambda m, r: m),
    "eigvalsh": (lambda m, r: f.eigvalsh(m), lambda m, r: NUMPY.eigvalsh(m)),
    "singular_values": (lambda m, r: f.singular_values(r), lambda m, r: NUMPY.svd(r, compute_uv=False)),
    "left_singular": (lambda m, r: (lambda u, _: u @ (u.mT @ r))(*f.left_singular(r)), lambda m, r: r),
    "orthonormal": (lambda m, r: (lambda q: q @ (q.mT @ r))(f.orthonormal(r)), lambda m, r: r),
    "reflected": (lambda m, r: products_of_reflections(r), lambda m, r: r),
    "solve": (lambda m, r: f.solve(m, r), NUMPY.solve),
    "solve_positive": (lambda m, r: f.solve_positive(m, r), NUMPY.solve),
    "solve_factorized": (lambda m, r: f.solve_factorized(f.cholesky(m), r), NUMPY.solve),
    "solve_lower": (lambda m, r: f.solve_lower(f.cholesky(m), r), lambda m, r: NUMPY.solve(NUMPY.cholesky(m), r)),
}


def positive_and_right(*leading: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(*leading, side, side)).astype(np.float32)
    right = rng.normal(size=(*leading, side, 3)).astype(np.float32)
    return root @ root.swapaxes(-1, -2) / side + np.eye(side, dtype=np.float32), right


def batches_in(text: str) -> list[tuple[int, int]]:
    """How many matrices a call takes, and the numbers in each, for all calls of LAPACK in a lowered program."""
    shapes = [[int(size) for size in shape.split("x")[:-1]] for shape in CALL.findall(text)]
    return [(int(np.prod(shape[:-2])), int(np.prod(shape[-2:]))) for shape in shapes]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(("leading", "side"), [((), 4), ((2, 3), 70)], ids=str)
def test_each_equals_numpys_in_every_batch(name, leading, side):
    matrix, right = positive_and_right(*leading, side=side)
    ours, theirs = ROWS[name]
    mapped = ours
    for _ in leading:
        mapped = jax.vmap(mapped)
    expected = theirs(matrix, right)
    for found in jax.jit(lambda matrix, right: (ours(matrix, right), mapped(matrix, right)))(matrix, right):
        np.testing.assert_allclose(found, expected, atol=3e-5, rtol=3e-5)


@pytest.mark.parametrize("name", ROWS)
def test_a_call_takes_one_large_matrix_and_many_small_ones(name):
    ours, _ = ROWS[name]
    for side, one in ((4, False), (200, True)):
        matrix, right = positive_and_right(3, 2, side=side)
        batches = batches_in(jax.jit(jax.vmap(jax.vmap(ours))).lower(matrix, right).as_text())
        assert batches
        # A right side with few columns is not much to factor, for those that read it alone.
        assert all((count == 1) == (one and numbers > 4000) for count, numbers in batches if numbers != 600)


def test_no_matrices_and_empty_ones_are_factored_as_by_jax():
    for leading, side in (((0,), 3), ((2, 0), 3), ((2,), 0)):
        matrix = jnp.zeros((*leading, side, side))
        assert f.cholesky(matrix).shape == matrix.shape
        assert jax.vmap(f.cholesky)(matrix).shape == matrix.shape


def test_gradients_are_those_of_jax():
    matrix, _ = positive_and_right(3, side=5)
    for ours, theirs in ((f.cholesky, jnp.linalg.cholesky), (f.eigvalsh, jnp.linalg.eigvalsh)):
        gradients = [jax.jit(jax.grad(lambda m, g=g: jnp.sin(g(m)).sum()))(matrix) for g in (ours, theirs)]
        np.testing.assert_allclose(*gradients, rtol=1e-5, atol=1e-6)


def test_no_other_module_factors_matrices():
    call = re.compile(r"(?:jnp|lax|jax\.numpy|jax\.scipy|jax\.lax)\.linalg\.(?!norm\b)(\w+)")
    found = {path.stem for path in Path(jaxdis.__file__).parent.rglob("*.py") if call.search(path.read_text())}
    assert found == {"factorizations"}


@every_source
def test_calls_in_a_metric_do_not_wait_for_each_other(name):
    """Two devices that score two wide members each; each call has one matrix with 150 rows or columns."""
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, size, 40) for size in (3, 4)], axis=1)
    codes = rng.normal(size=(2, 40, 150)).astype(np.float32)
    members, shared, _ = bind(codes, factors, variances=np.ones_like(codes), split=True)
    plan = plan_of(shortened_plan(family(name)))
    of_all = jax.vmap(functools.partial(score_member, plan), in_axes=(0, None))
    traced = jax.jit(of_all).trace(members, shared_by(plan, shared))
    if FACTORIZATIONS.isdisjoint(equation.primitive.name for equation in equations_of(traced.jaxpr.jaxpr)):
        return  # nothing to lower
    text = traced.lower().as_text()
    assert all(count == 1 or numbers < 2000 for count, numbers in batches_in(text))


@pytest.mark.two_devices
def test_wide_members_on_two_devices_do_not_wait_for_each_other():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, size, 200) for size in (3, 4)], axis=1)
    codes = rng.normal(size=(4, 200, 150)).astype(np.float32) + factors[:, :1]
    scores = jaxdis.evaluate(codes, factors, "dci_lasso", devices=jax.devices())
    assert np.isfinite(scores["dci_lasso.disentanglement"]).all()
