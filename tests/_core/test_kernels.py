"""Every form of every kernel computes what its reference says: alone, jitted and batched."""

import dataclasses
import functools
import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core import kernels, loops
from jaxdis._core.platforms import Kernel, tracing_for
from tests._core import kernel_references

MODULES = [
    importlib.import_module(f"{kernels.__name__}.{found.name}") for found in pkgutil.iter_modules(kernels.__path__)
]
KERNELS = {
    name: value for module in (*MODULES, loops) for name, value in vars(module).items() if isinstance(value, Kernel)
}
# Inputs: samples, and how many of their values are equal.
SIZES = {"random": (60, 0), "tied": (60, 4), "one sample": (1, 0), "two samples": (2, 1), "many": (2100, 0)}


def classes_of(rng, n, sizes):
    """Class numbers of which the last of each factor never occurs."""
    return np.stack([rng.integers(0, max(size - 1, 1), n) for size in sizes], axis=1).astype(np.int32)


def normal(rng, *shape, tied=0):
    values = rng.normal(size=shape).astype(np.float32)
    return np.round(values * tied) / np.float32(tied) if tied else values


def counted(rng, n, _):
    number = rng.integers(0, 6, (n, 3)).astype(np.int32)
    return (number, 7, classes_of(rng, n, (3, 1, 5)), (3, 1, 5)), {}


def weighted(rng, n, tied):
    arguments, _ = counted(rng, n, tied)
    return arguments, {"weights": rng.integers(0, 3, n).astype(np.float32)}


def images(rng, channels, *size):
    return rng.normal(size=(2, *size, channels)).astype(np.float32)


def shifted_rows(classes, rows):
    """Terms of rows that depend on their classes."""
    return [rows, rows - classes[:, None].astype(rows.dtype)]


def scaled(number, state):
    return number * state + 1


