"""Training speed: member-updates per second, the floor set by a matrix product, compile time and memory.

    python -m pytest benchmarks/bench_training.py -o addopts= --benchmark-timer=time.process_time     one core
    BENCHMARK_CORES=2 python -m pytest benchmarks/bench_training.py -o addopts= -k devices            two, wall time

Each benchmark records in ``extra_info`` the milliseconds per member-update, the GFLOP/s of a 2048³ matrix product on
as many devices at the same time, the time that this rate implies for the same arithmetic (the floor), and the ratio of
the two. On a machine with an accelerator, the same file measures 1, 16, 64 and 128 members at three precisions, and the
hours that the 14 400 models of Locatello et al. (2020) would take at that rate.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import Runner, resolved_config

ON_CPU = jax.default_backend() == "cpu"
BATCH = 64
# Forward FLOPs of one gray 64 × 64 image (2 per multiply-add), 4 × 4 kernels throughout; an update is three forwards.
FORWARD_FLOPS = {"convolutional": 32.5e6, "mlp": 2 * 2 * (4096 * 128 + 128 * 128 + 128 * 15)}
STUDY_UPDATES = 14_400 * 300_000


def images() -> np.ndarray:
    return (np.random.default_rng(0).random((512, 64, 64, 1)) < 0.1).astype(np.uint8) * 255


def network(kind: str, compute: str = "matmul"):
    return models.Mlp() if kind == "mlp" else models.locatello(as_released=False, compute=compute)


def runner(members: int, kind="convolutional", compute="matmul", *, devices=1, execution="auto", precision="float32"):
    """A zoo ready to advance, and its state."""
    source = as_source(images())
    vae = models.Vae(network=network(kind, compute), batch_size=BATCH, precision=precision)
    method = resolved_config(models.Config(method=vae), source).method
    keys, hyper, _ = models.members({"beta": {"beta": 4.0}}, seeds=members)
    chosen = tuple(jax.devices()[:devices])
    # Ordinary convolutions are run as they would be without this library: all images at once.
    zoo = Runner(method, keys, hyper, source, chosen, execution)
    return zoo, zoo.begin()


def product_rate(timer, devices: int = 1) -> float:
    """FLOP/s of a 2048³ float32 product on each of some devices at once, summed, by the benchmark's own clock."""
    size, repeats = 2048, 4
    where = jax.devices()[:devices]
    matrices = [jax.device_put(jnp.ones((size, size)), device) for device in where]
    run = jax.jit(lambda a: jax.lax.fori_loop(0, repeats, lambda _, b: (b @ a) * 1e-4, a))
    jax.block_until_ready([run(matrix) for matrix in matrices])
    seconds = []
    for _ in range(3):
        start = timer()
        jax.block_until_ready([run(matrix) for matrix in matrices])
        seconds.append(timer() - start)
    return 2 * size**3 * repeats * devices / min(seconds)


def advance(benchmark, zoo: Runner, state, updates: int, rounds: int = 3):
    """Time ``updates`` updates of all members, warm, and say per member-update."""
    state, _ = zoo.advance(state, 1)
    carried = [state]

    def run():
        carried[0], losses = zoo.advance(carried[0], updates)
        return losses.loss

    losses = benchmark.pedantic(run, rounds=rounds, iterations=1, warmup_rounds=0)
    assert np.isfinite(losses).all()
    benchmark.extra_info["each"] = updates * zoo.num_members
    return benchmark.stats.stats.min / (updates * zoo.num_members)


def record(benchmark, seconds: float, kind: str, devices: int = 1) -> None:
    rate = product_rate(benchmark._timer, devices)
    floor = 3 * BATCH * FORWARD_FLOPS[kind] / rate
    benchmark.extra_info |= {
        "ms_per_member_update": round(seconds * 1e3, 2),
        "member_updates_per_second": round(1 / seconds, 2),
        "product_gflops": round(rate / 1e9, 1),
        "floor_ms": round(floor * 1e3, 2),
        "times_floor": round(seconds / floor, 2),
        "tflops": round(3 * BATCH * FORWARD_FLOPS[kind] / seconds / 1e12, 3),
        "study_hours": round(seconds * STUDY_UPDATES / 3600, 1),
        "devices": devices,
        "backend": jax.devices()[0].device_kind,
    }


@pytest.mark.parametrize("precision", ["float32"] if ON_CPU else ["float32", "tensorfloat32", "bfloat16"])
@pytest.mark.parametrize("members", [1, 4, 16] if ON_CPU else [1, 16, 64, 128])
@pytest.mark.parametrize("kind", ["convolutional", "mlp"])
def bench_zoo(benchmark, kind, members, precision):
    benchmark.group = f"zoo {kind}"
    zoo, state = runner(members, kind, precision=precision)
    updates = (4 if kind == "convolutional" else 100) if ON_CPU else 200
    record(benchmark, advance(benchmark, zoo, state, updates), kind)


@pytest.mark.parametrize("devices", [1, 2] if len(jax.devices()) > 1 else [1])
def bench_devices(benchmark, devices):
    benchmark.group = "four members over devices"
    zoo, state = runner(4, devices=devices)
    record(benchmark, advance(benchmark, zoo, state, 6), "convolutional", devices)


