"""Data sets that are a list of images rather than a function: only the listed combinations exist."""

import dataclasses
import hashlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray, UInt8

from jaxdis._core import random
from jaxdis._core.options import Natural, checked
from jaxdis.data._factor_space import FactorSpace


class Listing:
    """Factors ``values [n, k]`` for ``n`` stored images, hashable by their content."""

    def __init__(self, values: np.ndarray):
        self.values = np.ascontiguousarray(values, np.float32)
        self._digest = hashlib.sha256(self.values.tobytes()).hexdigest()[:16]

    def __eq__(self, other) -> bool:
        return isinstance(other, Listing) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"Listing({len(self.values)}, {self._digest})"


@dataclasses.dataclass(frozen=True)
class ListedSpace(FactorSpace):
    """A space whose samples are drawn from a list, with replacement, outside the regions that are left out.

    Interventions, which need images for combinations that nobody stored, are refused.
    """

    listing: Listing | None = None

    @classmethod
    def over(cls, space: FactorSpace, values: np.ndarray) -> "ListedSpace":
        """The space with these rows ``[n, k]`` as its only samples."""
        fields = {field.name: getattr(space, field.name) for field in dataclasses.fields(space)}
        return cls(**fields, listing=Listing(values))

    @checked
    def sample(self, key: PRNGKeyArray, n: Natural) -> Num[Array, "n k"]:
        """n independent samples from the list, uniform over its rows outside all regions."""
        return self._outside_regions(ListedSpace._rows, (n,), key, jnp.asarray(self.listing.values))

    def _rows(self, n: int, key, rows: Float[Array, "l k"]) -> Float[Array, "n k"]:
        return rows[random.randint(key, (n,), 0, len(rows))]

    def given(self, key, factor, value):
        raise ValueError(_REFUSED.format("given"))

    def local_group(self, key, n, radius, circular=()):
        raise ValueError(_REFUSED.format("local_group"))

    def only(self, combination):
        raise ValueError(_REFUSED.format("only"))


_REFUSED = "{}: must be called on a data set that is rendered, got one of stored images, whose factors cannot be chosen"


@dataclasses.dataclass(frozen=True)
class NearestListed:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: the stored image with the nearest factors.

    ``tables`` are the factors ``[n, k]`` and the images ``[n, h, w, c]``. For factors that a :class:`ListedSpace`
    samples, which are in the list, this is their own image.
    """

    def __call__(self, tables: tuple[Array, Array], factors: Float[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        listed, images = tables

        def nearest(row: Float[Array, " k"]) -> Int[Array, ""]:
            return jnp.square(listed - row[None]).sum(1).argmin().astype(jnp.int32)

        return images[jax.lax.map(nearest, factors)]
