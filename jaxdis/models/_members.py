"""Which members a zoo has: a key, hyperparameters and a label per member."""

import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdis._core.arrays import as_numpy
from jaxdis._core.display import html_table
from jaxdis._core.options import Range, Seed, checked_value, is_key, is_keys, shown
from jaxdis.models._config import METHODS
from jaxdis.models.methods._method import Method, Variant

# Keys and labels of all seeds are held in memory.
MOST_SEEDS = 10**6
# More than any zoo has. Their labels take a few hundred megabytes.
MOST_MEMBERS = 100_000


class Members(NamedTuple):
    """``keys [m]``, ``hyperparameters`` with leaves ``[m]``, and ``m`` labels: ``{"model", settings…, "seed"}``."""

    keys: Array
    hyperparameters: NamedTuple
    labels: tuple[dict, ...]

    def __repr__(self) -> str:
        return f"Members({len(self.labels)}: {in_brief(self.labels)})"

    def _repr_html_(self) -> str:
        names = dict.fromkeys(name for label in self.labels for name in label)
        rows = [[label.get(name) for name in names] for label in self.labels]
        return html_table(f"{len(self.labels):,} members", list(names), rows)


def in_brief(labels: Sequence[dict]) -> str:
    """The members' first and last label, for a representation that fits a line or two."""
    return " … ".join(str(label) for label in (labels if len(labels) < 3 else (labels[0], labels[-1])))


def members(
    sweep: Mapping[str, Mapping], seeds: int | Sequence[int] = 1, method: Method | type[Method] | None = None
) -> Members:
    """Combine variants, settings and seeds into a zoo's members.

    Args:
      sweep: variant → settings, each a number or several, such as ``{"beta": {"beta": [1, 4, 16]}, "dip_i": {}}``,
        whose variants are objectives. Every combination is a setting. Objectives must share one loss to be trained
        together. If a method has only one variant, it bears the method's name, such as ``{"pca": {}}``.
      seeds: how many seeds (0, 1, …), or the seeds themselves. A seed's key is ``jax.random.key(seed)`` under every
        setting, as in Locatello et al. (2020).
      method: the method whose variants are swept; None: any in ``METHODS``.

    Returns:
      Members ordered by variant, then setting, then seed.

    Raises:
      ValueError: for an unknown variant or setting, or if there are no members.
    """
    seeds, cells = checked_sweep(sweep, seeds, method)
    variants = variants_of(method)
    rows, labels = [], []
    for (name, setting), seed in itertools.product(cells, seeds):
        rows.append(variants[name].settings(**setting))
        labels.append({"model": name, **setting, "seed": seed})
    if len({type(row) for row in rows}) > 1:
        raise ValueError(f"sweep: must have variants with the same hyperparameters, got {', '.join(sweep)}")
    stacked = type(rows[0])(*(np.array(column, np.float32) for column in zip(*rows, strict=True)))
    keys = jax.vmap(jax.random.key)(np.array([label["seed"] for label in labels]))
    return Members(keys, stacked, tuple(labels))


def checked_sweep(
    sweep: Mapping[str, Mapping], seeds: int | Sequence[int], method: Method | type[Method] | None
) -> tuple[tuple[int, ...], list[tuple[str, dict[str, float]]]]:
    """The seeds, and every variant with every combination of settings."""
    seeds = _seeds(seeds)
    if not isinstance(sweep, Mapping):
        raise ValueError(f"sweep: must be a mapping variant → settings, got {shown(sweep)}")
    variants = variants_of(method)
    cells = [(name, setting) for name, settings in sweep.items() for setting in _combinations(variants, name, settings)]
    if len(cells) * len(seeds) > MOST_MEMBERS:
        raise ValueError(f"seeds: must have at most {MOST_MEMBERS:,} members in all, got {len(cells)} × {len(seeds):,}")
    if not cells or not seeds:
        raise ValueError(
            f"members: must have at least one variant and one seed, got {len(cells)} cells, {len(seeds)} seeds"
        )
    return seeds, cells


def variants_of(method: Method | type[Method] | None) -> dict[str, Variant]:
    """The variants that a method's members may have, by name; a class's or, for None, those in all ``METHODS``."""
    if isinstance(method, Method):
        return dict(method.own_variants)
    methods = METHODS.values() if method is None else (method,)
    return {name: variant for method in methods for name, variant in method.variants.items()}