# By kernel: named inputs, each a function of a generator, a number of samples and how coarse values are.
CASES = {
    "joint_tables": {"counts": counted, "weights": weighted},
    "pair_tables": {
        f"{d} and {e} codes, {bins} bins": lambda rng, n, _, d=d, e=e, bins=bins: (
            (*(rng.integers(0, 4, (n, width)).astype(np.int32) for width in (d, e)), bins), {}
        )
        for d, e, bins in ((2, 3, 5), (17, 18, 5), (2, 3, 33))
    },
    "pair_sums": {
        f"{d} and {e} codes, {bins} bins": lambda rng, n, _, d=d, e=e, bins=bins: (
            (
                *(rng.integers(0, 4, (n, width)).astype(np.int32) for width in (d, e)),
                bins,
                rng.integers(-(2**31), 2**31, (2, n + 1)).astype(np.int32),
            ),
            {},
        )
        for d, e, bins in ((2, 3, 5), (17, 18, 5), (2, 3, 33))
    },
    "segment_tables": {
        "pixels": lambda rng, n, _: ((*(rng.integers(0, 7, (2, n)).astype(np.int32) for _ in range(2)), 5, 6), {})
    },
    "running_sums": {
        f"{bins} bins": lambda rng, n, _, bins=bins: ((normal(rng, 3, bins, 2, 4),), {}) for bins in (1, 2, 9, 10, 127)
    },
    "sums_in_bins": {
        "floats": lambda rng, n, _: ((rng.integers(0, 5, (3, n)).astype(np.int32), normal(rng, n, 2), 6), {}),
        "integers": lambda rng, n, _: (
            (rng.integers(0, 5, (3, n)).astype(np.int32), rng.integers(0, 9, (n, 2)).astype(np.int32), 6), {}
        ),
    },
    "sums_in_classes": {
        f"{d} codes": lambda rng, n, _, d=d: (
            (shifted_rows, rng.integers(0, 5, n).astype(np.int32), normal(rng, n, d), 6), {}
        )
        for d in (3, 3000)  # stored, or in chunks of which the last two overlap
    },
    "sums_in_nodes": {
        "two arrays": lambda rng, n, _: (
            (rng.integers(0, 4, (n, 3)).astype(np.uint8), normal(rng, 2, n, 3), 4), {}
        )
    },
    "sums_over_classes": {"rows": lambda rng, n, _: ((normal(rng, 9, n), (3, 1, 5)), {})},
    "spread_over_classes": {"rows": lambda rng, n, _: ((normal(rng, 3, n), (3, 1, 5)), {})},
    "radii": {
        f"{k} neighbors": lambda rng, n, tied, k=k: (
            (np.sort(normal(rng, n, tied=tied)), normal(rng, n, tied=tied), min(k, n - 1)), {}
        )
        for k in (1, 3)
    },
    "smallest": {
        f"{k} of {width}": lambda rng, n, tied, k=k, width=width: ((np.abs(normal(rng, n, width, tied=tied)), k), {})
        for k, width in ((1, 1), (4, 60), (4, 63), (4, 333))  # no groups, as many as are chosen, and more
    },
    "pairs_of": {
        "wide": lambda rng, n, _: ((normal(rng, 2, 3, 5),), {}),
        "tall": lambda rng, n, _: ((normal(rng, 1, 6, 2),), {}),
    },
    "of_own_class": {
        "rows": lambda rng, n, _: (
            (normal(rng, 9, n), (classes_of(rng, n, (3, 1, 5)) + np.int32([0, 3, 4])).T.copy(), (3, 1, 5)), {}
        )
    },
    "entries_at": {
        "bytes": lambda rng, n, _: (
            (rng.integers(0, 256, n).astype(np.uint8), rng.integers(0, n, 9).astype(np.int32)), {}
        ),
        "one axis": lambda rng, n, tied: (
            (normal(rng, n, tied=tied), rng.integers(0, n, (2, 200)).astype(np.int32)), {}
        ),
        "full columns": lambda rng, n, tied: (
            (normal(rng, n, tied=tied), rng.integers(0, n, (128, 3)).astype(np.int32)), {}
        ),
        "two axes": lambda rng, n, tied: (
            (normal(rng, 3, n, tied=tied), *(rng.integers(0, most, 9).astype(np.int32) for most in (3, n))), {}
        ),
    },
    "placed_at": {
        f"among {more} more": lambda rng, n, tied, more=more: (
            (normal(rng, n, tied=tied), rng.permutation(n + more)[:n].astype(np.int32), n + more), {}
        )
        for more in (0, 70)
    },
    "stepwise": {"steps": lambda rng, n, _: ((scaled, (2, 3, 1), rng.integers(0, 9, n).astype(np.int32)), {})},
    "each": {"rows": lambda rng, n, _: ((jnp.sin, normal(rng, 5, n)), {})},
    "variances_in_batches": {
        f"{d} codes, {b} rows": lambda rng, n, tied, d=d, b=b: (
            (normal(rng, n, d, tied=tied), rng.integers(0, n, (b, 7)).astype(np.int32)), {}
        )
        for d, b in ((5, 2), (16, 8), (20, 19))
    },
    "distances_in_batches": {
        f"{t} batches": lambda rng, n, tied, t=t: (
            (normal(rng, n, 5, tied=tied), *(rng.integers(0, n, (9, t)).astype(np.int32) for _ in range(2))), {}
        )
        for t in (1, 1001)
    },
    "thin_product": {
        f"{e} terms": lambda rng, n, _, e=e: ((normal(rng, 6, e), normal(rng, e, 9)), {}) for e in (3, 40)
    },
    "convolution": {
        f"size {size}, stride {stride}, {padding}": lambda rng, n, _, size=size, stride=stride, padding=padding: (
            (images(rng, 3, 8, 7), normal(rng, size, size, 3, 2)), {"strides": (stride,) * 2, "padding": padding}
        )
        for size, stride, padding in ((1, 1, "SAME"), (3, 1, "SAME"), (4, 2, "SAME"), (5, 2, [(2, 2)] * 2))
    },
    "transposed_convolution": {"size 4": lambda rng, n, _: ((images(rng, 3, 5, 4), normal(rng, 4, 4, 3, 2)), {})},
    "transposed_convolution_five": {"size 5": lambda rng, n, _: ((images(rng, 3, 5, 4), normal(rng, 5, 5, 3, 2)), {})},
}  # fmt: skip
# Kernels of images, matrices and tables, whose inputs have no number of samples.
ONE_SIZE = {
    "running_sums",
    "pairs_of",
    "thin_product",
    "convolution",
    "transposed_convolution",
    "transposed_convolution_five",
}
# Kernels of values that may be equal; class numbers always are.
TIED = {"radii", "smallest", "entries_at", "placed_at", "variances_in_batches", "distances_in_batches"}
# Sizes that are tried every time, besides the first.
QUICK = {("radii", "tied"), ("joint_tables", "one sample")}
# Sums of up to 2,100 terms of about 1, or of 100 products; all else is counted exactly or rounded once.
TOLERANCES = {
    "running_sums": 2e-5,
    "sums_in_bins": 2e-4,
    "sums_in_nodes": 2e-4,
    "sums_in_classes": 2e-4,
    "thin_product": 2e-5,
    "convolution": 2e-5,
    "transposed_convolution": 2e-5,
    "transposed_convolution_five": 2e-5,
}


