"""A network's bound on mutual information at 20,000 samples, one epoch, beside the same network in PyTorch.

Peer: one network after the other on one thread, batches cut from a tensor (no data loader), the same batches, layers,
optimizer and judging as the authors' form, ``in_sample``; an epoch of ``held_out`` is an epoch of less work.
"""

import functools
import math

import jax
import numpy as np
import pytest

from jaxdis._learners.neural_information import neural_information

N, EPOCHS, BATCH = 20_000, 6, 256
FACTOR = np.random.default_rng(0).random((N, 6)).astype(np.float32)
CODES = (np.float32(0.8) * FACTOR + np.float32(0.2) * np.roll(FACTOR, 1, axis=1)).astype(np.float32)
INPUTS = {"pair": CODES[:, :1], "joint": CODES}

estimate = jax.jit(functools.partial(neural_information, max_epochs=EPOCHS), static_argnames="judge")


def reference(inputs, target):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    wide = 32 * (inputs.shape[1] + 1)
    layers = [torch.nn.Linear(inputs.shape[1] + 1, wide), torch.nn.ReLU()]
    for _ in range(3):
        layers += [torch.nn.Linear(wide, wide), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(wide, 1))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    x, y, average = torch.tensor(inputs), torch.tensor(target), torch.tensor(1.0)

    def both(x, y):
        return network(torch.cat([x, y], 1)).squeeze(1), network(torch.cat([x, y[torch.randperm(len(y))]], 1)).squeeze(
            1
        )

    for _ in range(EPOCHS):
        order = torch.randperm(N)
        for start in range(0, N - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            together, apart = both(x[rows], y[rows])
            mean = torch.exp(apart).mean()
            average = 0.99 * average + 0.01 * mean.detach()
            loss = mean / average - together.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            together, apart = both(x, y)
            bound = together.mean() - torch.logsumexp(apart, 0) + math.log(N)
    return float(bound)


@pytest.mark.parametrize("kind", INPUTS)
def bench_peer(measure, kind, benchmark):
    benchmark.group = f"neural information, {kind}: one epoch of a network"
    measure(lambda: reference(INPUTS[kind], FACTOR[:, :1]), rounds=2, each=EPOCHS, compiled=False)


@pytest.mark.parametrize("judge", ["in_sample", "held_out"])
@pytest.mark.parametrize("kind", INPUTS)
def bench_network(measure, kind, judge, benchmark):
    benchmark.group = f"neural information, {kind}: one epoch of a network"

    def run():
        return estimate(jax.random.key(0), INPUTS[kind], FACTOR[:, :1], judge=judge)

    assert int(run().epochs) == EPOCHS
    measure(run, rounds=2, each=EPOCHS)
