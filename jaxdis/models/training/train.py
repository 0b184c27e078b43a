"""Training a zoo: all members in one program.

:func:`make_train` gives the pure form, ``train(key, hyperparameters)`` of one member; a zoo is ``vmap`` of it.
:func:`train` runs the same updates block by block from the host, so that progress can be shown, saved and resumed.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.models.config import Config, describe, objective_of
from jaxdis.models.members import checked_members
from jaxdis.models.networks.custom import as_network
from jaxdis.models.objectives.losses import Losses
from jaxdis.models.objectives.total_correlation import estimable
from jaxdis.models.training.checkpoint import Checkpoints
from jaxdis.models.training.progress import Progress
from jaxdis.models.training.runner import Runner, default_micro_batch
from jaxdis.models.training.source import Source, as_source, fingerprint
from jaxdis.models.training.step import Program, begin, run_block
from jaxdis.models.zoo import Zoo
from jaxdis.options import Count, checked, checked_devices
from jaxdis.typing import Array


class Trained(NamedTuple):
    """One member after training.

    Attributes:
      params: the network's parameters.
      losses: :class:`Losses` of ``[blocks]``, means over blocks.
      stopped: the update whose loss or gradient was not finite, or −1.
    """

    params: Any
    losses: Losses
    stopped: Array


@checked
def make_train(config: Config, data=None, *, log_every: Count = 100, micro_batch: Count | None = None) -> Callable:
    """``train(key, hyperparameters) → Trained``: a pure function, which can be jitted, vmapped and sharded.

    Args:
      config: what to train.
      data: as in :func:`train`. The tables of a renderer or an array of images become constants of the program.
      log_every: updates per entry of the losses, which are means; the last block may be shorter.
      micro_batch: images per micro-batch, a divisor of the batch size; None: the whole batch.
    """
    source = resolved_source(config, data)
    config = resolved_config(config, source)
    program = Program.of(config, micro_batch)
    starts = np.arange(0, config.steps, log_every, dtype=np.int32)

    def train_one(key, hyperparameters) -> Trained:
        hyperparameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), hyperparameters)

        def one_block(state, start):
            count = jnp.minimum(config.steps - start, log_every)
            return run_block(program, state, key, hyperparameters, source, count)

        state, losses = jax.lax.scan(one_block, begin(program, key), jnp.asarray(starts))
        return Trained(state.params, losses, state.stopped)

    return train_one


@checked
def train(
    config: Config,
    keys,
    hyperparameters,
    labels: Sequence[dict] | None = None,
    *,
    data=None,
    directory: str | Path | None = None,
    log_every: Count = 100,
    checkpoint_every: Count = 1000,
    execution: Literal["auto", "map", "vmap"] = "auto",
    members_at_once: Count | None = None,
    micro_batch: Count | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Zoo:
    """Train a zoo.

    Args:
      config: what all members share. Members trained separately with the same config, key and hyperparameters are equal
        up to rounding, whatever the grouping, the devices and the arguments below.
      keys: ``[m]`` typed keys (``jax.random.key``), one per member, which determine initialization, noise and data
        order.
      hyperparameters: what ``OBJECTIVES[name].settings(…)`` returns, as scalars (shared) or ``[m]``. See
        :func:`jaxdis.models.members` for grids: ``train(config, *members(…))``.
      labels: ``m`` dicts that describe the members, for ``Zoo.select`` and tables; None: the hyperparameters.
      data: ``(space, render)``, an array of images ``[n, h, w, c]``, or None for the data set ``config.data`` of
        ``jaxdis.data``.
      directory: where checkpoints are kept. Training resumes from the last valid one; an interrupted and resumed run
        gives the same bits as an uninterrupted one, on the same backend with the same arguments.
      log_every: updates per entry of ``Zoo.losses``, which are means.
      checkpoint_every: updates between checkpoints, rounded up to a multiple of ``log_every``.
      execution: how the members of one device run: ``map``: one after another (faster on CPU); ``vmap``: together
        (faster on accelerators); ``auto``: by backend.
      members_at_once: members that run together under ``vmap``; None: as many as memory is estimated to hold.
      micro_batch: images per micro-batch, a divisor of the batch size; None: 4 for convolutions on CPU, else the whole
        batch.
      devices: devices over which members are spread; None: all devices of the default backend.
      progress: True draws a progress bar with losses on the terminal; a function is called with the number of finished
        updates and the number of all updates.

    Returns:
      The trained zoo. A member whose loss or gradient is not finite keeps its parameters from before that update, which
      ``Zoo.stopped`` records; the other members are not affected.

    Raises:
      ValueError: naming the argument, what it needs and what it got; also for the directory of another run.
    """
    source = resolved_source(config, data)
    config = resolved_config(config, source)
    keys, hyperparameters, labels = checked_members(config, keys, hyperparameters, labels)
    _check_estimator(config, source, hyperparameters)
    devices = checked_devices(devices) or tuple(jax.devices())
    program = Program.of(config, micro_batch or default_micro_batch(config, devices[0].platform))
    checkpoints = Checkpoints.of(directory, _identity(config, source, keys, hyperparameters, log_every))
    runner = Runner(program, keys, hyperparameters, source, devices, execution, members_at_once)

    state, losses, done = checkpoints.last(runner.shapes()) or (None, [], 0)
    state = runner.begin() if state is None else runner.placed(state)
    blocks_between_saves = -(-checkpoint_every // log_every)
    with Progress(config.steps, done, shown=progress is True) as bar:
        while done < config.steps:
            count = min(log_every, config.steps - done)
            state, block = runner.advance(state, count)
            done += count
            losses.append(block)
            if done == config.steps or len(losses) % blocks_between_saves == 0:
                checkpoints.save(runner.gathered(state), losses, done)
            bar.show(done, block)
            if callable(progress):
                progress(done, config.steps)
    trained = runner.gathered(state)
    curves = Losses(*(np.stack(field, axis=1) for field in zip(*losses, strict=True)))
    return Zoo(config, trained.params, hyperparameters, curves, trained.stopped, labels, log_every)


def resolved_source(config: Config, data=None) -> Source:
    """The source of ``data`` or, for None, of the config's data set."""
    if data is not None:
        return as_source(data)
    from jaxdis.data import DATASETS  # imported here because training on one's own images does not need it

    if config.data not in DATASETS:
        raise ValueError(f"data: needs one of {', '.join(DATASETS)}, or data passed to train, got {config.data!r}")
    return as_source(DATASETS[config.data].open(config.data, config.source))


