"""Slot metrics as values, for studies: each is computed for all members in a batch in one program."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdis._core import executor
from jaxdis._core.options import Natural, Positive, Share, check_fields
from jaxdis._core.spec import Spec
from jaxdis.data._scenes import SceneSamples
from jaxdis.evaluation._scores import Scores
from jaxdis.metrics._metric import About, Column
from jaxdis.relations._tree_importances import PRESETS
from jaxdis.scores._structure import Structure
from jaxdis.scores._structured_score import NOISE
from jaxdis.structured._evaluate_structured import ValidationShare, check_choice, evaluate_structured
from jaxdis.structured._probing import Start
from jaxdis.structured._segmentation import ari, match_slots, mean_segmentation_covering, order_agreement
from jaxdis.structured._targets import Encoding

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

    def score(
        self,
        codes,
        segments,
        scenes: SceneSamples,
        groups: int,
        numbers: Sequence[int],
        kinds: Sequence[str] = (),
    ) -> Scores:
        """Score ``m`` members.

        Args:
          codes: ``[m, n, s, d]``.
          segments: ``[m, n, h, w]``, each pixel's slot.
          scenes: the ``n`` samples.
          groups: in how many equally long groups the samples are drawn.
          numbers: the members' integer ids.
          kinds: the kind of each of a slot's ``d`` codes, if there are several; they are the third level ``"kind"``,
            whose factors are extrinsic and intrinsic.

        Returns:
          :class:`Scores` as from :func:`jaxdis.evaluate_structured`. Where there are as many slots as true segments,
          ``order_agreement`` and ``order_mismatch`` compare the orders that probing found with those by overlapping
          masks (:func:`jaxdis.structured.order_agreement`), as means over groups. The part ``orders`` has the orders
          for the first :data:`SHOWN` samples.
        """
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        scores = evaluate_structured(
            codes,
            scenes.factors,
            structure_of(scenes, codes.shape[2], kinds or codes.shape[3]),
            groups=groups,
            background=scenes.background,
            categorical=scenes.categorical,
            numbers=numbers,
            **options,
        )
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

    def score(
        self,
        codes,
        segments,
        scenes: SceneSamples,
        groups: int,
        numbers: Sequence[int],
        kinds: Sequence[str] = (),
    ) -> Scores:
        """As :meth:`Structured.score`; reads ``segments`` alone."""
        counts = (int(scenes.masks.max()) + 1, codes.shape[2])
        columns = executor.map_members(_agreement, counts, segments, jnp.asarray(scenes.masks))
        return Scores(columns, {}, scenes.factors.names)


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
    columns = executor.map_members(_orders_of_member, slots, (by_group, segments), jnp.asarray(masks))
    finite = np.array([(segment != UNDEFINED).all() for segment in segments])
    return {name: np.where(finite, values, np.nan) for name, values in columns.items()}


def _orders_of_member(slots: int, member: tuple[Array, Array], masks: Array) -> dict[str, Array]:
    orders, segments = member
    matched = match_slots(masks, segments, true_segments=slots, predicted_segments=slots)
    exact, mismatch = jax.vmap(order_agreement)(orders, matched.reshape(orders.shape))
    return {"order_agreement": exact.mean(), "order_mismatch": mismatch.mean()}


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


def named(name: str, scores: Scores) -> Scores:
    """Scores with their metric's name before each column and part."""
    columns = {Column(name, str(column)): values for column, values in scores.columns.items()}
    return Scores(columns, {Column(name, str(part)): scores.part(part) for part in scores.parts}, scores.factor_names)
