"""Cells for representations by slots: scenes in local groups, one code per slot, each pixel's slot."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxdis.data import FactorSpace, Scenes, SceneSamples
from jaxdis.data._scenes import pooled_masks
from jaxdis.encoders._slot_metrics import SlotMetric, hard_masks, named
from jaxdis.evaluation._results import Scores
from jaxdis.factors import Factors
from jaxdis.models import Zoo
from jaxdis.study._definition import Sampling


class Drawn(NamedTuple):
    """The scenes that slots are scored on: their space, what is known about them, and their factors."""

    scenes: Scenes
    space: FactorSpace
    factors: Factors

    @classmethod
    def of(cls, scenes: Scenes, space: FactorSpace, sampling: Sampling) -> "Drawn":
        values = scenes.draw(space, jax.random.key(sampling.seed), sampling.train, sampling.groups)
        return cls(scenes, space, space.wrap(values))

    def samples(self) -> SceneSamples:
        return self.scenes.samples(self.space, self.factors)


def encoded(zoo: Zoo, drawn: Drawn, render, sampling: Sampling) -> dict[str, np.ndarray]:
    """``codes [m, n, s, d]``, and ``segments [m, n, h, w]`` uint8: the slot with the largest mask at each pixel."""
    key = jax.random.key(sampling.seed)
    slots = zoo.encode(drawn.factors.values, render=render, key=key, summary=hard_masks)
    return {"codes": slots.codes, "segments": slots.masks}


def scored(
    metrics: Sequence[tuple[str, SlotMetric]],
    codes: np.ndarray,
    segments: np.ndarray,
    drawn: Drawn,
    sampling: Sampling,
    numbers: Sequence[int],
    kinds: Sequence[str] = (),
) -> list[tuple[str, Scores]]:
    """Every metric for all members, with its name before its columns; ``kinds`` are those of a slot's codes.

    True masks are as large as the images behind ``segments [m, n, h, w]``, which may have been pooled.
    """
    samples = drawn.samples()
    samples = samples._replace(masks=pooled_masks(samples.masks, *segments.shape[2:]))
    return [
        (name, named(name, metric.score(codes, segments, samples, sampling.groups, numbers, kinds)))
        for name, metric in metrics
    ]
