"""Scoring a model with slots: scenes are drawn in local groups and encoded, and slots are compared with objects."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from jaxdis._core import executor
from jaxdis._core.arrays import as_numpy
from jaxdis._core.display import Progress, reported
from jaxdis._core.options import (
    BatchSize,
    Count,
    Natural,
    Positive,
    Share,
    check_fields,
    checked_key,
    checked_value,
    look_up,
    names_of,
    shown,
)
from jaxdis._core.precision import single_precision
from jaxdis._core.spec import Spec
from jaxdis.data import DATASETS, DataSource, FactorSpace, Scenes, SceneSamples
from jaxdis.data._scenes import pooled_masks
from jaxdis.encoders import _simulated as simulated
from jaxdis.encoders._libraries import Layout, as_function, is_model
from jaxdis.evaluation._score_core import member_rows
from jaxdis.evaluation._scores import Scores
from jaxdis.metrics._metric import About, Column
from jaxdis.models import Zoo
from jaxdis.models._images import Images
from jaxdis.models.methods._method import Slots
from jaxdis.relations._learned import PRESETS
from jaxdis.scores._structure import Structure
from jaxdis.scores._structured_score import NOISE
from jaxdis.structured._evaluate_structured import ValidationShare, check_choice, evaluate_structured
from jaxdis.structured._probing import Encoding, Start
from jaxdis.structured._segmentation import ari, match_slots, mean_segmentation_covering, order_agreement

# The segment of pixels whose masks are not finite.
UNDEFINED = 255
# Samples whose orders of slots are kept.
SHOWN = 16


_SLOTS = About(
    "Structured disentanglement (slots)",
    "Are slots in any order disentangled at each level of a hierarchy, such as objects and their properties?",
    ("dangnhu2022",),
)
_SLOTS_AS_GIVEN = About(
    "Structured disentanglement (slots as given)",
    "Are slots disentangled at each level of a hierarchy, if their order is left as the model gives it?",
    ("dangnhu2022",),
)


class MemberSlots(NamedTuple):
    """Codes ``[m, n, s, d]`` of ``m`` members for ``n`` scenes, and each pixel's slot, ``segments [m, n, h, w]``.

    Scenes are drawn in so many equally long ``groups``; ``numbers`` are the members' integer ids. If a slot's codes
    have several ``kinds``, these are the third level ``"kind"``, whose factors are extrinsic and intrinsic.
    """

    codes: np.ndarray
    segments: np.ndarray
    scenes: SceneSamples
    groups: int
    numbers: Sequence[int]
    kinds: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Structured:
    """Disentanglement and completeness at each level of structure: :func:`jaxdis.evaluate_structured`.

    Attributes:
      encoding, start, iterations, penalty, threshold, final, validation_share: as in that function.

    Example: ``jaxdis.evaluate_slots(model, metrics={"short": Structured(iterations=10)})``.
    """

    encoding: Encoding = "ordered"
    start: Start = "best"
    iterations: Natural = 100
    penalty: Positive = 1.0
    threshold: Share = NOISE
    final: Spec = PRESETS["dangnhu2022"]
    validation_share: ValidationShare = 0.0

    errors: ClassVar[tuple[str, ...]] = ("informativeness", "order_mismatch")
    axes: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __post_init__(self):
        check_fields(self)
        check_choice(self.final, self.validation_share)

    @property
    def about(self) -> About:
        return _SLOTS_AS_GIVEN if self.start == "given" and self.iterations == 0 else _SLOTS

    def describe(self) -> dict:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"slots": "structured", **fields, "final": self.final.describe()}

    def score(self, given: MemberSlots) -> Scores:
        """:class:`Scores` as from :func:`jaxdis.evaluate_structured`.

        Where there are as many slots as true segments, ``order_agreement`` and ``order_mismatch`` compare the orders
        that probing found with those by overlapping masks (:func:`jaxdis.structured.order_agreement`), as means over
        groups. The part ``orders`` has the orders for the first :data:`SHOWN` samples.
        """
        codes, segments, scenes, groups, numbers, kinds = given
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        options |= {"background": scenes.background, "categorical": scenes.categorical, "numbers": numbers}
        structure = structure_of(scenes, codes.shape[2], kinds or codes.shape[3])
        scores = evaluate_structured(codes, scenes.factors, structure, groups=groups, **options)
        kept = {name: part for name, part in scores.parts.items() if not name.startswith("probing.")}
        orders = scores.part("probing.orders")
        columns = dict(scores.columns) | _order_agreement(orders, segments, scenes.masks, groups)
        return Scores(columns, {**kept, "orders": orders[:, :SHOWN]}, scores.factor_names)


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """How well masks agree with true objects, over all pixels and over the objects' alone.

    Means over images of :func:`jaxdis.structured.ari` and :func:`jaxdis.structured.mean_segmentation_covering`.
    """

    about: ClassVar[About] = About(
        "Agreement of masks with objects (segmentation)",
        "How well do the masks of slots agree with the true objects?",
        ("hubert1985", "arbelaez2011", "engelcke2020", "greff2019"),
    )
    errors: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {}

    def describe(self) -> dict:
        return {"slots": "segmentation"}

    def score(self, given: MemberSlots) -> Scores:
        """Scores of ``segments`` alone."""
        counts, masks = (int(given.scenes.masks.max()) + 1, given.codes.shape[2]), jnp.asarray(given.scenes.masks)
        columns = executor.map_members(_agreement, counts, given.segments, masks)
        return Scores(columns, {}, given.scenes.factors.names)


def structure_of(scenes: SceneSamples, slots: int, dims: int | Sequence[str]) -> Structure:
    """Slots of codes against objects of properties; with each code's kind in ``dims``, kinds between them."""
    if isinstance(dims, int):
        codes = [(f"slot {s + 1}", f"dim {i + 1}") for s in range(slots) for i in range(dims)]
        return Structure.of(("object", "property"), codes, scenes.labels)
    codes = [(f"slot {s + 1}", kind, f"dim {i + 1}") for s in range(slots) for i, kind in enumerate(dims)]
    kinds = ["extrinsic" if j in scenes.extrinsic else "intrinsic" for j in range(len(scenes.labels))]
    factors = [(thing, kind, name) for (thing, name), kind in zip(scenes.labels, kinds, strict=True)]
    return Structure.of(("object", "kind", "property"), codes, factors)


