"""Training a zoo: all members in one program.

:func:`make_train` gives the pure form, ``train(key, hyperparameters)`` for one member; a zoo is its ``vmap``.
:func:`train` runs the same updates block by block from the host, so that progress can be shown, saved and resumed.

Checkpoints hold all members' full state at regular intervals; the last two are kept. Beside them are members as they
were after updates that the user chose.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdis._core import files, resources, runtime
from jaxdis._core.display import Progress, reported
from jaxdis._core.executor import Layout, members_that_fit
from jaxdis._core.options import Count, Natural, checked, checked_devices, checked_value, listed, shown
from jaxdis._core.platforms import Program
from jaxdis._core.precision import single_precision
from jaxdis._core.resources import live_bytes
from jaxdis.models._config import Config, describe
from jaxdis.models._members import checked_members
from jaxdis.models._zoo import Zoo, concatenate, load
from jaxdis.models.methods._method import Method, Slots
from jaxdis.models.training._image_source import Source, as_source, fingerprint


class State(NamedTuple):
    """The method's own state (``learner``), updates done, and the update that was not finite and rejected, or −1."""

    learner: Any
    step: Array
    stopped: Array


def begin(method: Method, key) -> State:
    return State(method.begin(jax.random.fold_in(key, _BEGIN)), jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))


def update(method: Method, state: State, key, hyperparameters, source: Source) -> tuple[State, Any]:
    """One update. A member whose update is not finite is left unchanged from then on, and its losses are NaN."""

    def go(learner):
        return method.update(learner, state.step, jax.random.fold_in(key, state.step), hyperparameters, source)

    def stay(learner):
        return learner, method.losses(*(jnp.full((), jnp.nan) for _ in method.losses._fields))

    learner, losses = jax.lax.cond(state.stopped < 0, go, stay, state.learner)
    sound = jnp.stack([jnp.isfinite(loss) for loss in losses]).all()
    stopped = jnp.where((state.stopped < 0) & ~sound, state.step, state.stopped)
    return State(learner, state.step + sound.astype(jnp.int32), stopped), losses


def run_block(method: Method, state: State, key, hyperparameters, source: Source, count) -> tuple[State, Any]:
    """``count`` updates for one member and their mean losses. The count is traced: a shorter last block recompiles
    nothing."""

    def one_more(_, carry):
        state, total = carry
        state, losses = update(method, state, key, hyperparameters, source)
        return state, jax.tree.map(jnp.add, total, losses)

    zero = method.losses(*(jnp.zeros(()) for _ in method.losses._fields))
    state, total = jax.lax.fori_loop(0, count, one_more, (state, zero))
    return state, jax.tree.map(lambda leaf: leaf / jnp.float32(count), total)


# Share of a device's free memory that members running together may fill.
_SHARE = 0.6
# With this many members at once, matrix products fill any device, and more members only cost memory.
_MOST_AT_ONCE = 128


