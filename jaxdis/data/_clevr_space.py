"""How CLEVR's scenes are drawn: independent factors, under the rules of Johnson et al.'s released code (2017)."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray, UInt8

from jaxdis._core import random
from jaxdis._core.options import Count, Natural, checked
from jaxdis.data import _cell_draws as draws
from jaxdis.data import _clevr_render as clevr
from jaxdis.data._clevr_render import OBJECT_FACTORS, View
from jaxdis.data._factor_space import FactorSpace, Interval

# Where objects may stand: the rules are those in Johnson et al.'s released code (2017). Two objects are apart if there
# is a gap between them, and if they are not at nearly the same place from left to right, nor from front to back. These
# are the camera's directions before it is moved: published scenes have the same ones, wherever the camera is.

GAP, MARGIN = np.float32(0.25), np.float32(0.4)
# Places that are tried for each object.
TRIES = 50
# Pixels are counted in pictures of this side, in proportion.
COUNTED_SIDE = 64

Row = Float[Array, " k"]


def placed(view: View, key: PRNGKeyArray, row: Row, low: Row, high: Row) -> tuple[Row, Bool[Array, ""]]:
    """The row with new x and y for every object, and whether all objects found a place.

    Objects are placed one after another, each uniformly between its bounds, at the first of 50 places that is apart
    from the objects before it.
    """
    first, count = clevr.first_object(len(row)), len(OBJECT_FACTORS)
    columns = np.arange(first + count - 2, len(row), count)[:, None] + np.arange(2)[None]
    cut = clevr.parts(row, view.min_objects)
    size, axes = view.solids(cut).size, _axes()
    low, high = low[columns], high[columns]
    tries = low[:, None] + (high - low)[:, None] * random.uniform(key, (len(columns), TRIES, 2))

    def place(number, state):
        places, fits = state
        before = (jnp.arange(len(columns)) < number) & cut.present
        sizes = jnp.broadcast_to(size[number] + size, (TRIES, len(columns)))
        good = (_apart(tries[number][:, None] - places[None], sizes, axes) | ~before[None]).all(1)
        places = places.at[number].set(tries[number, good.argmax()])
        return places, fits & (good.any() | ~cut.present[number])

    places, fits = jax.lax.fori_loop(0, len(columns), place, (tries[:, 0], jnp.bool_(True)))
    return row.at[columns].set(places), fits


def apart(view: View, row: Row) -> Bool[Array, ""]:
    cut = clevr.parts(row, view.min_objects)
    solids = view.solids(cut)
    place, size = solids.center[:, :2], solids.size
    good = _apart(place[:, None] - place[None], size[:, None] + size[None], _axes())
    both = cut.present[:, None] & cut.present[None] & ~np.eye(len(size), dtype=bool)
    return (good | ~both).all()


def visible(view: View, row: Row, min_pixels: int) -> Bool[Array, ""]:
    """Whether every object shows at least this many pixels in the crop from a 320 × 240 picture."""
    present = clevr.parts(row, view.min_objects).present
    number = np.arange(1, len(present) + 1, dtype=np.uint8)
    counts = (view.mask(row, COUNTED_SIDE)[None] == number[:, None, None]).sum((1, 2))
    needed = math.ceil(min_pixels * (COUNTED_SIDE / clevr.CROP_SIDE) ** 2)
    return ((counts >= needed) | ~present).all()


def _axes() -> Float[Array, "2 2"]:
    """Directions on the ground, to the right and away from the camera."""
    right, _, into = clevr.frame(jnp.asarray(clevr.CAMERA))
    return jnp.stack([right[:2], into[:2] / jnp.linalg.norm(into[:2])])


def _apart(away: Float[Array, "a b 2"], sizes: Float[Array, "a b"], axes: Float[Array, "2 2"]) -> Bool[Array, "a b"]:
    """Whether objects are apart whose places differ by this and whose sizes sum to this."""
    distance = jnp.sqrt((away**2).sum(-1))
    return (distance - sizes >= GAP) & (jnp.abs(jnp.dot(away, axes.T, precision="highest")) >= MARGIN).all(-1)


# The radius of Algorithm 2 of Dang-Nhu 2022 (table 7): the neighboring levels of a channel, and 0.7 in x and y.
_RADIUS = {"red": 0.2, "green": 0.2, "blue": 0.2, "x": 0.7, "y": 0.7}
# Folded into keys, apart from the numbers of proposals.
_ROW, _COLORS, _PLACES = (draws.MOST_REDRAWS + i for i in range(3))


class Reach(NamedTuple):
    """How far a neighborhood reaches: pairs of a column and its radius, and the columns that wrap around; hashable."""

    radii: tuple[tuple[int, int | float], ...]
    around: frozenset[int]

    def radius(self, column: int, default: int | float) -> int | float:
        return dict(self.radii).get(column, default)


@dataclasses.dataclass(frozen=True)
class SceneSpace(FactorSpace):
    """The space of scenes; its samples follow the rules even if factors are held, fixed, left out or near a center.

    Attributes:
      view: how pictures are seen, since visibility depends on the rotation.
      colors: how objects are colored: ``palette``: by one of Johnson et al.'s eight colors; ``levels``: each channel is
        one of 0, 0.2, …, 1, as in Dang-Nhu's evaluation (2022, table 7).
      min_pixels: how many pixels each object must show in the crop from the 320 × 240 picture.

    A scene that violates the rules is redrawn with as many objects and the same camera and lamps, so that these stay
    uniform (as in the released code); if regions are left out, all its factors are redrawn. After 10,000
    attempts it is returned unchanged, since two objects that are held at one place can never follow the rules.
    """

    view: View = View()
    colors: Literal["palette", "levels"] = "palette"
    min_pixels: Natural = 200

    @checked
    def sample(self, key: PRNGKeyArray, n: Natural) -> Float[Array, "n k"]:
        """n independent scenes."""
        return self._scenes(key, n)

    @checked
    def given(
        self, key: PRNGKeyArray, factor: str | int | Int[Array, ""], value: Num[Array, " n"]
    ) -> Float[Array, "n k"]:
        """One scene per value, drawn given that the factor has this value; a color may then leave the palette."""
        held = jnp.arange(self.num_factors) == self._traced(factor)
        return self._scenes(key, len(value), held=held, values=value.astype(jnp.float32))

    @checked
    def local_group(
        self, key: PRNGKeyArray, n: Natural, radius: Mapping[str, int | float | None], circular: tuple[str, ...] = ()
    ) -> Float[Array, "n k"]:
        """n scenes near a random one, as :meth:`FactorSpace.local_group`.

        With ``levels``, a color's radius is rounded down to whole levels; with the ``palette``, which has no order,
        colors are free. Positions do not wrap around.
        """
        return self._group(key, n, self._reach(radius, circular))

    @checked
    def allowed(self, factors: Num[Array | np.ndarray, "... k"]) -> Bool[Array, "..."]:
        """Whether scenes follow the rules, and are not left out; their colors are not checked."""
        keep = FactorSpace.allowed(self, factors)
        follows = self._follow(jnp.asarray(factors).astype(jnp.float32).reshape(-1, self.num_factors))
        return keep & follows.reshape(keep.shape)

    def complete(self) -> "SceneSpace":
        """The scenes on which slots are scored: with the most objects, and colors by ``levels``."""
        return dataclasses.replace(self, colors="levels").only({"num_objects": self.sizes[0] - 1})

    def masks(self, factors: Num[Array, "n k"]) -> UInt8[Array, "n h w"]:
        return self.view.masks(factors)

    def _visible(self, row: Row) -> Bool[Array, ""]:
        return visible(self.view, row, self.min_pixels)

    @functools.partial(jax.jit, static_argnums=0)
    def _follow(self, rows: Float[Array, "n k"]) -> Bool[Array, " n"]:
        return clevr.one_by_one(lambda row: apart(self.view, row) & self._visible(row), rows)

    def _reach(self, radius: Mapping[str, int | float | None], circular: tuple[str, ...]) -> Reach:
        columns, around = self._neighborhood(radius, circular)
        return Reach(tuple(sorted(columns.items())), around)

    def _group(self, key, n: int, reach: Reach) -> Float[Array, "n k"]:
        center_key, draw_key = jax.random.split(key)
        return self._scenes(draw_key, n, reach, self.sample(center_key, 1)[0])

    def _groups(self, keys, n: int, radius: Mapping, circular: tuple[str, ...]) -> Float[Array, "g n k"]:
        return self._one_by_one(keys, n, self._reach(radius, circular))

    @functools.partial(jax.jit, static_argnums=(0, 2, 3))
    def _one_by_one(self, keys, n: int, reach: Reach) -> Float[Array, "g n k"]:
        return jax.lax.map(lambda key: self._group(key, n, reach), keys)

    @functools.partial(jax.jit, static_argnums=(0, 2, 3))
    def _scenes(
        self, key, n: int, reach: Reach | None = None, center: Row | None = None, held=None, values=None
    ) -> Float[Array, "n k"]:
        """n scenes, near a center if there is one, whose factors ``held [k]`` have ``values [n]``; one program."""
        low, high, wraps = self._bounds(reach, center)
        head = jnp.arange(self.num_factors) < (0 if self.regions else clevr.first_object(self.num_factors))

        def scene(key_and_value):
            key, value = key_and_value

            def propose(state):
                number, last, _ = state
                attempt_key = jax.random.fold_in(key, number)
                row = self._row(attempt_key, (low, high, wraps), reach, center)
                row = jnp.where(head & (number > 0), last, row)
                bounds = low, high
                if held is not None:
                    row, *bounds = (jnp.where(held, value, array) for array in (row, low, high))
                row, fits = placed(self.view, jax.random.fold_in(attempt_key, _PLACES), row, *bounds)
                fits &= FactorSpace.allowed(self, row[None])[0]
                return number + 1, row, jax.lax.cond(fits, self._visible, lambda row: jnp.bool_(False), row)

            start = jnp.int32(0), jnp.zeros(self.num_factors), jnp.bool_(False)
            return jax.lax.while_loop(lambda state: ~state[2] & (state[0] < draws.MOST_REDRAWS), propose, start)[1]

        return clevr.one_by_one(scene, (jax.random.split(key, n), jnp.zeros(n) if values is None else values))

    def _row(self, key, bounds: tuple[Row, Row, np.ndarray], reach: Reach | None, center: Row | None) -> Row:
        low, high, wraps = bounds
        discrete, start, width = self._extents()
        share = random.uniform(jax.random.fold_in(key, _ROW), (self.num_factors,))
        row = low + (high - low + discrete) * share
        row = jnp.where(discrete > 0, jnp.minimum(jnp.floor(row), high), row)
        row = jnp.where(wraps, start + (row - start) % width, row)
        if self.excluded:
            cell = draws.cells(self._class_sizes, draws.listed(self._lattice()), key, 1)[0]
            row = jnp.where(discrete > 0, cell.astype(jnp.float32), row)
        return self._colored(jax.random.fold_in(key, _COLORS), row, reach, center)

    def _extents(self) -> np.ndarray:
        """Whether each factor is discrete (1, else 0), its lowest value, and how wide it is."""
        spans = [(0, span.low, span.high - span.low) if isinstance(span, Interval) else None for span in self.values]
        return np.array([span or (1, 0, self.sizes[j]) for j, span in enumerate(spans)], np.float32).T

    def _bounds(self, reach: Reach | None, center: Row | None) -> tuple[Row, Row, np.ndarray]:
        """Each factor's lowest and highest value, and which factors continue at the other end."""
        discrete, start, width = self._extents()
        low, high = start.copy(), start + width - discrete
        for j, value in self.fixed:
            low[j] = high[j] = value
        if reach is None:
            return jnp.asarray(low), jnp.asarray(high), np.zeros(self.num_factors, bool)
        circular = [isinstance(span, Interval) and span.circular for span in self.values]
        goes_round = (np.array(circular) | np.isin(np.arange(self.num_factors), list(reach.around))) & (low < high)
        goes_round &= ~np.array([name.endswith(("_x", "_y")) for name in self.names])
        radii = np.array([reach.radius(j, np.inf) for j in range(self.num_factors)], np.float32)
        # A circular neighborhood as wide as the factor is the whole factor.
        bounded = np.isfinite(radii) & ~(goes_round & (2 * radii + discrete >= width))
        wraps, radii = goes_round & bounded, np.where(bounded, radii, 0).astype(np.float32)
        near_low, near_high = center - radii, center + radii
        near_low = jnp.where(wraps, near_low, jnp.maximum(near_low, low))
        near_high = jnp.where(wraps, near_high, jnp.minimum(near_high, high))
        return jnp.where(bounded, near_low, low), jnp.where(bounded, near_high, high), wraps

    def _colored(self, key, row: Row, reach: Reach | None, center: Row | None) -> Row:
        """The row with colors from the palette or the levels, where they are not fixed."""
        first, count = clevr.first_object(self.num_factors), len(OBJECT_FACTORS)
        columns = np.arange(first, self.num_factors, count)[:, None] + np.arange(3)[None]
        if self.colors == "palette":
            palette = jnp.array(clevr.PALETTE, jnp.float32) / 255
            colors = palette[random.randint(key, columns.shape[:1], 0, len(clevr.PALETTE))]
        else:
            last = clevr.LEVELS - 1
            middle = jnp.zeros(columns.shape) if center is None else center[columns]
            radius = [1 if reach is None else reach.radius(int(j), 1) for j in columns.flat]
            steps = (np.minimum(radius, 1) * last + 1e-6).astype(np.int32).reshape(columns.shape)
            middle = jnp.round(middle * last).astype(jnp.int32)
            low, high = jnp.maximum(middle - steps, 0), jnp.minimum(middle + steps, last)
            colors = random.randint(key, columns.shape, low, high + 1).astype(jnp.float32) / last
        free = np.isin(columns, [j for j, _ in self.fixed], invert=True)
        return row.at[columns].set(jnp.where(free, colors, row[columns]))


@checked
def space(
    max_objects: Count = clevr.MOST_OBJECTS,
    min_objects: Count = clevr.LEAST_OBJECTS,
    *,
    colors: Literal["palette", "levels"] = "palette",
    jitter: bool = True,
    min_pixels: Natural = 200,
    view: View | None = None,
) -> SceneSpace:
    """The space of scenes; see :class:`SceneSpace` and :func:`jaxdis.data._catalog.clevr6`."""
    columns = clevr.columns(max_objects, min_objects, jitter)
    view = dataclasses.replace(view or View(), min_objects=min_objects)
    if view.rotation == "degrees":
        turn = Interval(0, 360, circular=True)
        columns = {name: turn if name.endswith("_rotation") else values for name, values in columns.items()}
    return dataclasses.replace(SceneSpace.of(**columns), view=view, colors=colors, min_pixels=min_pixels)


def radius(of: FactorSpace) -> dict[str, float]:
    """The ``radius`` of :meth:`FactorSpace.local_group` in table 7; shape, material, size and rotation are free."""
    parts = {name: name.split("_")[-1] for name in of.names if name.startswith("object_")}
    return {name: _RADIUS[part] for name, part in parts.items() if part in _RADIUS}
