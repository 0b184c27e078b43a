"""Metrics by real interventions and by traversals: a simulator draws images with a factor held or changed.

Images are rendered, encoded and discarded in chunks: only votes, features and one value's codes are kept. All members
in a zoo read the same images. Wrap a call in ``jax.jit`` (``space``, ``render`` and the numbers are static) to compile
once for many encoders of one kind, such as :class:`jaxdis.models._zoo.Encoder`.

An encoder is a function from images ``[n, h, w, c]`` to codes ``[n, d]``, or ``[m, n, d]`` for a zoo with ``m``
members; every field in a result then has a leading ``m``. An encoder that JAX cannot trace, such as a torch module, is
called on the host with NumPy arrays, chunk by chunk; the metric cannot then be jitted. A renderer is a pure function
from factors ``[n, k]`` to images, or from factors and a key; its noise then follows from the call's key.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import safe_divide
from jaxdis._core.factorizations import eigvalsh
from jaxdis._core.precision import exact_products
from jaxdis.data._factor_space import FactorSpace, middles
from jaxdis.metrics import interventions as tables
from jaxdis.metrics.interventions import Changes, Robustness
from jaxdis.models._images import Images, noise_key

# Images rendered and encoded at one time: 256 of 64 × 64 × 3 floats are 12 MB.
IMAGES = 256
# On the host, where every chunk is a call: 2,048 are 100 MB.
IMAGES_ON_HOST = 2048


def factor_vae(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    num_variance: int = 10_000,
    prune: float = 0.05,
    active: Bool[Array, "... d"] | None = None,
) -> tables.Votes:
    """Score FactorVAE by interventions in a simulator, which renders batches whose images share a factor's value.

    Options and result are as for :func:`jaxdis.metrics.interventions.factor_vae`, which has only samples; here batches
    are drawn by :meth:`FactorSpace.fix`. ``num_variance`` samples give each code's variance over all factors. Factors
    with a single value are never held; NaN if fewer than two factors have several.
    """
    base_key, factor_key, batch_key = jax.random.split(key, 3)
    look = Looking(encode, render, space)
    _, base = look.at_samples(base_key, num_variance)
    spread = jnp.var(base - base[:, :1], axis=1, ddof=1)
    competes = masked(jnp.sqrt(spread) >= prune, active)
    factor = _held(factor_key, space, num_train + num_eval)

    def votes(chunk, base, spread, competes):
        cells = jax.vmap(lambda key, factor: space.fix(key, factor, batch))(*chunk)
        codes = look.at(cells, noise_key(chunk[0][0])) - base[:, None, :1]
        least = jax.vmap(tables.least_moved)(jnp.var(codes, axis=2, ddof=1), spread, competes)
        return least, jnp.isfinite(codes).all(axis=(1, 2, 3))

    tasks = jax.random.split(batch_key, len(factor)), factor
    vote, finite = look.by_chunks(votes, tasks, batch, base, spread, competes)
    usable = finite.all(axis=1) & jnp.isfinite(base).all(axis=(1, 2)) & (len(free_factors(space)) > 1)

    def judge(vote, competes, finite, factor):
        return tables.judge_votes(vote, factor, competes, finite, len(space.sizes), num_train)

    return look.judged(judge, (vote, competes, usable), factor)


def beta_vae(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    rescale: bool = False,
    active: Bool[Array, "... d"] | None = None,
) -> tables.Intervened:
    """Score BetaVAE by interventions in a simulator, which renders image pairs that share a factor's value.

    Options and result are as for :func:`jaxdis.metrics.interventions.beta_vae`, which has only samples; here pairs are
    drawn by :meth:`FactorSpace.pairs`. NaN if fewer than two factors have several values.
    """
    factor_key, batch_key = jax.random.split(key)
    look = Looking(encode, render, space)
    factor = _held(factor_key, space, num_train + num_eval)

    def features(chunk):
        left, right = jax.vmap(lambda key, factor: space.pairs(key, factor, batch))(*chunk)
        left_key, right_key = jax.random.split(noise_key(chunk[0][0]))
        distance = jnp.abs(look.at(left, left_key) - look.at(right, right_key)).mean(axis=2)
        return distance, jnp.isfinite(distance).all(axis=(1, 2))

    feature, finite = look.by_chunks(features, (jax.random.split(batch_key, len(factor)), factor), 2 * batch)
    usable = finite.all(axis=1) & (len(free_factors(space)) > 1)
    feature = jnp.nan_to_num(feature) * masked(jnp.ones(feature[:, 0].shape, bool), active)[:, None].astype(jnp.float32)
    varying = jnp.int32(len(free_factors(space))) if rescale else None

    def judge(feature, finite, factor):
        return tables.judge_features(feature, factor, finite, len(space.sizes), num_train, varying)

    return look.judged(judge, (feature, usable), factor)


def irs(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    quantile: float = 0.99,
    num_samples: int = 10_000,
    num_given: int = IMAGES,
    factor_bins: int = 20,
    active: Bool[Array, "... d"] | None = None,
) -> Robustness:
    """Score interventional robustness in a simulator, which renders images for each factor's values.

    Options and result are as for :func:`jaxdis.metrics.interventions.irs`, which has only samples; here each value of
    each factor is held by :meth:`FactorSpace.given`. ``num_samples`` give each code's largest deviation, ``num_given``
    the quantile of its distances given a value. A continuous factor is held at the centers of ``factor_bins``
    equal-width bins.
    """
    base_key, given_key = jax.random.split(key)
    look = Looking(encode, render, space)
    _, base = look.at_samples(base_key, num_samples)
    shown = masked(jnp.ones(base[:, 0].shape, bool), active)
    finite = jnp.isfinite(base).all(axis=1)
    shift = jnp.nan_to_num(base[:, :1])
    deviation = jax.vmap(tables.largest_deviation)(jnp.where(shown[:, None], jnp.nan_to_num(base), 0.0))
    columns = []
    for j, size in enumerate(space.sizes):
        if j not in free_factors(space):
            columns.append(jnp.zeros(deviation.shape))
            continue

        def given(task, shown, shift, j=j):
            key, value = task
            codes = look.at_many(space.given(key, j, jnp.broadcast_to(value, (num_given,))), noise_key(key))
            rows = jnp.where(shown[:, None], jnp.nan_to_num(codes) - shift, 0.0).swapaxes(1, 2)  # [m, d, s]
            count = jnp.full(rows.shape[1], num_given, jnp.int32)
            find = jax.vmap(lambda rows: tables.quantile_from_mean(rows, count, quantile))
            return find(rows), jnp.isfinite(codes).all(axis=1)

        values = jnp.arange(size, dtype=jnp.int32) if size else middles(space.values[j], factor_bins)
        keys = jax.random.split(jax.random.fold_in(given_key, j), len(values))
        moved, sound = look.map(given, (keys, values), shown, shift)
        columns.append(moved.mean(axis=0))
        finite = finite & sound.all(axis=0)

    def judge(moved, deviation, finite):
        return tables.judge_robustness(moved, deviation, look.varies, finite)

    return look.judged(judge, (jnp.stack(columns, axis=2), deviation, finite))


class Looking:
    """An encoder applied to rendered images: factors ``[…, k]`` to codes ``[m, …, d]``, one member or many."""

    def __init__(self, encode: Callable, render: Callable, space: FactorSpace):
        self._encode, self._images, self._space, self._single = encode, Images.of(render), space, False
        self._on_host = not traceable(encode, self._images, space)
        self._first = None

    @property
    def varies(self) -> Bool[Array, " k"]:
        """Which factors have a choice of values."""
        return jnp.asarray(np.isin(np.arange(len(self._space.sizes)), free_factors(self._space)))

    def at(self, cells: Num[Array, "... k"], key: PRNGKeyArray) -> Float[Array, "m ... d"]:
        rows = cells.reshape(-1, cells.shape[-1])
        if self._on_host:
            codes = jnp.asarray(self._near_0(np.asarray(self._encode(np.asarray(drawn(self._images, rows, key))))))
        else:
            codes = self._encode(self._images(rows, key))
        self._single = codes.ndim == 2
        codes = codes[None] if self._single else codes
        return codes.reshape(codes.shape[0], *cells.shape[:-1], codes.shape[-1])

    def _near_0(self, codes: np.ndarray) -> np.ndarray:
        """Codes in double precision less the first image's, before they are rounded: no metric here depends on where
        codes lie."""
        if codes.dtype != np.float64:
            return codes
        if self._first is None:
            self._first = np.nan_to_num(codes[..., :1, :], posinf=0, neginf=0)
        return (codes - self._first).astype(np.float32)

    def at_many(self, cells: Num[Array, "n k"], key: PRNGKeyArray) -> Float[Array, "m n d"]:
        keys = jax.random.split(key, len(cells))
        return self.by_chunks(lambda part: (self.at(part[0], part[1][0]),), (cells, keys), 1)[0]

    def at_samples(self, key: PRNGKeyArray, count: int) -> tuple[Num[Array, "n k"], Float[Array, "m n d"]]:
        """Samples of all factors, and their codes."""
        cells = self._space.sample(key, count)
        return cells, self.at_many(cells, noise_key(key))

    def map(self, function: Callable, inputs: tuple, *shared: Array):
        """``function(entry, *shared)`` for every entry: one program, or a call each on the host."""
        if not self._on_host:
            # The program goes when the function goes; that of a loop outside jit would stay.
            return jax.jit(lambda inputs, *shared: jax.lax.map(lambda entry: function(entry, *shared), inputs))(
                inputs, *shared
            )
        entries = (jax.tree.map(lambda leaf, i=i: leaf[i], inputs) for i in range(inputs[0].shape[0]))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(function(entry, *shared) for entry in entries))

    def by_chunks(self, function: Callable, inputs: tuple, images_each: int, *shared: Array) -> tuple:
        """``function(chunk, *shared)`` for inputs ``[c, …]`` in chunks of images.

        Outputs ``[m, c, …]`` are concatenated; those without ``c`` get one entry per chunk.
        """
        count = inputs[0].shape[0]
        most = max(1, (IMAGES_ON_HOST if self._on_host else IMAGES) // images_each)
        chunk = max(size for size in range(1, min(most, count) + 1) if count % size == 0)
        cut = tuple(leaf.reshape(count // chunk, chunk, *leaf.shape[1:]) for leaf in inputs)
        joined = []
        for leaf in self.map(function, cut, *shared):
            leaf = jnp.moveaxis(leaf, 0, 1)  # [m, chunks, …]
            joined.append(leaf if leaf.ndim == 2 else leaf.reshape(leaf.shape[0], count, *leaf.shape[3:]))
        return tuple(joined)

    def judged(self, judge: Callable, of_members: tuple[Array, ...], *shared: Array):
        """``judge`` for every member's arrays and what all share, as :meth:`as_given`; compiled."""
        axes = (0,) * len(of_members) + (None,) * len(shared)
        return self.as_given(jax.jit(jax.vmap(judge, axes))(*of_members, *shared))

    def as_given(self, result):
        """Without the member axis for an encoder that has none."""
        return jax.tree.map(lambda leaf: leaf[0], result) if self._single else result


