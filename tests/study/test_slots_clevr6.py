"""A study of slots on CLEVR6: its scenes, masks and factors reach the scores of a method that cuts images up."""

import csv
import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis.data import DATASETS, DataSource
from jaxdis.encoders._evaluate_slots import Segmentation
from jaxdis.models import METHODS, About, Config, Method, Slots, Variant
from jaxdis.study import Sampling, Study, Training
from jaxdis.study import _compute_cells as compute
from jaxdis.study._run_study import run

SIDE = 16


class NoSettings(NamedTuple):
    level: float = 0.5


class NoLosses(NamedTuple):
    error: jax.Array


@dataclasses.dataclass(frozen=True)
class Columns(Method):
    """Four bands of columns, whose codes are their mean colors."""

    about: ClassVar = About("Columns", "Mean colors of four bands of an image.", ())
    losses: ClassVar = NoLosses
    default_steps: ClassVar = 2
    represents: ClassVar = Slots
    variants: ClassVar = {"columns": Variant(NoSettings, "level", about=about)}

    def begin(self, key):
        return jnp.zeros(())

    def update(self, state, step, key, hyperparameters, source):
        return hyperparameters.level, NoLosses(source.images(key, 2).mean())

    def represent(self, params, images):
        bands = jnp.asarray(np.repeat(np.eye(4, dtype=np.float32), SIDE // 4, axis=1))
        codes = jnp.einsum("sw,nhwc->nsc", bands, images) / (SIDE * SIDE // 4)
        masks = jnp.broadcast_to(bands[None, :, None], (len(images), 4, SIDE, SIDE))
        return Slots(codes, masks)


@pytest.fixture(autouse=True)
def _columns(monkeypatch):
    monkeypatch.setitem(METHODS, "columns", Columns)


def test_a_study_scores_slots_on_scenes_of_six_objects(tmp_path):
    source = DataSource(options=(("bounce", False), ("shadows", False), ("side", SIDE)))
    training = Training.of(Config("clevr6", source, method=Columns()), {"columns": {}}, 1)
    study = Study.of("clevr6", [training], {"segmentation": Segmentation()}, sampling=Sampling(40, 10, groups=2))
    [row] = csv.DictReader(run(study, tmp_path).read_text().splitlines())
    assert -0.2 < float(row["segmentation.ari_foreground"]) < 0.9
    assert 0 < float(row["segmentation.covering"]) < 1
    drawn = compute.scenes_of(training, study.sampling)
    assert (drawn.rows[:, 0] == 3).all()
    samples = drawn.samples()
    assert samples.masks.shape == (40, SIDE, SIDE)
    assert samples.factors.num_factors == 54
    assert samples.labels == tuple(DATASETS["clevr6"].scenes.labels(drawn.space).values())
