"""What is known about scenes with several objects besides their factors: which factor belongs to which object, and
masks."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Num

from jaxdis._core.precision import single_precision
from jaxdis.data._factor_space import FactorSpace
from jaxdis.factors import Factors

# Scenes drawn at one time for their masks.
_CHUNK = 1000


class SceneSamples(NamedTuple):
    """Samples of scenes: the objects' ``factors [n, k]``, ``labels`` for these, and ``masks [n, h, w]``.

    ``labels`` has an ``(object, property)`` pair per factor; ``categorical`` are the columns whose classes have no
    order, and ``extrinsic`` those for properties that describe where an object is. Masks are 0 for the background and i
    for object i.
    """

    factors: Factors
    labels: tuple[tuple[str, str], ...]
    categorical: tuple[int, ...]
    background: str | None
    masks: np.ndarray
    extrinsic: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Scenes:
    """The field ``scenes`` in a data set with scenes.

    Attributes:
      labels: space → factor name → ``(object, property)``, in the objects' order, the background first; factors that
        belong to no object are left out.
      masks: ``(space, factors [n, k]) → masks [n, h, w]``, whole numbers; 0 is the background.
      complete: the space restricted to scenes in which all objects are present.
      radius: the ``radius`` for :meth:`~jaxdis.data.FactorSpace.local_groups`.
      categorical: properties whose classes have no order.
      background: the object that is the background; None if it has no factors.
      extrinsic: properties that describe where an object is and how it is rotated, not what it is.
    """

    labels: Callable[[FactorSpace], Mapping[str, tuple[str, str]]]
    masks: Callable[[FactorSpace, Array], Array]
    complete: Callable[[FactorSpace], FactorSpace]
    radius: Callable[[FactorSpace], Mapping[str, int | float]]
    categorical: tuple[str, ...] = ()
    background: str | None = None
    extrinsic: tuple[str, ...] = ()

    @single_precision
    def draw(self, space: FactorSpace, key, n: int, groups: int = 1) -> Num[Array, "n k"]:
        """Factors for ``n`` complete scenes: in equally long local groups, or independent for one group."""
        space = self.complete(space)
        if groups == 1:
            return space.sample(key, n)
        return space.local_groups(key, self.radius(space), groups=groups, samples=n // groups)

    @single_precision
    def samples(self, space: FactorSpace, factors: Factors) -> SceneSamples:
        """What slots are scored against."""
        labels = self.labels(space)
        columns = [factors.names.index(name) for name in labels]
        sizes = tuple(factors.sizes[column] for column in columns)
        of_objects = Factors(factors.values[:, columns], sizes, tuple(labels))
        starts = range(0, factors.num_samples, _CHUNK)
        parts = [np.asarray(_masks(self.masks, space, factors.values[start : start + _CHUNK])) for start in starts]
        pairs = tuple(labels.values())
        categorical, extrinsic = (
            tuple(j for j, (_, name) in enumerate(pairs) if name in names)
            for names in (self.categorical, self.extrinsic)
        )
        return SceneSamples(of_objects, pairs, categorical, self.background, np.concatenate(parts), extrinsic)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _masks(masks: Callable, space: FactorSpace, rows: Num[Array, "n k"]) -> Num[Array, "n h w"]:
    return masks(space, rows)


def labels_of(space: FactorSpace) -> dict[str, tuple[str, str]]:
    """``(object, property)`` for each factor that an object or the background has, as ``object_1_red``."""
    places = {name: name.rpartition("_") for name in space.names if name.startswith(("background_", "object_"))}
    return {name: (thing.replace("_", " "), of_thing) for name, (thing, _, of_thing) in places.items()}


def scene_columns(least: int, most: int, limit: int, others: Mapping, of_object: Mapping) -> dict:
    """Factors ``num_objects``, others, and ``object_i_*``, by the values of an object's."""
    if not 1 <= least <= most <= limit:
        raise ValueError(f"max_objects: must be 1 ≤ min_objects ≤ max_objects ≤ {limit}, got {least} and {most}")
    rows = {f"object_{i}_{name}": values for i in range(1, most + 1) for name, values in of_object.items()}
    return {"num_objects": tuple(range(least, most + 1)), **others, **rows}


def pooled_masks(masks: np.ndarray, height: int, width: int) -> np.ndarray:
    """Masks ``[n, h, w]`` for images with this height and width, whose pixels average blocks.

    The most frequent number in each block; if several are, the lowest.
    """
    n, *sides = masks.shape
    if sides[0] % height or sides[1] % width:
        raise ValueError(f"masks: must have sides that are multiples of {height} and {width}, got {tuple(sides)}")
    if sides == [height, width]:
        return masks
    blocks = masks.reshape(n, height, sides[0] // height, width, sides[1] // width)
    counts = np.stack([(blocks == number).sum((2, 4)) for number in range(int(masks.max()) + 1)])
    return counts.argmax(0).astype(masks.dtype)