def traceable(encode: Callable, images: Images, space: FactorSpace) -> bool:
    """Whether an encoder uses JAX's operations alone, so that it may run inside a program."""
    rows = jax.ShapeDtypeStruct((2, space.num_factors), np.float32 if space.continuous else np.int32)
    key = jax.eval_shape(lambda: jax.random.key(0))
    pictures = jax.eval_shape(images, rows, key)
    try:
        jax.eval_shape(encode, pictures)
    except Exception:  # whatever its operations make of an abstract array
        return False
    return True


drawn = jax.jit(lambda images, rows, key: images(rows, key))


def _held(key, space: FactorSpace, count: int) -> Int[Array, " t"]:
    """A random factor for each batch among those that vary."""
    free = free_factors(space)
    return jnp.asarray(free)[random.randint(key, (count,), 0, len(free))]


def free_factors(space: FactorSpace) -> np.ndarray:
    fixed = {position for position, _ in space.fixed}
    free = [j for j, size in enumerate(space.sizes) if size != 1 and j not in fixed]
    if not free:
        raise ValueError("space: must have at least one factor with a choice of values, got none")
    return np.array(free, np.int32)


def masked(mask: Bool[Array, "m d"], active) -> Bool[Array, "m d"]:
    return mask if active is None else mask & jnp.broadcast_to(jnp.asarray(active), mask.shape)