def resolved_config(config: Config, source: Source) -> Config:
    """The config with a network that has an image shape.

    Raises:
      ValueError: for an unknown objective, or a network that does not fit the images.
    """
    objective_of(config)
    network = as_network(config.network)
    config = dataclasses.replace(config, network=network)
    needed = network.image_shape
    if needed is None:
        return dataclasses.replace(config, network=dataclasses.replace(network, image_shape=tuple(source.image_shape)))
    if tuple(needed) != tuple(source.image_shape):
        raise ValueError(f"data: the network needs images of shape {tuple(needed)}, got {tuple(source.image_shape)}")
    return config


def _check_estimator(config: Config, source: Source, hyperparameters) -> None:
    weighed = ("mutual_information", "total_correlation", "dimension_wise_kl")
    wanted = any(np.any(getattr(hyperparameters, name, 0) != 0) for name in weighed)
    if wanted and not estimable(config.batch_size, source.num_data, config.estimator):
        raise ValueError(
            f"batch_size: {config.estimator} needs at least 2 and at most the number of images, {source.num_data}, "
            f"got {config.batch_size}"
        )


def _identity(config: Config, source: Source, keys, hyperparameters, log_every: int) -> dict:
    """What a checkpoint must agree with to be resumed."""
    numbers = hashlib.sha256()
    for leaf in jax.tree.leaves((np.asarray(jax.random.key_data(keys)), hyperparameters)):
        numbers.update(np.ascontiguousarray(leaf).data)
    return {
        "config": describe(config),
        "data": fingerprint(source),
        "members": len(keys),
        "numbers": numbers.hexdigest()[:16],
        "log_every": log_every,
    }
