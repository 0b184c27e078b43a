"""Training a zoo: all members in one program.

:func:`make_train` gives the pure form, ``train(key, hyperparameters)`` for one member; a zoo is its ``vmap``.
:func:`train` runs the same updates block by block from the host, so that progress can be shown, saved and resumed.
"""

import dataclasses
import functools
import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdis._core import resources, runtime
from jaxdis._core.display import Progress, reported
from jaxdis._core.options import Count, checked, checked_devices
from jaxdis._core.precision import single_precision
from jaxdis._core.resources import live_bytes
from jaxdis.models._config import Config, describe
from jaxdis.models._members import checked_members
from jaxdis.models._zoo import Zoo, concatenate
from jaxdis.models.methods._method import Method, Slots
from jaxdis.models.training._checkpoint import Checkpoints, Kept, checked_keep
from jaxdis.models.training._image_source import Source, as_source, fingerprint
from jaxdis.models.training._runner import Runner, begin, run_block, update


def summary(losses) -> str:
    """``loss 61.2, reconstruction 40.1``: medians over finite members, and how many have stopped."""
    finite = np.isfinite(np.stack(losses)).all(0)
    if not finite.any():
        return "no member has a finite loss"
    medians = {name: np.median(field[finite]) for name, field in losses._asdict().items() if np.any(field[finite])}
    stopped = [f"{(~finite).sum()} stopped"] if (~finite).any() else []
    return ", ".join([f"{name} {median:.4g}" for name, median in medians.items()] + stopped)


# Smaller states, of models without slots, train on any machine.
LARGE_STATE = 128 << 20
# XLA's convolutions on CPU copy the windows that they read, which the count leaves out: up to as much again.
COPIES = 1.8
log = logging.getLogger("jaxdis")


def devices_that_fit(method: Method, hyperparameters, source: Source, devices: tuple) -> tuple:
    """The first devices, as many as have room for a member each, at least one; all if they are no CPUs.

    One member may not fit either; that is said and not refused, since its memory is counted roughly, see
    :func:`~jaxdis._core.resources.live_bytes`.
    """
    if devices[0].platform != "cpu":
        return devices
    method = method.tuned(devices[0].platform)
    key = jax.random.key(0)
    state = jax.eval_shape(functools.partial(begin, method), key)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    if size < LARGE_STATE and method.represents is not Slots:
        return devices
    one = jax.tree.map(lambda column: column[0], hyperparameters)
    needed = COPIES * live_bytes(functools.partial(update, method, source=source), state, key, one)
    free = resources.free_bytes(devices[0])
    if needed > free:
        words = "training: a model may need up to %s of memory, of which %s are free; a smaller batch_size needs less"
        log.warning(words, resources.in_words(needed), resources.in_words(free))
    return devices[: max(1, int(min(len(devices), free / needed)))]


class Trained(NamedTuple):
    """One member's parameters, losses ``[blocks]``, means over blocks, and the update that was not finite, or −1."""

    params: Any
    losses: Any
    stopped: Array