def consistency(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    num_pairs: int = 2000,
    active: Bool[Array, "... d"] | None = None,
) -> Changes:
    """Score consistency by interventions in a simulator, which renders image pairs that share a factor's value.

    Result as :func:`jaxdis.metrics.interventions.consistency`, which has only samples. ``num_pairs`` are rendered for
    each factor.
    """
    look = Looking(encode, render, space)
    held, _, *sound = _changed(key, look, space, num_pairs, active)
    return look.judged(lambda held, *sound: tables.judge_consistency(held, look.varies, *sound), (held, *sound))


def restrictiveness(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    num_pairs: int = 2000,
    active: Bool[Array, "... d"] | None = None,
) -> Changes:
    """Score restrictiveness by interventions in a simulator, which renders image pairs that differ in one factor.

    Result as :func:`jaxdis.metrics.interventions.restrictiveness`, which has only samples. ``num_pairs`` are rendered
    for each factor. The value that a factor changes to is drawn without regard to the others.
    """
    look = Looking(encode, render, space)

    def judge(held, changed, *sound):
        return tables.judge_restrictiveness(held, look.varies, changed, look.varies, *sound)

    return look.judged(judge, _changed(key, look, space, num_pairs, active))


def _changed(key, look: Looking, space: FactorSpace, num_pairs: int, active):
    """How much of the codes' variance remains while a factor is held, and while it alone changes, ``[m, d, k]``;
    variances as a share of the largest ``[m, d]``; whether all codes are finite ``[m]``."""
    base_key, pair_key = jax.random.split(key)
    left, base = look.at_samples(base_key, num_pairs)
    shift = jnp.nan_to_num(base[:, :1])
    shown = masked(jnp.ones(base[:, 0].shape, bool), active)
    moved = jnp.nan_to_num(base) - shift
    spread = jnp.where(shown & (jnp.ptp(moved, axis=1) > 0), jnp.var(moved, axis=1, ddof=1), 0.0)

    def half_squares(task, left, shift, moved):
        key, factor = task
        held_key, new_key, *keys = jax.random.split(key, 4)
        others = jnp.arange(space.num_factors) != factor
        cells = [
            space.given(held_key, factor, left[:, factor]),
            jnp.where(others[None, :], left, space.sample(new_key, num_pairs)),
        ]
        codes = [look.at_many(rows, noise_key(key)) for rows, key in zip(cells, keys, strict=True)]
        squares = [((jnp.nan_to_num(each) - shift - moved) ** 2).mean(axis=1) / 2 for each in codes]
        return jnp.stack(squares), jnp.stack([jnp.isfinite(each).all(axis=(1, 2)) for each in codes])

    factors = jnp.arange(space.num_factors, dtype=jnp.int32)
    tasks = jax.random.split(pair_key, len(factors)), factors
    squares, finite = look.map(half_squares, tasks, left, shift, moved)
    shares = safe_divide(squares, jnp.broadcast_to(spread, squares.shape))  # [k, 2, m, d]
    held, changed = jnp.moveaxis(shares, 0, 3)
    largest = jnp.broadcast_to(spread.max(axis=1, keepdims=True), spread.shape)
    return held, changed, safe_divide(spread, largest), finite.all(axis=(0, 1)) & jnp.isfinite(base).all(axis=(1, 2))