class Runner:
    """A zoo's members on their devices.

    ``execution``: ``map``: the members on one device run one after another, each with all its updates before the next;
    ``vmap``: they run together, ``members_at_once`` or as many as memory is estimated to hold; ``auto``: ``map`` on
    CPU, ``vmap`` elsewhere.
    """

    def __init__(
        self,
        method: Method,
        keys,
        hyperparameters,
        source: Source,
        devices: Sequence[jax.Device] | None = None,
        execution: str = "auto",
        members_at_once: int | None = None,
    ):
        self.num_members = len(keys)
        self.layout = Layout.over(devices, self.num_members)
        on_cpu = self.layout.platform == "cpu"
        together = execution == "vmap" or (execution == "auto" and not on_cpu)
        if on_cpu and not together:
            # On all devices, even with fewer members: a zoo of one then shares the program of a zoo of two.
            self.layout = Layout(tuple(jax.devices()) if devices is None else tuple(devices))
        self.method = method.tuned(self.layout.platform)
        self._keys, self._hyperparameters = self.layout.place((keys, hyperparameters))
        self._source = self.layout.share(source)
        if together:
            self.layout = dataclasses.replace(self.layout, at_once=members_at_once or self._most_at_once())

    def begin(self) -> State:
        return _begin(self.method, self.layout, self._keys)

    def advance(self, state: State, count: int) -> tuple[State, Any]:
        """``count`` updates for every member and their mean losses, ``[m]`` on the host. The state is donated."""
        members = (self._keys, self._hyperparameters)
        each = -(-self.num_members // len(self.layout.devices))
        real = np.clip(self.num_members - each * np.arange(len(self.layout.devices)), 0, each).astype(np.int32)
        state, losses = _advance(self.method, self.layout, state, members, self._source, np.int32(count), real)
        return state, self.gathered(losses)

    def params(self, state: State) -> Any:
        """The parameters with which the members represent images, ``[m, …]``."""
        return _params(self.method, self.layout, state.learner)

    def gathered(self, tree):
        """Leaves ``[m, …]`` on the host."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.num_members], tree)

    def shapes(self) -> State:
        """Shapes and dtypes in the ``m`` members' state."""
        shapes = jax.eval_shape(functools.partial(_begin, self.method, self.layout), self._keys)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.num_members, *leaf.shape[1:]), leaf.dtype), shapes)

    def memory(self, at_once: int = 1) -> int:
        """Temporary memory in bytes that ``at_once`` members need on one device, by the compiler's analysis."""
        layout = dataclasses.replace(self.layout, at_once=at_once)
        m = at_once * len(layout.devices)
        members = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((m, *leaf.shape[1:]), leaf.dtype), (self._keys, self._hyperparameters)
        )
        state = jax.eval_shape(functools.partial(_begin, self.method, layout), members[0])
        real = np.full(len(layout.devices), at_once, np.int32)
        lowered = _advance.lower(self.method, layout, state, members, self._source, np.int32(1), real)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    def _most_at_once(self) -> int:
        """As many members as a device's free memory holds; all if the device does not report it."""
        most = min(-(-self.num_members // len(self.layout.devices)), _MOST_AT_ONCE)
        stats = self.layout.devices[0].memory_stats() or {}
        if most == 1 or "bytes_limit" not in stats:
            return most
        free = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
        return members_that_fit(int(_SHARE * free), self.memory(1), most)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin(method: Method, layout: Layout, keys) -> State:
    return layout.map(lambda key, _: begin(method, key), keys)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _params(method: Method, layout: Layout, learners) -> Any:
    return layout.map(lambda learner, _: method.params(learner), learners)


@functools.partial(Program, layout=1, static_argnums=(0, 1), donate_argnums=2)
def _advance(method: Method, layout: Layout, state: State, members, source: Source, count, real) -> tuple[State, Any]:
    """``real``: how many members on each device are not repetitions; where members run one by one, only these run."""

    def block(member, shared):
        return run_block(method, *member, *shared)

    if layout.at_once > 1:
        return layout.map(block, (state, *members), (source, count))
    return layout.map_first(block, (state, *members), real, (source, count))


_KEPT = 2
# Differences named in the refusal of another run's directory.
_MOST_SHOWN = 5
# What differs where a fingerprint does, whose digits say nothing.
_FINGERPRINTS = {"data": "other images", "numbers": "other seeds or settings of members"}
_NAME = re.compile(r"step_[0-9]{9,18}\.npz")


class OtherRunError(ValueError):
    """A directory that holds a run with another identity."""


class Checkpoints:
    """One run's checkpoints in one directory; if ``directory`` is None, nothing is kept."""

    def __init__(self, directory: Path | None, identity: dict):
        self._directory = directory
        self._identity = identity

    @classmethod
    def of(cls, directory: str | Path | None, identity: dict) -> "Checkpoints":
        """Open or create a run directory, whose ``run.json`` records its identity."""
        if directory is None:
            return cls(None, identity)
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for folder in (directory, directory / "checkpoints"):
            files.remove_leftovers(folder)
        record = directory / "run.json"
        if (directory / "study.json").exists():
            raise ValueError(f"directory: must be a directory of its own, got {directory}, which holds a study")
        if not record.exists():
            files.write_json(record, identity)
        try:
            stored = files.read_json(record)
        except FileNotFoundError:  # another process has removed the folder meanwhile
            return cls(directory, identity)
        except files.DamagedFile as error:
            raise ValueError(
                f"directory: {record} needs the JSON of a run ({error}); remove it to start over"
            ) from None
        identity = json.loads(json.dumps(identity))
        if stored != identity:
            pairs = files.differences(stored, identity)
            faults = [_FINGERPRINTS.get(place, f"{place} {difference}") for place, difference in pairs]
            more = f", and {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
            words = "; ".join(faults[:_MOST_SHOWN]) + more
            raise OtherRunError(f"directory: {directory} holds another run ({words}); choose another directory")
        return cls(directory, identity)

    def save(self, state: State, losses: list, done: int) -> None:
        """Write a state with leaves ``[m, …]`` and each block's losses ``[m]``, and remove all but the last two
        checkpoints."""
        if self._directory is None:
            return
        fields = zip(losses[0]._fields, zip(*losses, strict=True), strict=True)
        curves = {f"losses/{name}": np.stack(field) for name, field in fields}
        arrays = {f"state/{name}": leaf for name, leaf in files.named_leaves(state).items()} | curves
        path = self._directory / "checkpoints" / f"step_{done:09d}.npz"
        files.write_arrays(path, {"identity": self._identity, "done": done}, arrays)
        for path in _paths(self._directory)[_KEPT:]:
            path.unlink(missing_ok=True)

    def last(self, shapes: State, kind: type) -> tuple[State, list, int] | None:
        """What :meth:`save` wrote last; damaged checkpoints and other runs' are skipped with a warning."""
        for path in _paths(self._directory):
            try:
                return self._read(path, shapes, kind)
            except files.DamagedFile as error:
                warnings.warn(f"checkpoint skipped: {error}", stacklevel=3)
            except FileNotFoundError:  # another process has removed it meanwhile
                continue
        return None

    def _read(self, path: Path, shapes: State, kind: type):
        header, arrays = files.read_arrays(path)
        if header.get("identity") != json.loads(json.dumps(self._identity)):
            raise files.DamagedFile(f"{path}: belongs to another run")
        done = header.get("done")
        if done != _updates(path) or type(done) is not int:
            raise files.DamagedFile(f"{path}: must have the number of updates in its name, got {done!r}")
        state = {name.removeprefix("state/"): a for name, a in arrays.items() if name.startswith("state/")}
        members, blocks = self._identity["members"], -(-done // self._identity["log_every"])
        curves = [arrays.get(f"losses/{name}") for name in kind._fields]
        if any(curve is None or curve.shape != (blocks, members) for curve in curves):
            raise files.DamagedFile(f"{path}: must have losses of shape {(blocks, members)}")
        losses = [kind(*block) for block in zip(*curves, strict=True)]
        return files.with_leaves(shapes, state, str(path)), losses, done


def saved_updates(directory: str | Path) -> int:
    """Updates done according to the newest undamaged checkpoint; 0 without any."""
    for path in _paths(Path(directory)):
        with contextlib.suppress(files.DamagedFile, FileNotFoundError):
            if files.read_arrays(path)[0].get("done") == _updates(path):
                return _updates(path)
    return 0


def _paths(directory: Path | None) -> list[Path]:
    """Checkpoints, newest first."""
    if directory is None:
        return []
    try:
        names = os.listdir(directory / "checkpoints")
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths = [directory / "checkpoints" / name for name in names if _NAME.fullmatch(name)]
    return sorted(paths, key=_updates, reverse=True)


def _updates(path: Path) -> int:
    return int(path.stem.removeprefix("step_"))


class Kept:
    """One run's zoos after given updates; read from its directory where it is resumed."""

    def __init__(self, directory: str | Path | None, method: Method, keep: Sequence[int], done: int):
        """Read what was kept before ``done`` updates."""
        self._directory = None if directory is None else Path(directory)
        self._keep = [number for number in keep if number >= done]
        self.zoos = []
        for number in (number for number in keep if number < done):
            path = self._path(number)
            if not path.exists():
                raise ValueError(f"keep: must be given from the start, got {number}, which {directory} has passed")
            self.zoos.append(load(path, method))

    def add(self, done: int, zoo_now: Callable[[dict], Zoo]) -> None:
        """Keep the zoo if it shall be kept after this many updates."""
        if done not in self._keep:
            return
        self.zoos.append(zoo_now({"updates": done}))
        if self._directory is not None:
            self.zoos[-1].save(self._path(done))

    def _path(self, done: int) -> Path:
        return self._directory / f"kept_{done:09}.npz"


def checked_keep(keep, steps: int, log_every: int) -> tuple[int, ...]:
    """Ascending counts of updates before the last, each where a block ends."""
    numbers = listed(keep)
    if numbers is None:
        raise ValueError(f"keep: must be numbers of updates, got {shown(keep)}")
    numbers = sorted({checked_value("keep", Natural, number) for number in numbers} - {steps})
    for number in numbers:
        if number > steps or number % log_every:
            raise ValueError(f"keep: must be multiples of {log_every} (log_every) up to {steps}, got {number}")
    return tuple(numbers)


# Folded into a member's key before its first update; updates fold in their own number.
_BEGIN = 2**31 - 1


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
        curves = _curves(losses, config, len(labels), log_every)
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


def _curves(losses: list, config: Config, members: int, log_every: int) -> Any:
    """Losses ``[m, blocks]``; blocks to come have the value of the last one, and NaN if there is none."""
    kind = config.method.losses
    *done, last = losses or [kind(*(np.full(members, np.nan, np.float32) for _ in kind._fields))]
    blocks = done + [last] * (-(-config.steps // log_every) - len(done))
    return kind(*(np.stack(field, axis=1) for field in zip(*blocks, strict=True)))


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
