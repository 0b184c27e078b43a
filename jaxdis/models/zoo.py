"""A trained zoo: the parameters of all members, how they were trained, and what can be done with them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from jaxdis import files
from jaxdis.files import DamagedFile, named_leaves, read_arrays, with_leaves, write_arrays
from jaxdis.models.config import Config, describe, restored
from jaxdis.models.networks.custom import as_network
from jaxdis.models.objectives.losses import Hyperparameters, Losses
from jaxdis.models.objectives.table import OBJECTIVES
from jaxdis.models.posterior import Posterior, decode, encode
from jaxdis.options import Range, checked_value

_FORMAT = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Zoo:
    """``m`` trained members.

    Attributes:
      config: what the members share.
      params: parameter pytree, with leaves ``[m, …]`` on the host.
      hyperparameters: NamedTuple of ``[m]``.
      losses: :class:`Losses` of ``[m, blocks]``, means over ``log_every`` updates, nats.
      stopped: ``[m]`` int32: the update whose loss or gradient was not finite, or −1 for members that finished.
      labels: one dict per member, with its objective, settings and seed.
      log_every: updates per block.
    """

    config: Config
    params: Any
    hyperparameters: Any
    losses: Losses
    stopped: np.ndarray
    labels: tuple[dict, ...]
    log_every: int = 100

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, which) -> "Zoo":
        """The members at an index (a zoo of one), a slice, a sequence of indices or a mask ``[m]``."""
        rows = np.arange(len(self))[which]
        rows = np.atleast_1d(rows)
        take = lambda tree: jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)  # noqa: E731
        return dataclasses.replace(
            self,
            params=take(self.params),
            hyperparameters=take(self.hyperparameters),
            losses=take(self.losses),
            stopped=self.stopped[rows],
            labels=tuple(self.labels[row] for row in rows),
        )

    def select(self, **wanted) -> "Zoo":
        """The members with these labels: ``zoo.select(objective="beta", beta=4.0, seed=[0, 1])``.

        Raises:
          ValueError: for a name that no label has, or if no member matches.
        """
        for name in wanted:
            if not any(name in label for label in self.labels):
                names = sorted({key for label in self.labels for key in label})
                raise ValueError(f"select: needs a label among {', '.join(names)}, got {name!r}")
        rows = [
            i for i, label in enumerate(self.labels) if all(_is(label.get(n), value) for n, value in wanted.items())
        ]
        if not rows:
            raise ValueError(f"select: no member has {wanted}")
        return self[rows]

    def encode(self, images, *, render=None, key=None, batch_size: int | None = None, devices=None) -> Posterior:
        """Posterior means and variances ``[m, n, d]`` of images ``[n, h, w, c]`` (or of factors, with a ``render``).

        Members are spread over ``devices`` (None: all of the default backend). A renderer that draws noise takes it
        from ``key`` (None: ``jax.random.key(0)``).
        """
        return encode(self.config, self.params, images, render=render, key=key, batch_size=batch_size, devices=devices)

    def decode(self, codes, *, batch_size: int | None = None, devices=None) -> np.ndarray:
        """Expected images ``[m, n, h, w, c]`` in [0, 1] of codes ``[m, n, d]`` (or ``[n, d]`` for every member)."""
        return decode(self.config, self.params, codes, batch_size=batch_size, devices=devices)

    def reconstruct(self, images, *, batch_size: int | None = None, devices=None) -> np.ndarray:
        """Expected images ``[m, n, h, w, c]`` of the posterior means of images ``[n, h, w, c]``."""
        how = {"batch_size": batch_size, "devices": devices}
        return self.decode(self.encode(images, **how).mean, **how)

    def export(self, member: int) -> dict:
        """One member as a flax variables tree, ``{"params": …}``, for ``networks.module(zoo.config.network).apply``.

        Kernels have flax's layout: a member trained with ``compute="matmul"`` is also valid with ``"conv"``.
        """
        member = checked_value("member", Annotated[int, Range(0, len(self) - 1)], member)
        return {"params": jax.tree.map(lambda leaf: np.asarray(leaf)[member], self.params)}

    def save(self, path: str | Path) -> None:
        """Write to one npz file, atomically; ``jaxdis.models.load`` reads it."""
        write_arrays(path, *self._contents())

    def packed(self) -> dict[str, np.ndarray]:
        """The arrays of such a file, for writing them elsewhere."""
        return files.packed(*self._contents())

    def _contents(self) -> tuple[dict, dict[str, np.ndarray]]:
        """The header and the arrays of a file."""
        header = {
            "format": _FORMAT,
            "config": describe(self.config),
            "hyperparameters": type(self.hyperparameters).__name__,
            "labels": list(self.labels),
            "log_every": self.log_every,
        }
        arrays = {f"params/{name}": leaf for name, leaf in named_leaves(self.params).items()}
        arrays |= {
            f"hyperparameters/{n}": c for n, c in zip(self.hyperparameters._fields, self.hyperparameters, strict=True)
        }
        arrays |= {f"losses/{name}": curve for name, curve in zip(Losses._fields, self.losses, strict=True)}
        return header, {**arrays, "stopped": self.stopped}


def load(path: str | Path, network=None) -> Zoo:
    """Read a zoo that :meth:`Zoo.save` wrote.

    Args:
      path: path of the npz file.
      network: the user's own network if the zoo was trained with one, since functions cannot be stored.

    Raises:
      ValueError: for a file that is damaged or whose arrays do not fit its network.
    """
    header, arrays = read_arrays(path)
    if header.get("format") != _FORMAT:
        raise DamagedFile(f"{path}: needs a zoo of format {_FORMAT}, got {header.get('format')!r}")
    try:
        return _unpacked(header, arrays, network, str(path))
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        words = f"{type(error).__name__}: {error}"
        raise DamagedFile(f"{path}: needs the header and arrays of a zoo, got {words}") from None


def _unpacked(header: dict, arrays: dict[str, np.ndarray], network, path: str) -> Zoo:
    """The zoo of a file's contents."""
    config = _config(header["config"], network)
    m = len(header["labels"])
    shapes = jax.eval_shape(jax.vmap(config.network.init), jax.random.split(jax.random.key(0), m))
    groups: dict[str, dict] = {"params": {}, "hyperparameters": {}, "losses": {}}
    for name, array in arrays.items():
        group, _, rest = name.partition("/")
        if rest:
            groups[group][rest] = array
    return Zoo(
        config=config,
        params=with_leaves(shapes, groups["params"], path),
        hyperparameters=_hyperparameters(config)(**groups["hyperparameters"]),
        losses=Losses(**groups["losses"]),
        stopped=arrays["stopped"],
        labels=tuple(header["labels"]),
        log_every=header["log_every"],
    )