class Flatness(NamedTuple):
    """``score []``, the mean over ``per_factor [f]``, factors with several values."""

    score: Float[Array, ""]
    per_factor: Float[Array, " f"]


class Factored(NamedTuple):
    """``axis_ratio``, ``linear_ratio`` and ``axis_alignment`` ``[]``: geometric means over factors, column by column in
    ``per_factor [f, 3]``."""

    axis_ratio: Float[Array, ""]
    linear_ratio: Float[Array, ""]
    axis_alignment: Float[Array, ""]
    per_factor: Float[Array, "f 3"]


def flatness(
    key: PRNGKeyArray, encode: Callable, space: FactorSpace, render: Callable, *, repeats: int = 128
) -> Flatness:
    """Measure flatness: do a traversal's codes lie in order on a line along an axis?

    The largest Euclidean distance between two points on a traversal, divided by the summed L1 distances from each value
    to the next. The longest step is left out, the one from the last value to the first included, so that a factor may
    go around. Both are means over ``repeats`` random settings of the other factors.

    Args:
      encode: images ``[n, h, w, c]`` → codes ``[n, d]``, or ``[m, n, d]`` for many members.
      space, render: a simulator, such as ``jaxdis.data.dsprites()``.
      repeats: how many traversals for each factor.

    Contract:

    - In [0, 1]: 1 for codes that move evenly along one axis; lower for curves, jumps back, and lines across axes. 0 for
      codes that do not move.
    - Continuous factors and those with one value are left out.

    Reference: Michlo, disent 0.8.0 (``metric_flatness``).
    """

    def of_factor(codes):
        apart = jnp.sqrt(((codes[..., :, None, :] - codes[..., None, :, :]) ** 2).sum(axis=-1))
        steps = jnp.abs(jnp.roll(codes, -1, axis=-2) - codes).sum(axis=-1)
        length = (steps.sum(axis=-1) - steps.max(axis=-1)).mean(axis=-1)
        return safe_divide(apart.max(axis=(-1, -2)).mean(axis=-1), length)

    look = Looking(encode, render, space)
    per_factor = _traversed(key, look, space, repeats, of_factor)
    return look.as_given(Flatness(per_factor.mean(axis=1), per_factor))