def sizes_of_kernels():
    for name in KERNELS:
        for size in ("random",) if name in ONE_SIZE else SIZES:
            # A sample has no other, and where there are two, few kernels see anything else than in one.
            if size == ("one sample" if name == "radii" else "two samples") or (size == "tied" and name not in TIED):
                continue
            quick = size == "random" or (name, size) in QUICK
            yield pytest.param(name, size, id=f"{name}-{size}", marks=[] if quick else [pytest.mark.slow])


def ordered(name, result):
    """The result; pairs of an assignment, which forms may list in any order, by their rows."""
    if name != "pairs_of":
        return result
    rows, columns = map(np.asarray, result)
    return np.take_along_axis(np.stack([rows, columns], axis=-1), rows.argsort(axis=-1)[..., None], axis=-2)


def test_every_kernel_has_cases():
    assert set(CASES) == set(KERNELS)
    for kernel in KERNELS.values():
        assert {kernel.cpu, kernel.accelerator, kernel.tpu or kernel.accelerator} <= set(kernel.forms.values())


def call(name: str, form: str, given: tuple[tuple, dict], arrays):
    """One form of given ``(arguments, options)``, in which others stand for the arrays."""
    arguments, options = jax.tree.map(lambda value, array: value if array is None else array, given, arrays)
    return KERNELS[name](*arguments, form=form, **options)


def alone_and_batched(function, arrays):
    """Of two inputs, the first, and both at once."""
    return function(jax.tree.map(lambda leaf: leaf[0], arrays)), jax.vmap(function)(arrays)


def stacked(*values):
    return np.stack(values) if isinstance(values[0], np.ndarray | jax.Array) else None


@functools.cache
def calls_of(name: str, n: int):
    """A call by case and form, and one program of them all, which is made in half the time of one for each."""
    given = {case: make(np.random.default_rng(0), n, 0) for case, make in CASES[name].items()}
    calls = {
        (case, form): functools.partial(call, name, form, given[case]) for case in given for form in KERNELS[name].forms
    }
    return calls, jax.jit(lambda inputs: {each: alone_and_batched(calls[each], inputs[each[0]]) for each in calls})


@pytest.mark.parametrize(("name", "size"), list(sizes_of_kernels()))
def test_each_form_is_its_reference(name, size):
    inputs, wanted = {}, {}
    for case, make in CASES[name].items():
        given = [make(np.random.default_rng(seed), *SIZES[size]) for seed in range(2)]
        wanted[case] = [getattr(kernel_references, name)(*arguments, **options) for arguments, options in given]
        inputs[case] = jax.tree.map(stacked, *given)
    calls, program = calls_of(name, SIZES[size][0])
    found = program(inputs)

    def compare(results, expected, case):
        tolerance = {"rtol": 1e-5, "atol": TOLERANCES.get(name, 1e-5), "err_msg": str(case)}
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, **tolerance), ordered(name, results), ordered(name, expected)
        )

    for (case, form), (alone, together) in found.items():
        compare(alone, wanted[case][0], (case, form))
        compare(together, jax.tree.map(stacked, *wanted[case]), (case, form))
        if size in ("one sample", "two samples") and (name, size) not in QUICK:
            # As it is called outside of programs, which compiles each of its operations.
            first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), inputs[case])
            compare(calls[case, form](first), wanted[case][0], (case, form))


def test_the_platform_chooses_the_form():
    kernel = Kernel(cpu=lambda: "for CPUs", accelerator=lambda: "for others")
    alone = dataclasses.replace(kernel, tpu=kernel.cpu)
    adding = dataclasses.replace(alone, in_place=True)
    for platform, form in {"cpu": "for CPUs", "gpu": "for others", "tpu": "for others"}.items():
        with tracing_for(platform):
            assert kernel() == form
            assert alone() == adding() == ("for CPUs" if platform == "tpu" else form)
    with tracing_for("gpu", deterministic=True):
        assert kernel() == alone() == "for others"
        assert adding() == "for CPUs"
    assert dataclasses.replace(kernel, named={"b": kernel.accelerator})(form="b") == "for others"
    assert kernel(form="accelerator") == "for others"
