"""Training of slot models: updates per second, and the share of the rate of a matrix product that they reach.

    python -m pytest benchmarks/bench_slots.py -o addopts= --benchmark-timer=time.process_time     one core

On an accelerator the published networks train on 64 × 64 pixels, one model and a zoo of four; on a CPU, narrow ones on
32 × 32. ``extra_info`` has operations per update (counted with all turns of their loops), the time that they would take
at the rate of a 2048³ product measured in the same run (the floor), and the ratio of the two.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bench_training import advance, product_rate

from jaxdis import models
from jaxdis._core.resources import operations
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import Runner, begin, resolved_config, update

ON_CPU = jax.default_backend() == "cpu"
NARROW = {"num_slots": 4, "num_codes": 8, "batch_size": 8}
METHODS = {
    "monet": models.Monet(
        **NARROW,
        attention=(12, 16, 16, 16),
        attention_hidden=64,
        encoder=(8, 16, 16),
        encoder_hidden=32,
        decoder=(16,),
    ),
    "genesis": models.Genesis(
        **NARROW,
        num_mask_codes=8,
        mask_encoder=(8, 16, 16, 16),
        mask_strides=(1, 2, 1, 2),
        mask_decoder=(16, 16, 8, 8, 8),
        features=64,
        units=32,
        prior_units=32,
        encoder=(8, 16, 16),
        encoder_hidden=32,
        decoder=(16,),
    ),
    "iodine": models.Iodine(**NARROW, decoder=(16, 16, 16), kernel=3, refiner=(16, 16, 16), units=32),
}
PUBLISHED = {"monet": models.Monet(), "genesis": models.Genesis(), "iodine": models.Iodine()}


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("name", METHODS)
def bench_slots(benchmark, name, members):
    benchmark.group = f"slot models on {jax.default_backend()}: updates of {name}"
    method, side = (METHODS if ON_CPU else PUBLISHED)[name], 32 if ON_CPU else 64
    images = np.random.default_rng(0).integers(0, 256, (64, side, side, 3)).astype(np.uint8)
    source = as_source(images)
    method = resolved_config(models.Config(method=method), source).method
    keys, hyper, _ = models.members({name: {}}, members, method)
    zoo = Runner(method, keys, hyper, source, tuple(jax.devices()[:1]))
    seconds = advance(benchmark, zoo, zoo.begin(), 3 if ON_CPU else 30)
    count, rate = operations_of_update(method, source, hyper), product_rate(benchmark._timer)
    benchmark.extra_info |= {
        "gigaflop_per_update": round(count / 1e9, 2),
        "member_updates_per_second": round(1 / seconds, 2),
        "product_gflops": round(rate / 1e9, 1),
        "times_floor": round(seconds * rate / count, 2),
        "megabytes_of_temporaries": round(zoo.memory(1) / 1e6, 1),
        "batch": method.batch_size,
        "backend": jax.devices()[0].device_kind,
    }


def operations_of_update(method, source, hyperparameters) -> float:
    key = jax.random.key(0)
    one = jax.tree.map(lambda column: jnp.float32(column[0]), hyperparameters)
    state = jax.eval_shape(lambda key: begin(method, key), key)
    return operations(lambda state: update(method, state, key, one, source), state)