def checked_members(method: Method, keys, hyperparameters, labels):
    """Keys ``[m]``, hyperparameters as float32 ``[m]`` each, and ``m`` labels, all checked."""
    keys = jnp.stack(keys) if isinstance(keys, list | tuple) and keys and all(map(is_key, keys)) else keys
    if not is_keys(keys):
        raise ValueError(f"keys: must be typed keys such as jax.random.split(jax.random.key(0)), got {shown(keys)}")
    keys = keys.reshape(1) if keys.ndim == 0 else keys
    if keys.ndim != 1 or not len(keys):
        raise ValueError(f"keys: must have shape [m], one key per member, got {keys.shape}")
    if not hasattr(hyperparameters, "_fields"):
        raise ValueError(
            "hyperparameters: must be what the settings of a variant return, a NamedTuple of numbers, got "
            f"{type(hyperparameters).__name__}"
        )
    if hyperparameters._fields != method.settings()._fields:
        needed = ", ".join(method.settings()._fields) or "none"
        raise ValueError(f"hyperparameters: must be those of {type(method).__name__} ({needed}), got others")
    m = len(keys)
    columns = {name: _column(name, value, m) for name, value in hyperparameters._asdict().items()}
    _check_rates(method, columns)
    hyperparameters = type(hyperparameters)(**columns)
    if labels is None:
        name = "+".join(method.trained)
        labels = [{"model": name, **{n: float(c[i]) for n, c in columns.items()}} for i in range(m)]
    if not isinstance(labels, Sequence) or len(labels) != m or not all(isinstance(label, Mapping) for label in labels):
        raise ValueError(f"labels: must have {m} entries, one dict per member, got {shown(labels)}")
    return keys, hyperparameters, tuple(dict(label) for label in labels)


def _check_rates(method: Method, columns: Mapping[str, np.ndarray]) -> None:
    """Refuse learning rates that an optimizer with its own rate would not read."""
    for name, optimizer in method.rates.items():
        if name not in columns or not optimizer.has_own_rate:
            continue
        defaults = [getattr(variant.settings(), name) for variant in method.own_variants.values()]
        if not np.isin(columns[name], np.float32(defaults)).all():
            raise ValueError(
                f"{name}: the optimizer has its own, got {columns[name]}; to sweep it, pass a function learning rate → "
                "transformation, such as optax.adamw"
            )


def _seeds(seeds) -> tuple[int, ...]:
    if isinstance(seeds, int | np.integer):
        return tuple(range(checked_value("seeds", Annotated[int, Range(0, MOST_SEEDS)], seeds)))
    if isinstance(seeds, range) and len(seeds) > MOST_SEEDS:
        raise ValueError(f"seeds: must have at most {MOST_SEEDS:,} seeds, got {seeds}")
    return checked_value("seeds", tuple[Seed, ...], list(seeds) if isinstance(seeds, range) else seeds)


def _combinations(variants: Mapping[str, Variant], name: str, settings: Mapping):
    if not isinstance(name, str) or name not in variants:
        raise ValueError(f"sweep: must have names among {', '.join(variants)}, got {shown(name)}")
    if not isinstance(settings, Mapping):
        raise ValueError(f"{name}: must be a mapping setting → values, got {shown(settings)}")
    allowed = inspect.signature(variants[name].settings).parameters
    unknown = [setting for setting in settings if setting not in allowed]
    if unknown:
        raise ValueError(f"{name}: must have settings among {', '.join(allowed) or 'none'}, got {', '.join(unknown)}")
    columns = []
    for setting, given in settings.items():
        values, signed = as_numpy(given, f"{name}, {setting}"), setting in variants[name].signed
        unfit = values.dtype.kind not in "fiu" or values.ndim > 1 or not np.isfinite(values).all()
        if unfit or ((values < 0).any() and not signed):
            needed = "a finite number" if signed else "a finite number of at least 0"
            raise ValueError(f"{name}, {setting}: must be {needed} or a sequence of them, got {shown(values.tolist())}")
        columns.append(tuple(map(float, np.atleast_1d(values))))
    return [dict(zip(settings, chosen, strict=True)) for chosen in itertools.product(*columns)]


def _column(name: str, value, m: int) -> np.ndarray:
    array = as_numpy(value, f"hyperparameters, {name}")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"hyperparameters: {name} must be numbers, got dtype {array.dtype}")
    array = array.astype(np.float32)
    if array.shape not in ((), (m,)):
        raise ValueError(f"hyperparameters: {name} must be a number, or one per member [{m}], got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"hyperparameters: {name} must be finite, got {array}")
    if name.endswith("learning_rate") and (array < 0).any():
        raise ValueError(f"hyperparameters: {name} must be at least 0, got {array}")
    return np.broadcast_to(array, (m,)).copy()