def _order_agreement(orders: np.ndarray, segments, masks: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    """How far probing agrees with matching masks, ``[m]`` each; nothing if slots and segments differ in number."""
    slots = orders.shape[-1]
    if int(masks.max()) + 1 != slots:
        return {}
    by_group = orders.reshape(len(orders), groups, -1, slots)
    return executor.map_members(_orders_of_member, slots, (by_group, segments), jnp.asarray(masks))


def _orders_of_member(slots: int, member: tuple[Array, Array], masks: Array) -> dict[str, Array]:
    orders, segments = member
    matched = match_slots(masks, segments, true_segments=slots, predicted_segments=slots)
    exact, mismatch = jax.vmap(order_agreement)(orders, matched.reshape(orders.shape))
    finite = (segments != UNDEFINED).all()
    columns = {"order_agreement": exact.mean(), "order_mismatch": mismatch.mean()}
    return {name: jnp.where(finite, value, jnp.nan) for name, value in columns.items()}


def _agreement(counts: tuple[int, int], segments: Array, true: Array) -> dict[str, Array]:
    """One member's mean agreement; NaN if a mask is not finite."""
    finite = (segments != UNDEFINED).all()
    columns = {}
    for suffix, foreground in (("", False), ("_foreground", True)):
        how = {"true_segments": counts[0], "predicted_segments": counts[1], "foreground": foreground}
        columns[f"ari{suffix}"] = jnp.nanmean(ari(true, segments, **how))
        covering = mean_segmentation_covering(true, segments, **how)
        columns[f"covering{suffix}"] = covering.mean.mean()
        columns[f"scaled_covering{suffix}"] = covering.scaled.mean()
    return {name: jnp.where(finite, value, jnp.nan) for name, value in columns.items()}


SlotMetric = Structured | Segmentation
SLOT_METRICS: dict[str, SlotMetric] = {"structured_slots": Structured(), "segmentation": Segmentation()}


def hard_masks(slots) -> tuple:
    """A representation of slots with each pixel's strongest slot in place of masks; 255 in images with masks that are
    not finite."""
    finite = jnp.isfinite(slots.masks).all(axis=(1, 2, 3))[:, None, None]
    return slots._replace(masks=jnp.where(finite, slots.masks.argmax(1), UNDEFINED).astype(jnp.uint8))


def slots_scored(metrics: Mapping[str, SlotMetric], given: MemberSlots) -> dict[str, Scores]:
    """Every metric for all members, with its name before its columns.

    True masks are pooled where the images behind ``segments`` were.
    """
    pooled = pooled_masks(given.scenes.masks, *given.segments.shape[2:])
    given = given._replace(scenes=given.scenes._replace(masks=pooled))
    return {name: named(name, metric.score(given)) for name, metric in metrics.items()}


def named(name: str, scores: Scores) -> Scores:
    """Scores with their metric's name before each column and part."""
    columns = {Column(name, str(column)): values for column, values in scores.columns.items()}
    return Scores(columns, {Column(name, str(part)): scores.part(part) for part in scores.parts}, scores.factor_names)


@single_precision
def evaluate_slots(
    model,
    data: str = "multi_dsprites",
    metrics: str | Sequence | Mapping = "all",
    key: PRNGKeyArray | int | None = None,
    *,
    source=None,
    samples: Count = 10_000,
    groups: Count = 2,
    batch: BatchSize = 64,
    layout: Layout | None = None,
    kinds: Sequence[str] = (),
    members=None,
    progress: Progress = False,
) -> Scores:
    """Score a model whose representation is a set of slots: draw scenes, encode them, and compare slots with objects.

    Scenes are drawn in local groups of similar ones, in which probing can find how slots are ordered.

    Args:
      model: a function from images ``[n, h, w, c]`` to slots ``[n, s, d]``, or to a pair of these and their masks ``[n,
        s, h, w]``; a torch module or another model as in :func:`jaxdis.evaluate_encoder`; several of these, which are
        scored as members; or a trained zoo whose method has slots.
      data: name of a data set with scenes: ``multi_dsprites``, ``clevr6``, and others in ``jaxdis.data.DATASETS`` that
        have the field ``scenes``.
      metrics: names among ``"structured_slots"`` and ``"segmentation"``, which needs masks; ``"all"``; or a mapping
        from names to metrics with other options.
      key: PRNG key for scenes and noise, or a seed.
      source: as in :func:`jaxdis.evaluate_encoder`.
      samples: how many scenes, a multiple of ``groups``.
      groups: how many local groups; 1 draws scenes independently.
      batch: images encoded at once by a function.
      layout: as in :func:`jaxdis.evaluate_encoder`.
      kinds: the kind of each of a slot's ``d`` codes, if there are several.
      members: as in :func:`jaxdis.evaluate`.
      progress: True draws a bar; a function is called with how many images are encoded and how many there are.

    Returns:
      :class:`~jaxdis.Scores`, numbers ``[]``, or ``[m]`` for several members.

    Raises:
      ValueError: for a data set without scenes, and for slots or masks of another shape.

    Reference: Dang-Nhu 2022, Algorithms 1 and 2.

    Example: ``jaxdis.evaluate_slots(my_model, "multi_dsprites", samples=2_000)``.
    """
    for name, value, kind in (("samples", samples, Count), ("groups", groups, Count), ("batch", batch, BatchSize)):
        checked_value(name, kind, value)
    if samples % groups:
        raise ValueError(f"samples: must be a multiple of {groups} groups, got {samples}")
    plan, key = _plan(metrics), checked_key(key)
    drawn = drawn_scenes(data, source, samples, groups, key)
    rows = drawn.rows
    several = isinstance(model, Zoo) or (isinstance(model, Sequence) and not is_model(model))
    with reported(progress, "encoding", "images") as show:
        if isinstance(model, Zoo):
            codes, segments = slots_of_zoo(model, rows, drawn.render, key, show)
        else:
            models = [as_function(each, layout) for each in (model if several else [model])]
            images = Images.of(drawn.render)
            encoded = [_of_function(each, images, rows, key, batch, show) for each in models]
            codes, segments = _stacked(encoded)
    scenes, masks = drawn.samples(), segments
    if segments is None:
        if any(isinstance(metric, Segmentation) for metric in plan.values()) and metrics != "all":
            raise ValueError("metrics: must be without segmentation for a model that returns no masks")
        plan = {name: metric for name, metric in plan.items() if isinstance(metric, Structured)}
        masks = np.full((len(codes), *scenes.masks.shape), UNDEFINED, np.uint8)
    labels = model.labels if members is None and isinstance(model, Zoo) else members
    given = MemberSlots(codes, masks, scenes, groups, range(len(codes)), kinds)
    tables = list(slots_scored(plan, given).values())
    columns = {name: column for table in tables for name, column in table.items()}
    if segments is None:  # orders cannot be compared with those of masks
        columns = {name: column for name, column in columns.items() if ".order_" not in name}
    parts = {name: table.part(name) for table in tables for name in table.parts}
    how = {"evaluation": {"data": data, "samples": samples, "groups": groups}}
    scores = Scores(columns, parts, tables[0].factor_names, members=member_rows(labels, len(codes)), **how)
    return scores if several else scores[0]


def _plan(metrics) -> dict:
    if not isinstance(metrics, Mapping):
        return {name: SLOT_METRICS[name] for name in names_of(metrics, SLOT_METRICS, "metric")}
    for name, metric in metrics.items():
        if not isinstance(metric, Structured | Segmentation):
            raise ValueError(f"metrics: must be metrics of slots, got {shown(metric)} for {name}")
    return dict(metrics)


class DrawnScenes(NamedTuple):
    """Scenes from a data set: their factors ``rows [n, k]``, and how they are rendered."""

    scenes: Scenes
    space: FactorSpace
    render: Callable
    rows: np.ndarray

    def samples(self) -> SceneSamples:
        return self.scenes.samples(self.space, self.space.wrap(self.rows))


def drawn_scenes(data: str, source, samples: int, groups: int, key) -> DrawnScenes:
    """Draw scenes in local groups; arguments and errors as for :func:`evaluate_slots`."""
    row = look_up(data, DATASETS, "data set")
    if row.scenes is None:
        known = ", ".join(name for name, other in DATASETS.items() if other.scenes is not None)
        raise ValueError(f"data: must be a data set of scenes, {known}, got {data}")
    opened = source if source is None or isinstance(source, DataSource) else DataSource.of(source)
    space, render = row.open(data, opened)
    return DrawnScenes(row.scenes, space, render, np.asarray(row.scenes.draw(space, checked_key(key), samples, groups)))


def slots_of_zoo(zoo: Zoo, rows, render=None, key=None, progress: Progress = False) -> tuple[np.ndarray, np.ndarray]:
    """Codes ``[m, n, s, d]`` and each pixel's slot ``[m, n, h, w]`` for images, or for factors that are rendered."""
    if zoo.config.method.represents is not Slots:
        raise ValueError(f"model: must be a zoo of a method with slots, got {type(zoo.config.method).__name__}")
    slots = zoo.encode(rows, render=render, key=checked_key(key), summary=hard_masks, progress=progress)
    return np.asarray(slots.codes), np.asarray(slots.masks)


def _of_function(encode: Callable, images: Images, rows, key, batch: int, show) -> tuple[np.ndarray, np.ndarray | None]:
    """Slots ``[n, s, d]`` and each pixel's slot ``[n, h, w]`` uint8, batch by batch."""
    slots, segments = [], []
    for start in range(0, len(rows), batch):
        seen = np.require(
            simulated.drawn(images, rows[start : start + batch], jax.random.fold_in(key, start)), requirements="W"
        )
        given = encode(seen)
        pair = isinstance(given, tuple | list)
        if pair and len(given) != 2:
            raise ValueError(f"model: must return slots or a pair (slots, masks), got {len(given)} arrays")
        codes = as_numpy(given[0] if pair else given, "slots")
        if codes.ndim != 3 or len(codes) != len(seen):
            raise ValueError(f"model: must return slots [{len(seen)}, s, d], got {codes.shape}")
        slots.append(codes.astype(np.float32))
        if pair:
            segments.append(_hard(as_numpy(given[1], "masks"), codes.shape[1]))
        show(min(start + batch, len(rows)), len(rows))
    return np.concatenate(slots), np.concatenate(segments) if segments else None


def _hard(masks: np.ndarray, slots: int) -> np.ndarray:
    """Each pixel's strongest slot; ``UNDEFINED`` in images whose masks are not finite."""
    masks = masks[..., 0] if masks.ndim == 5 and masks.shape[-1] == 1 else masks
    masks = masks[:, :, 0] if masks.ndim == 5 and masks.shape[2] == 1 else masks
    if masks.ndim != 4 or masks.shape[1] != slots:
        raise ValueError(f"model: must return masks [n, {slots}, h, w], got {masks.shape}")
    finite = np.isfinite(masks).all(axis=(1, 2, 3))[:, None, None]
    return np.where(finite, masks.argmax(axis=1), UNDEFINED).astype(np.uint8)


def _stacked(encoded: Sequence[tuple]) -> tuple[np.ndarray, np.ndarray | None]:
    shapes = {(codes.shape, None if masks is None else masks.shape) for codes, masks in encoded}
    if len(shapes) > 1:
        raise ValueError(f"model: must be members with slots and masks of one shape, got {sorted(map(str, shapes))}")
    codes, masks = zip(*encoded, strict=True)
    return np.stack(codes), None if masks[0] is None else np.stack(masks)
