"""Images' classes by their factors, and the Gaussians over their codes that WeakDE takes as its prior."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis._core import random
from jaxdis._core.factorizations import cholesky

# (position of a factor, group of each of its values or −1 for none), …; a class is a combination of groups.
Groups = tuple[tuple[int, tuple[int, ...]], ...]
# (which entry of the groups, step, whether the last group is followed by the first), …
Relations = tuple[tuple[int, int, bool], ...]


def _spans(*sizes: int) -> tuple[int, ...]:
    """Consecutive values in groups with these sizes."""
    return tuple(int(group) for group in np.repeat(np.arange(len(sizes)), sizes))


# Three regions of x and of y, and three shapes; left, right, up, down and the next shape.
DSPRITES_CLASSES: Groups = ((0, (0, 1, 2)), (3, _spans(11, 10, 11)), (4, _spans(11, 10, 11)))
_ENDS_AND_MIDDLE = tuple(0 if v <= 4 else 1 if 13 <= v <= 17 else 2 if v >= 27 else -1 for v in range(32))
# Those of the released code, which trains on images with a class alone: 1.6 % of dSprites.
DSPRITES_REGIONS: Groups = (
    (0, (0, 1, 2)),
    (3, _ENDS_AND_MIDDLE),
    (4, _ENDS_AND_MIDDLE),
    (1, (-1, -1, 0, 0, 0, -1)),
    (2, tuple(0 if v <= 2 or v >= 37 else -1 for v in range(40))),
)
DSPRITES_RELATIONS: Relations = ((1, -1, True), (1, 1, True), (2, -1, True), (2, 1, True), (0, 1, True))
# Ten hues of the object, four shapes, three spans of its size.
SHAPES3D_CLASSES: Groups = ((2, tuple(range(10))), (4, (0, 1, 2, 3)), (3, _spans(3, 2, 3)))
SHAPES3D_RELATIONS: Relations = ((0, 1, False), (0, -1, False), (2, 1, False), (2, -1, False), (1, 1, True))
# Colors and shapes of the object: inferred.
MPI3D_CLASSES: Groups = ((0, tuple(range(6))), (1, tuple(range(6))))
MPI3D_RELATIONS: Relations = ((0, 1, True), (0, -1, True), (1, 1, True))


class ClassPriors(NamedTuple):
    """A Gaussian per class: ``mean [c, d]``, Cholesky ``factor [c, d, d]``, and whether it has images."""

    mean: Float[Array, "c d"]
    factor: Float[Array, "c d d"]
    present: Bool[Array, " c"]

    @classmethod
    def blank(cls, num_classes: int, d: int) -> "ClassPriors":
        shape = (num_classes, d)
        return cls(jnp.zeros(shape), jnp.zeros((*shape, d)), jnp.zeros(num_classes, bool))

    @classmethod
    def fitted(
        cls, codes: Float[Array, "n d"], classes: Int[Array, " n"], num_classes: int, share: Float[Array, ""]
    ) -> "ClassPriors":
        """Mean and ``share`` times the (unbiased) covariance for each class's codes; class −1 is none.

        A class with fewer than two images is absent. Where a class has fewer images than codes, its covariance is
        singular: a millionth of its summed variances is added to the diagonal, enough for a factor in float32.
        """
        hot = jax.nn.one_hot(classes, num_classes, dtype=jnp.float32)
        d, count = codes.shape[1], hot.sum(0)
        mean = hot.T @ codes / jnp.maximum(count, 1)[:, None]
        centered = jnp.where((classes >= 0)[:, None], codes - mean[jnp.maximum(classes, 0)], 0)
        products = (centered[:, :, None] * centered[:, None, :]).reshape(-1, d * d)
        scatter = (hot.T @ products / jnp.maximum(count - 1, 1)[:, None]).reshape(-1, d, d)
        ridge = 1e-6 * jnp.trace(scatter, axis1=1, axis2=2) + 1e-12
        covariance = share * (scatter + ridge[:, None, None] * jnp.eye(d)[None])
        return cls(mean, cholesky(covariance), count >= 2)

    def at(self, classes: Int[Array, "..."], normal: Float[Array, "... d"]) -> Float[Array, "... d"]:
        """Draws from each class's Gaussian, by standard normal numbers."""
        return self.mean[classes] + jnp.einsum("...ij,...j->...i", self.factor[classes], normal)

    def draw_classes(self, key, n: int) -> Int[Array, " n"]:
        """Classes, uniformly among those that are present."""
        ends = jnp.cumsum(self.present.astype(jnp.float32))
        place = random.uniform(key, (n,)) * ends[-1]
        return jnp.minimum((ends[None] <= place[:, None]).sum(1, dtype=jnp.int32), len(ends) - 1)


def sizes_of(groups: Groups) -> tuple[int, ...]:
    """How many groups each factor has."""
    return tuple(1 + max(group_of) for _, group_of in groups)


def class_of(factors: Num[Array, "n k"], groups: Groups) -> Int[Array, " n"]:
    """Each image's class, −1 for none: its groups as the digits of a number, the first counting most."""
    classes, listed = jnp.zeros(len(factors), jnp.int32), jnp.ones(len(factors), bool)
    for (position, group_of), size in zip(groups, sizes_of(groups), strict=True):
        group = jnp.asarray(np.array(group_of, np.int32))[factors[:, position].astype(jnp.int32)]
        classes, listed = classes * size + group, listed & (group >= 0)
    return jnp.where(listed, classes, -1)


def targets_of(groups: Groups, relations: Relations) -> np.ndarray:
    """``[r, c]``: the class that each relation leads to from each class."""
    sizes = sizes_of(groups)
    cells = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes))
    rows = []
    for which, by, circular in relations:
        moved, size = cells.copy(), sizes[which]
        moved[which] = (cells[which] + by) % size if circular else np.clip(cells[which] + by, 0, size - 1)
        rows.append(np.ravel_multi_index(tuple(moved), sizes))
    return np.array(rows, np.int32).reshape(len(relations), -1)
