"""Metrics of slots as values, for studies: each is computed for all members of a batch in one program."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxdis import executor
from jaxdis.data.scenes import SceneSamples
from jaxdis.evaluation.results import Scores
from jaxdis.options import Natural, Positive, Share, check_fields
from jaxdis.relations.trees import PRESETS
from jaxdis.scores.projection import NOISE
from jaxdis.scores.structure import Structure
from jaxdis.spec import Spec
from jaxdis.structured.evaluate import ValidationShare, check_choice, evaluate_structured
from jaxdis.structured.probing import Start
from jaxdis.structured.segmentation import ari, mean_segmentation_covering
from jaxdis.structured.targets import Encoding
from jaxdis.typing import Array

# The segment of pixels whose masks are not finite.
UNDEFINED = 255


@dataclasses.dataclass(frozen=True)
class Structured:
    """Disentanglement and completeness at each level of structure: :func:`jaxdis.evaluate_structured`.

    Attributes:
      encoding, start, iterations, penalty, threshold, final, validation_share: as there.
    """

    encoding: Encoding = "ordered"
    start: Start = "best"
    iterations: Natural = 100
    penalty: Positive = 1.0
    threshold: Share = NOISE
    final: Spec = PRESETS["dangnhu2022"]
    validation_share: ValidationShare = 0.0

    about: ClassVar = None
    lower_is_better: ClassVar = False

    def __post_init__(self):
        check_fields(self)
        check_choice(self.final, self.validation_share)

    def describe(self) -> dict:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"slots": "structured", **fields, "final": self.final.describe()}

    def score(self, codes, segments, scenes: SceneSamples, groups: int, numbers: Sequence[int]) -> Scores:
        """Columns and parts of ``m`` members.

        Args:
          codes: ``[m, n, s, d]``.
          segments: ``[m, n, h, w]``, the slot of each pixel.
          scenes: the ``n`` samples.
          groups: number of groups of equal length that samples are drawn in.
          numbers: integer ids of the members.
        """
        slots, dims = codes.shape[2:]
        of_codes = [(f"slot {s + 1}", f"dim {i + 1}") for s in range(slots) for i in range(dims)]
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        scores = evaluate_structured(
            codes,
            scenes.factors,
            Structure.of(("object", "property"), of_codes, scenes.labels),
            groups=groups,
            background=scenes.background,
            categorical=scenes.categorical,
            numbers=numbers,
            **options,
        )
        kept = {name: part for name, part in scores.parts.items() if not name.startswith("probing.")}
        return Scores(dict(scores.columns), kept, scores.factor_names)


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """Agreement of masks with true objects: means over images of :func:`jaxdis.structured.ari` and
    :func:`jaxdis.structured.mean_segmentation_covering`, over all pixels and over those of objects alone."""

    about: ClassVar = None
    lower_is_better: ClassVar = False

    def describe(self) -> dict:
        return {"slots": "segmentation"}

    def score(self, codes, segments, scenes: SceneSamples, groups: int, numbers: Sequence[int]) -> Scores:
        """As :meth:`Structured.score`; reads ``segments`` alone."""
        counts = (int(scenes.masks.max()) + 1, codes.shape[2])
        columns = executor.map_members(_agreement, counts, segments, jnp.asarray(scenes.masks))
        return Scores(columns, {}, scenes.factors.names)


def _agreement(counts: tuple[int, int], segments: Array, true: Array) -> dict[str, Array]:
    """Mean agreement of one member; NaN if a mask of it is not finite."""
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
SLOT_METRICS: dict[str, SlotMetric] = {"structured": Structured(), "segmentation": Segmentation()}


def hard_masks(slots) -> tuple:
    """A representation of slots with the number of the strongest slot of each pixel in place of masks;
    255 in images with masks that are not finite."""
    finite = jnp.isfinite(slots.masks).all(axis=(1, 2, 3))[:, None, None]
    return slots._replace(masks=jnp.where(finite, slots.masks.argmax(1), UNDEFINED).astype(jnp.uint8))


def named(name: str, scores: Scores) -> Scores:
    """Scores with the name of their metric before each column and part."""
    columns = {f"{name}.{column}": np.asarray(scores[column]) for column in scores}
    return Scores(columns, {f"{name}.{part}": scores.part(part) for part in scores.parts}, scores.factor_names)