@exact_products
def factored_components(
    key: PRNGKeyArray, encode: Callable, space: FactorSpace, render: Callable, *, repeats: int = 128
) -> Factored:
    """Measure linearity and axis alignment: do a traversal's codes vary in one direction, and is that an axis?

    ``axis_ratio`` is the share of a traversal's variance that its most variable code has, ``linear_ratio`` what its
    first principal component has, both mapped so that an even spread over ``d`` directions is 0; ``axis_alignment`` is
    their quotient. Means over ``repeats`` random settings of the other factors.

    Args:
      encode, space, render, repeats: as for :func:`flatness`.

    Contract:

    - In [0, 1]. 0 for codes that do not move. A single code has one direction only, and gives 1.
    - Continuous factors and those with one value are left out.

    Reference: Michlo, disent 0.8.0 (``metric_linearity``, a part of the factored components; the other part compares
    distances between codes with those between images).
    """

    def share(variances):
        d = variances.shape[-1]
        total = variances.sum(axis=-1)
        largest = safe_divide(variances.max(axis=-1), total)
        return jnp.where(total > 0, (largest - 1 / d) / (1 - 1 / d), 0.0) if d > 1 else (total > 0).astype(jnp.float32)

    def of_factor(codes):
        rows = codes - codes.mean(axis=-2, keepdims=True)
        covariance = rows.swapaxes(-1, -2) @ rows / (rows.shape[-2] - 1)
        axis = share(jnp.diagonal(covariance, axis1=-2, axis2=-1))
        line = share(jnp.maximum(eigvalsh(covariance), 0.0))
        return jnp.stack([axis, line, safe_divide(axis, line)], axis=-1).mean(axis=-2)

    look = Looking(encode, render, space)
    per_factor = _traversed(key, look, space, repeats, of_factor)
    means = jnp.exp(jnp.log(jnp.maximum(per_factor, 0.0)).mean(axis=1))
    return look.as_given(Factored(*means.T, per_factor))


def _traversed(key, look: Looking, space: FactorSpace, repeats: int, of_factor: Callable) -> Float[Array, "m f ..."]:
    """``of_factor`` for the codes ``[m, repeats, v, d]`` along each factor with several values."""
    found = []
    for j in free_factors(space):
        size = space.sizes[j]
        if size is None:
            continue
        own = jax.random.fold_in(key, j)
        others = jnp.repeat(space.sample(own, repeats), size, axis=0)
        cells = others.at[:, j].set(jnp.tile(jnp.arange(size), repeats).astype(others.dtype))
        codes = look.at_many(cells, noise_key(own))
        found.append(of_factor(codes.reshape(len(codes), repeats, size, -1)))
    if not found:
        raise ValueError("space: must be a discrete factor with several values, got none")
    return jnp.stack(found, axis=1)