@pytest.mark.parametrize("kind", ["convolutional", "mlp"])
def bench_peer_torch_loop(benchmark, kind):
    """The same β-VAE in torch on one thread: a loop over updates, batches cut from a tensor."""
    torch = pytest.importorskip("torch")
    benchmark.group = f"zoo {kind}"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder, decoder = torch_networks(torch, kind)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-4)
    pixels = torch.from_numpy(images().transpose(0, 3, 1, 2) / np.float32(255))

    def update():
        batch = pixels[torch.randint(len(pixels), (BATCH,))]
        mean, log_variance = encoder(batch).chunk(2, dim=1)
        codes = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        logits = decoder(codes).reshape(batch.shape)
        error = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch, reduction="sum") / BATCH
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum() / BATCH
        optimizer.zero_grad()
        (error + 4 * divergence).backward()
        optimizer.step()
        return float(error.detach())

    updates = 4 if kind == "convolutional" else 100
    update()
    benchmark.pedantic(lambda: [update() for _ in range(updates)], rounds=3, iterations=1)
    benchmark.extra_info["each"] = updates
    record(benchmark, benchmark.stats.stats.min / updates, kind)


def torch_networks(torch, kind: str):
    """An encoder to means and log-variances of ten codes, and a decoder to logits, as those of :func:`network`."""
    nn = torch.nn
    if kind == "mlp":
        sizes = [(4096, 128), (128, 128), (128, 20)]
        encoder = nn.Sequential(nn.Flatten(), *_rectified(nn, [nn.Linear(*size) for size in sizes]))
        return encoder, nn.Sequential(*_rectified(nn, [nn.Linear(10, 128), nn.Linear(128, 128), nn.Linear(128, 4096)]))
    down = [nn.Conv2d(a, b, 4, 2, 1) for a, b in ((1, 32), (32, 32), (32, 64), (64, 64))]
    up = [nn.ConvTranspose2d(a, b, 4, 2, 1) for a, b in ((64, 64), (64, 32), (32, 32), (32, 1))]
    encoder = [*down, nn.Flatten(), nn.Linear(1024, 256), nn.Linear(256, 20)]
    decoder = [nn.Linear(10, 256), nn.Linear(256, 1024), nn.Unflatten(1, (64, 4, 4)), *up]
    return nn.Sequential(*_rectified(nn, encoder)), nn.Sequential(*_rectified(nn, decoder))


def _rectified(nn, layers):
    """Layers with a ReLU behind each but the last and those without parameters."""
    for layer in layers[:-1]:
        yield layer
        if list(layer.parameters()):
            yield nn.ReLU()
    yield layers[-1]


@pytest.mark.parametrize("execution", ["map", "vmap"])
@pytest.mark.parametrize("members", [4, 16])
@pytest.mark.parametrize("kind", ["convolutional", "mlp"])
def bench_execution(benchmark, kind, members, execution):
    """Which of the two forms ``execution="auto"`` should take on this backend."""
    benchmark.group = f"zoo {kind}"
    zoo, state = runner(members, kind, execution=execution)
    record(benchmark, advance(benchmark, zoo, state, 4 if kind == "convolutional" else 100), kind)


@pytest.mark.parametrize(
    ("compute", "execution"),
    [("matmul", "map"), ("matmul", "vmap"), pytest.param("conv", "vmap", id="peer: vmapped nn.Conv")],
)
def bench_forms(benchmark, compute, execution):
    benchmark.group = "forms of four members"
    zoo, state = runner(4, compute=compute, execution=execution)
    updates = 1 if compute == "conv" else 4
    record(benchmark, advance(benchmark, zoo, state, updates, rounds=1 if compute == "conv" else 3), "convolutional")


@pytest.mark.parametrize("compute", ["matmul", "conv"])
def bench_python_loop_of_single_trainings(benchmark, compute):
    """What a user writes without a zoo: one compiled update, called from Python for each step of each member."""
    benchmark.group = "forms of four members"
    zoo, _ = runner(1, compute=compute, execution="vmap")
    states = [zoo.begin() for _ in range(4)]
    states = [zoo.advance(state, 1)[0] for state in states]
    updates = 1 if compute == "conv" else 3

    def run():
        for i in range(4):
            for _ in range(updates):
                states[i], losses = zoo.advance(states[i], 1)
        return losses.loss

    benchmark.pedantic(run, rounds=1 if compute == "conv" else 3, iterations=1)
    benchmark.extra_info["each"] = 4 * updates
    record(benchmark, benchmark.stats.stats.min / (4 * updates), "convolutional")


@pytest.mark.parametrize("kind", ["convolutional", "mlp"])
def bench_compile_time_and_memory(benchmark, kind):
    """Compilation without a cache (lower and compile), and bytes per member: state, and temporary under each form."""
    benchmark.group = "compile"

    def compile_anew():
        jax.clear_caches()
        zoo, _ = runner(2, kind)
        return zoo, zoo.memory(1)

    zoo, temporary = benchmark.pedantic(compile_anew, rounds=1, iterations=1)
    shapes = jax.tree.leaves(zoo.shapes())
    state = sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in shapes) / 2
    benchmark.extra_info |= {
        "state_mb_per_member": round(state / 1e6, 2),
        "temporary_mb_one_at_a_time": round(temporary / 1e6, 2),
        "temporary_mb_two_at_once": round(zoo.memory(2) / 1e6, 2),
    }