def concatenate(zoos: Sequence[Zoo]) -> Zoo:
    """The members of several zoos as one zoo; the network must be the same, and the first config is kept.

    Raises:
      ValueError: if the networks or the lengths of the loss curves differ.
    """
    zoos = list(zoos)
    if not zoos or not all(isinstance(zoo, Zoo) for zoo in zoos):
        raise ValueError(f"zoos: needs at least one zoo, got {[type(zoo).__name__ for zoo in zoos]}")
    first = zoos[0]
    for zoo in zoos[1:]:
        if zoo.config.network != first.config.network or zoo.losses.loss.shape[1] != first.losses.loss.shape[1]:
            raise ValueError("zoos: need the same network and number of loss blocks to be concatenated")
    join = lambda *leaves: np.concatenate(leaves)  # noqa: E731
    return dataclasses.replace(
        first,
        params=jax.tree.map(join, *(zoo.params for zoo in zoos)),
        hyperparameters=jax.tree.map(join, *(zoo.hyperparameters for zoo in zoos)),
        losses=jax.tree.map(join, *(zoo.losses for zoo in zoos)),
        stopped=np.concatenate([zoo.stopped for zoo in zoos]),
        labels=tuple(label for zoo in zoos for label in zoo.labels),
    )


def _config(description: dict, network) -> Config:
    stored = description["network"]
    if network is None:
        if stored.get("type") == "Own":
            raise ValueError(
                f"network: this zoo was trained with the user's network {stored['name']!r}; pass it to load"
            )
        return restored(description)
    network = as_network(network)
    if network.image_shape is None:
        network = dataclasses.replace(network, image_shape=tuple(stored["image_shape"]))
    config = restored({**description, "network": None})
    return dataclasses.replace(config, network=network)


def _hyperparameters(config: Config) -> type:
    name = config.objective if isinstance(config.objective, str) else config.objective[0]
    if name not in OBJECTIVES:
        return Hyperparameters
    return type(OBJECTIVES[name].settings())


def _is(value, wanted) -> bool:
    return value in wanted if isinstance(wanted, list | tuple | set) else value == wanted
