"""Images a second, rendered and gathered, of every data set; time and memory to build each cache; draws of factors.

    BENCHMARK_CORES=2 python -m pytest benchmarks/bench_data.py -o addopts= --benchmark-json=figures.json

Each record carries images a second, and its compile time apart. Batches are 256 images (12.6 MB as float32), so that no
output crosses the size from which every call pays for fresh pages. There is no peer that draws these sets; the figures
to hold are those of a direct form of each: dSprites by its rule over all pixels 28 000 images a second, its whole
lattice in 39 seconds, Multi-dSprites 2 000, Shapes3D traced 99 and from layers 460 000, teapots as 18 000 points 723,
CLEVR6 with mirrors 15.
"""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis.data
from jaxdis.data import _lattice as lattice
from jaxdis.data import _multi_sprites as multi_sprites
from jaxdis.data import _sprites as sprites
from jaxdis.data._lattice import Gather, HostGather
from jaxdis.data._render import Render
from jaxdis.data.files import _image_files as image_files

BATCH = 256
KEY = jax.random.key(0)
# Of the size of the painting that scream_dsprites takes.
PAINTING = np.random.default_rng(0).random((274, 221, 3), np.float32)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    before = os.environ.get("JAXDIS_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["JAXDIS_CACHE"] = str(folder)
    yield folder
    os.environ.pop("JAXDIS_CACHE")
    if before is not None:
        os.environ["JAXDIS_CACHE"] = before


@pytest.fixture
def speed(measure, benchmark):
    """``speed(function, *arguments)``: the compiled function's time, and images (or what ``unit`` says) a second."""

    def run(function, *arguments, each=BATCH, unit="images", compiled=True):
        call = jax.jit(function) if compiled else function
        seconds = measure(lambda: call(*arguments), rounds=15, each=each, compiled=compiled)
        benchmark.extra_info[f"{unit}_per_second"] = int(1 / seconds)

    return run


RENDERED = {
    "dsprites": lambda **o: jaxdis.data.dsprites(**o),
    "color_dsprites": lambda **o: jaxdis.data.color_dsprites(**o),
    "noisy_dsprites": lambda **o: jaxdis.data.noisy_dsprites(**o),
    "scream_dsprites": lambda **o: jaxdis.data.scream_dsprites(PAINTING, **o),
    "multi_dsprites": lambda **o: jaxdis.data.multi_dsprites(**o),
    "shapes3d": lambda **o: jaxdis.data.shapes3d(**o),
    "teapots": lambda **o: jaxdis.data.teapots(**o),
    "clevr6": lambda **o: jaxdis.data.clevr6(**o),
}


def draw(render, factors, key):
    return render(factors, key)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", RENDERED)
def bench_rendered(speed, name, dtype):
    space, render = RENDERED[name](dtype=dtype)
    speed(draw, render, space.sample(KEY, BATCH), KEY)


@pytest.mark.parametrize("where", ["device", "disk, in jit", "disk, outside jit"])
def bench_gathered_from_a_file(speed, where, tmp_path):
    """Any file's lattice, at the size of Cars3D (216 MB)."""
    path = tmp_path / "images.npy"
    images = np.lib.format.open_memmap(path, "w+", np.uint8, (image_files.CARS3D_SPACE.num_lattice, 64, 64, 3))
    images[:] = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    sizes, shape = image_files.CARS3D_SPACE.sizes, (64, 64, 3)
    factors = image_files.CARS3D_SPACE.sample(KEY, BATCH)
    if where == "device":
        speed(draw, Render((lattice.on_device(images),), Gather(image_files.CARS3D_SPACE), sizes, shape), factors, KEY)
    else:
        render = Render((), HostGather(lattice.open_array, str(path), sizes, shape), sizes, shape)
        speed(draw, render, factors, KEY, compiled=where == "disk, in jit")


def bench_cache_is_built(benchmark, tmp_path):
    """Seconds (compiling included), peak memory of the whole process and size on disk, in a process of its own."""
    code = (
        "import json, time, jax, jaxdis.data; jax.numpy.zeros(1).block_until_ready(); "
        "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) / 1e3; "
        "before = peak(); start = time.perf_counter(); jaxdis.data.shapes3d(); "
        "built, highest = time.perf_counter() - start, peak(); "
        "start = time.perf_counter(); jaxdis.data.shapes3d(); opened = time.perf_counter() - start; "
        "print(json.dumps({'build_seconds': built, 'open_seconds': opened, "
        "'peak_megabytes': highest, 'megabytes_before': before}))"
    )

    def build(folder):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"JAXDIS_CACHE": str(folder)},
            check=True,
            stdout=subprocess.PIPE,
        )
        return json.loads(done.stdout)

    found = benchmark.pedantic(build, (tmp_path,), rounds=1)
    benchmark.extra_info.update({what: round(value, 2) for what, value in found.items()})
    size = sum(path.stat().st_size for path in (tmp_path / "data").glob("*.npy"))
    benchmark.extra_info["megabytes_on_disk"] = round(size / 1e6, 1)


@pytest.mark.parametrize("held_out", [False, True])
def bench_intervention_batches(speed, held_out):
    """15 000 batches of 64 that share a factor, as the FactorVAE metric draws them."""
    space = sprites.SPACE.without({"shape": 2, "scale": 5}) if held_out else sprites.SPACE
    columns = jnp.arange(15_000) % 5

    def batches(key):
        return jax.vmap(lambda key, column: space.fix(key, column, 64))(jax.random.split(key, 15_000), columns)

    speed(batches, KEY, each=15_000, unit="batches")


def bench_scenes_with_masks(speed):
    speed(multi_sprites.scene, multi_sprites.space(4).sample(KEY, BATCH))
