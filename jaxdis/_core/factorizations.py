"""Factorizations of matrices, whose calls on a CPU never wait for each other.

The functions take matrices with any leading axes. Some releases of jaxlib (0.10 and 0.11 among them) split a large
batch into tasks for a pool of threads, and the thread that asks waits for them. As many such calls at a time as there
are threads, as of two devices on two cores, wait forever. On a CPU, a call therefore takes no more matrices than are
not split, under ``vmap`` as well.
"""

import functools
import math

import jax
import jax.numpy as jnp

from jaxdis._core.platforms import run_by_cpu

# Operations from which a batch is split (``kMinWorkPerTask`` in jaxlib's lapack_kernels.cc).
SPLIT_FROM = 200_000


def _unsplit(factor: int):
    """Decorate a function of matrices that takes at most ``factor · rows · columns · (the fewer + right sides)``."""

    def operations(matrix, *rights) -> int:
        rows, columns = matrix.shape[-2:]
        return factor * rows * columns * (min(rows, columns) + sum(right.shape[-1] for right in rights))

    def decorate(function):
        @jax.custom_batching.custom_vmap
        def of_batch(*matrices):
            most = max(1, SPLIT_FROM // operations(*matrices))
            if len(matrices[0]) <= most:
                return function(*matrices)
            return jax.lax.map(lambda one: function(*one), matrices, batch_size=most if most > 1 else None)

        @of_batch.def_vmap
        def of_batches(size, batched, *matrices):
            whole = [
                matrix if has_axis else jnp.broadcast_to(matrix, (size, *matrix.shape))
                for matrix, has_axis in zip(matrices, batched, strict=True)
            ]
            count = whole[0].shape[1]
            found = of_batch(*(matrix.reshape(size * count, *matrix.shape[2:]) for matrix in whole))
            found = jax.tree.map(lambda x: x.reshape(size, count, *x.shape[1:]), found)
            return found, jax.tree.map(lambda _: True, found)

        # What batches in its own way has no reverse mode.
        with_gradient = jax.custom_jvp(lambda *matrices: of_batch(*matrices))
        with_gradient.defjvp(lambda matrices, tangents: jax.jvp(function, matrices, tangents))

        @functools.wraps(function)
        def of_any(*matrices):
            if not run_by_cpu() or not all(matrix.size for matrix in matrices):
                return function(*matrices)
            leading = matrices[0].shape[:-2]
            count = math.prod(leading)
            found = with_gradient(*(matrix.reshape(count, *matrix.shape[-2:]) for matrix in matrices))
            return jax.tree.map(lambda x: x.reshape(*leading, *x.shape[1:]), found)

        return of_any

    return decorate


@_unsplit(1)
def cholesky(matrix):
    """Lower triangular factors ``L`` with ``L Lᵀ`` equal to the symmetric matrices."""
    return jnp.linalg.cholesky(matrix)


@_unsplit(10)
def eigh(matrix):
    """Eigenvalues of symmetric matrices in ascending order, and their vectors as columns."""
    return tuple(jnp.linalg.eigh(matrix))


@_unsplit(10)
def eigvalsh(matrix):
    """Eigenvalues of symmetric matrices in ascending order."""
    return jnp.linalg.eigvalsh(matrix)


@_unsplit(10)
def singular_values(matrix):
    """Singular values in descending order."""
    return jnp.linalg.svd(matrix, compute_uv=False)


@_unsplit(10)
def left_singular(matrix):
    """Left singular vectors as columns, and singular values in descending order."""
    return tuple(jnp.linalg.svd(matrix, full_matrices=False))[:2]


@_unsplit(4)
def orthonormal(matrix):
    """Orthonormal bases for the columns of matrices with no fewer rows."""
    return jnp.linalg.qr(matrix)[0]


@_unsplit(4)
def reflections(matrix):
    """A QR decomposition as LAPACK's ``geqrf`` returns it, transposed: reflections, and their scales as a row."""
    vectors, scales = jnp.linalg.qr(matrix, mode="raw")
    return vectors, scales[..., None, :]


@_unsplit(4)
def reflected(vectors, scales, right):
    """Multiply by the orthonormal matrices of :func:`reflections`."""
    return jax.lax.linalg.ormqr(vectors.mT, scales[..., 0, :], right)


@_unsplit(1)
def solve(matrix, right):
    return jnp.linalg.solve(matrix, right)


@_unsplit(1)
def solve_positive(matrix, right):
    """Solve ``matrix x = right`` for symmetric positive matrices."""
    one = functools.partial(jax.scipy.linalg.solve, assume_a="pos")
    return jnp.vectorize(one, signature="(n,n),(n,k)->(n,k)")(matrix, right)


@_unsplit(1)
def solve_factorized(factor, right):
    """Solve ``L Lᵀ x = right`` for the factors of :func:`cholesky`."""
    return jax.scipy.linalg.cho_solve((factor, True), right)


@_unsplit(1)
def solve_lower(factor, right):
    """Solve ``L x = right`` for lower triangular matrices."""
    return jax.scipy.linalg.solve_triangular(factor, right, lower=True)