@checked
def make_train(config: Config, data=None, *, log_every: Count | None = None) -> Callable:
    """Make ``train(key, hyperparameters) → Trained``: a pure function, which can be jitted, vmapped and sharded.

    Args:
      config: what to train.
      data: as in :func:`train`. A renderer's tables or an array with images become constants in the program.
      log_every: updates per entry in the losses, which are means; the last block may be shorter. None: as many as the
        method says.
    """
    source = resolved_source(config, data)
    config = resolved_config(config, source)
    method = config.method
    method.check(method.settings(), source, config.steps)
    log_every = log_every or method.log_every
    starts = np.arange(0, config.steps, log_every, dtype=np.int32)

    @single_precision
    def train_one(key, hyperparameters) -> Trained:
        hyperparameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), hyperparameters)

        def one_block(state, start):
            count = jnp.minimum(config.steps - start, log_every)
            return run_block(method, state, key, hyperparameters, source, count)

        state, losses = jax.lax.scan(one_block, begin(method, key), jnp.asarray(starts))
        return Trained(method.params(state.learner), losses, state.stopped)

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
    log_every: Count | None = None,
    checkpoint_every: Count | None = None,
    keep=(),
    execution: Literal["auto", "map", "vmap"] = "auto",
    members_at_once: Count | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: Progress = False,
) -> Zoo:
    """Train a zoo.

    Args:
      config: what all members share. Members trained separately with the same config, key and hyperparameters are equal
        up to rounding, whatever the grouping, the devices and the arguments below. Parameters that the loss does not
        depend on, such as a bias before a batch normalization, are an exception: their gradient is a rounding error,
        which Adam scales to full steps; codes and losses are not affected.
      keys: ``[m]`` typed keys (``jax.random.key``), one per member, which determine initialization, noise and data
        order.
      hyperparameters: what the method's settings return, as scalars (shared) or ``[m]``. See
        :func:`jaxdis.models.members` for grids: ``train(config, *members(…))``.
      labels: ``m`` dicts that describe the members, for ``Zoo.select`` and tables; None: the hyperparameters.
      data: ``(space, render)``, images ``[n, h, w, c]``, ``(images, factors)`` for methods that need labels, or None
        for the data set ``config.data`` in ``jaxdis.data``.
      directory: where checkpoints are kept. Training resumes from the last valid one; an interrupted and resumed run
        gives the same bits as an uninterrupted one, on the same backend with the same arguments.
      log_every: updates per entry in ``Zoo.losses``, which are means; None: as many as the method says.
      checkpoint_every: updates between checkpoints, rounded up to a multiple of ``log_every``; None: as many as the
        method says.
      keep: after how many updates, in multiples of ``log_every`` (0 is before training), the members are kept as they
        are. The zoo then holds the members after each of these and after all updates, with the label ``"updates"``:
        scores along training are those of one zoo.
      execution: how the members on one device run: ``map``: one after another (faster on CPU); ``vmap``: together
        (faster on accelerators); ``auto``: by backend.
      members_at_once: members that run together under ``vmap``; None: as many as memory is estimated to hold.
      devices: devices over which members are spread; None: all devices on the default backend, or as many CPU devices
        as memory is estimated to hold large members.
      progress: True draws a bar with losses; a function is called with how many updates are finished and how many there
        are.

    Returns:
      The trained zoo. A member with an update that is not finite keeps its parameters from before that update, which
      ``Zoo.stopped`` records; the other members are not affected.

    Raises:
      ValueError: naming the argument, what it needs and what it got; also for another run's directory.
    """
    source = resolved_source(config, data)
    config = resolved_config(config, source)
    keys, hyperparameters, labels = checked_members(config.method, keys, hyperparameters, labels)
    config.method.check(hyperparameters, source, config.steps)
    log_every = log_every or config.method.log_every
    checkpoint_every = checkpoint_every or config.method.checkpoint_every
    keep = checked_keep(keep, config.steps, log_every)
    devices = checked_devices(devices) or devices_that_fit(config.method, hyperparameters, source, tuple(jax.devices()))
    checkpoints = Checkpoints.of(directory, _identity(config, source, keys, hyperparameters, log_every))
    runner = Runner(config.method, keys, hyperparameters, source, devices, execution, members_at_once)

    state, losses, done = checkpoints.last(runner.shapes(), config.method.losses) or (None, [], 0)
    state = runner.begin() if state is None else runner.layout.place(state)
    blocks_between_saves = -(-checkpoint_every // log_every)
    runtime.keep_programs()

    def zoo_now(more: dict) -> Zoo:
        params, stopped = runner.gathered((runner.params(state), state.stopped))
        curves = config.method.losses(
            *(np.stack(field, axis=1) for field in _curves(losses, config, len(labels), log_every))
        )
        named = tuple({**label, **more} for label in labels)
        return Zoo(config, params, hyperparameters, curves, stopped, named, log_every)

    kept = Kept(directory, config.method, keep, done)
    with reported(progress, "training", "updates") as show:
        kept.add(done, zoo_now)
        while done < config.steps:
            count = min(log_every, config.steps - done)
            state, block = runner.advance(state, count)
            done += count
            losses.append(block)
            if done == config.steps or len(losses) % blocks_between_saves == 0:
                checkpoints.save(runner.gathered(state), losses, done)
            kept.add(done, zoo_now)
            show(done, config.steps, summary(block))
    return concatenate([*kept.zoos, zoo_now({"updates": config.steps})]) if keep else zoo_now({})


def _curves(losses: list, config: Config, members: int, log_every: int) -> list[list[np.ndarray]]:
    """The losses' fields by block; blocks to come have the value of the last one, and NaN if there is none."""
    blocks = -(-config.steps // log_every)
    if not losses:
        return [[np.full(members, np.nan, np.float32)] * blocks for _ in config.method.losses._fields]
    return [[*field, *[field[-1]] * (blocks - len(field))] for field in zip(*losses, strict=True)]


def resolved_source(config: Config, data=None) -> Source:
    """The source of ``data`` or, for None, of the config's data set."""
    if data is not None:
        return as_source(data)
    from jaxdis.data import DATASETS  # imported here because training on one's own images does not need it

    if config.data not in DATASETS:
        raise ValueError(f"data: must be one of {', '.join(DATASETS)}, or data passed to train, got {config.data!r}")
    return as_source(DATASETS[config.data].open(config.data, config.source))


def resolved_config(config: Config, source: Source) -> Config:
    method = config.method.resolved(source.image_shape)
    if method.needs_labels and source.num_factors is None:
        raise ValueError(f"data: must be (images, factors) for {type(method).__name__}, got images alone")
    return dataclasses.replace(config, method=method)


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
