"""Counts of operations against what they are by hand, and free memory as files of the system report it."""

import math
import resource

import jax
import jax.numpy as jnp
import pytest

from jaxdis._core import resources
from jaxdis._core.resources import live_bytes, operations

MATRIX = jax.ShapeDtypeStruct((8, 8), jnp.float32)
PRODUCT = 2 * 8**3


def repeated(a, b, turns):
    return jax.lax.fori_loop(0, turns, lambda _, x: x @ b, a)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda a, b: a @ b, PRODUCT),
        (jax.jit(lambda a, b: (a @ b).T), PRODUCT),
        (lambda a, b: repeated(a, b, 5), 5 * PRODUCT),
        (lambda a, b: jax.lax.map(lambda row: row @ b, a), PRODUCT),
        (lambda a, b: jax.vmap(lambda x: repeated(x[None], b, 3))(a), 3 * PRODUCT),
        (lambda a, b: jax.lax.cond(a[0, 0] > 0, lambda: a @ b, lambda: a + b), PRODUCT),
        (jax.checkpoint(lambda a, b: a @ b), PRODUCT),
        (lambda a, b: jnp.where(a > 0, a, b).reshape(64)[:9], 0),
        (lambda a, b: (a + b).sum(axis=0), 0),
        (lambda a, b: (jax.debug.callback(print, a), a @ b)[1], PRODUCT),
        (jax.value_and_grad(lambda a, b: (a @ b).sum(), argnums=(0, 1)), 3 * PRODUCT),
        (lambda a, b: (a @ b, jnp.exp(a @ a))[0], PRODUCT),  # what is unused counts nothing
        (
            lambda a, b: jax.lax.while_loop(lambda x: x[0, 0] < 1, lambda x: x @ b, a),
            PRODUCT,
        ),  # once
    ],
)
def test_counts_are_those_by_hand(function, count):
    assert operations(function, MATRIX, MATRIX) == count


def test_a_convolution_multiplies_every_tap():
    images, kernel = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 9, 9, 3), (4, 4, 3, 5)))

    def convolve(images, kernel):
        return jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    assert operations(convolve, images, kernel) == 2 * 2 * 6 * 6 * 5 * 4 * 4 * 3


def test_zeros_between_pixels_are_not_multiplied():
    images, kernel = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 4, 4, 3), (4, 4, 5, 3)))

    def enlarge(images, kernel):
        return jax.lax.conv_transpose(
            images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True
        )

    assert operations(enlarge, images, kernel) == 2 * 2 * 8 * 8 * 5 * 4 * 4 * 3 // 4


def test_what_is_alive_at_once_is_counted():
    """A chain holds what it reads and what it writes; the sum holds the first two results and their product."""
    matrix = 4 * 8 * 8

    def chain(a):
        return jnp.exp(jnp.exp(jnp.exp(a)))

    def wide(a):
        first = jnp.exp(a)
        second = jnp.sin(first)
        return first @ second + second

    assert live_bytes(chain, MATRIX) == 2 * matrix
    assert live_bytes(wide, MATRIX) == 3 * matrix
    assert live_bytes(lambda a: jax.lax.map(chain, a), jax.ShapeDtypeStruct((5, 8, 8), jnp.float32)) == 7 * matrix
    assert live_bytes(lambda a: (chain(a), wide(a))[0], MATRIX) == 2 * matrix


MEMINFO = "MemTotal:       1000 kB\nMemFree:        50 kB\nMemAvailable:   500 kB\n"


def files(root, **texts):
    for name, text in {"proc/meminfo": MEMINFO, **texts}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_machine_without_limits(tmp_path):
    assert resources.host_bytes(files(tmp_path)) == 500 * 1024
    assert resources.host_bytes(tmp_path / "nothing") == math.inf


@pytest.mark.parametrize("folder", ["sys/fs/cgroup/", "sys/fs/cgroup/jobs/"])  # of the job, or of its parent
def test_limit_of_a_container(tmp_path, folder):
    texts = {
        f"{folder}memory.max": "400000\n",
        f"{folder}memory.current": "150000\n",
        f"{folder}memory.stat": "anon 100000\ninactive_file 30000\n",
        "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
        "sys/fs/cgroup/jobs/mine/memory.current": "150000\n",
        "proc/self/cgroup": "0::/jobs/mine\n",
    }
    assert resources.host_bytes(files(tmp_path, **texts)) == 400000 - 150000 + 30000


def test_limit_of_a_container_of_version_1(tmp_path):
    folder = "sys/fs/cgroup/memory/jobs/"
    texts = {
        f"{folder}memory.limit_in_bytes": "400000\n",
        f"{folder}memory.usage_in_bytes": "150000\n",
        "proc/self/cgroup": "3:cpuset:/\n4:memory:/jobs\n",
    }
    assert resources.host_bytes(files(tmp_path, **texts)) == 250000


def test_limit_of_the_process(tmp_path, monkeypatch):
    limits = {resource.RLIMIT_AS: 300 * 1024, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], -1))
    root = files(tmp_path, **{"proc/self/status": "Name:\tpython\nVmSize:\t    100 kB\nVmData:\t  40 kB\n"})
    assert resources.host_bytes(root) == 200 * 1024


@pytest.mark.parametrize(
    ("count", "words"), [(75.34e9, "75.3 GB"), (2e6, "2 MB"), (4096, "4.1 kB"), (5e12, "5,000 GB")]
)
def test_words(count, words):
    assert resources.in_words(count) == words
