import dataclasses

import jax
import numpy as np
import pytest

from jaxdis import models
from jaxdis.data import DATASETS
from jaxdis.papers import PAPERS
from jaxdis.papers.harness._scale import small
from jaxdis.papers.mahon2024 import _run as mahon
from tests.models.conftest import changed

RUNS = {key: paper.preset.make for key, paper in PAPERS.items() if paper.preset is not None}


def test_locatello2020_has_its_thirty_six_settings():
    plain, factor = RUNS["locatello2020"](seeds=2)
    settings = {
        tuple((k, v) for k, v in label.items() if k != "seed") for p in (plain, factor) for label in p.members.labels
    }
    assert len(settings) == 36
    assert len(plain.members.labels) + len(factor.members.labels) == 72
    assert plain.config.method.network.kernels == (4, 4, 2, 2)
    assert plain.config.steps == factor.config.steps == 300_000
    assert RUNS["locatello2020"](seeds=1, halve_factor_steps=True)[1].config.steps == 150_000
    as_printed = RUNS["locatello2020"](seeds=1, as_released=False)[0]
    assert as_printed.config.method.network.kernels == (4, 4, 4, 4)


def test_mahon2024_is_the_released_defaults():
    beta, tc, factor, *_ = RUNS["mahon2024"](seeds=1)
    assert beta.members.hyperparameters.warmup_steps.tolist() == [10_000]
    assert tc.config.method.estimator == "mahon2024"
    assert (tc.members.hyperparameters.mutual_information[0], tc.members.hyperparameters.total_correlation[0]) == (1, 6)
    assert factor.config.method.discriminator.order == "split_batch"
    assert factor.config.method.discriminator.encoder_sees_discriminator
    assert factor.config.method.discriminator.network.initialization == "kaiming"
    assert small(factor.config.method).discriminator.network.initialization == "kaiming"
    assert factor.members.hyperparameters.discriminator_learning_rate[0] == np.float32(5e-5)
    assert RUNS["mahon2024"](seeds=1, section="dsprites")[2].members.hyperparameters.density_ratio[0] == np.float32(6.4)
    as_printed = RUNS["mahon2024"](seeds=1, as_released=False)[2]
    assert not as_printed.config.method.discriminator.encoder_sees_discriminator


def test_mahon2024_trains_for_100_epochs_of_each_data_set():
    steps = {data: [run.config.steps for run in RUNS["mahon2024"](data, seeds=1)] for data in mahon.DATA}
    assert steps["dsprites"] == [1_152_000] * 5 + [72_000]
    assert steps["shapes3d"] == [750_000] * 5 + [46_900]
    assert steps["mpi3d"] == [1_620_000] * 5 + [101_300]
    assert mahon.updates("labelled_partition", "dsprites") == 115_200


def test_parted_vae_has_the_codes_and_labels_of_each_data_set():
    shape_of = {"dsprites": "shape", "shapes3d": "shape", "mpi3d": "object_shape"}
    for data, codes in zip(mahon.DATA, (6, 7, 8), strict=True):
        method, space = mahon.method("parted_vae_ss", data), DATASETS[data].space
        assert method.num_codes == codes
        assert method.label_factors == (space.position(shape_of[data]),)
        assert method.classes == (space.sizes[method.label_factors[0]],)


def test_weak_de_has_classes_of_each_data_set():
    for data, classes in zip(mahon.DATA, (27, 120, 36), strict=True):
        method, space = mahon.method("weak_de", data), DATASETS[data].space
        assert method.num_classes == classes
        assert all(len(group_of) == space.sizes[position] for position, group_of in method.classes)
        assert method.adversarial
        assert mahon.weak_de(data, as_released=True).adversarial == (data == "dsprites")
    assert mahon.settings("weak_de", "dsprites", 72_000)["warmup_steps"] == 12_000


def test_julka2024_updates_the_discriminator_afterwards():
    beta, factor = RUNS["julka2024"]()
    assert len(beta.members.labels) + len(factor.members.labels) == 45
    assert factor.config.method.discriminator.order == "sequential"


def test_dangnhu2022_has_the_settings_of_its_appendix():
    att, dec, genesis, iodine = RUNS["dangnhu2022"](seeds=3)
    assert [run.config.method.decoder_masks for run in (att, dec)] == [False, True]
    assert [run.config.method.num_slots for run in (att, dec, genesis, iodine)] == [5] * 4
    assert {run.config.steps for run in (att, dec, genesis, iodine)} == {300_000}
    h = att.members.hyperparameters
    found = [float(column[0]) for column in (h.goal, h.least, h.gamma, h.background_deviation, h.deviation)]
    np.testing.assert_allclose(found, [-1.78, 1, 0.5, 0.06, 0.1], rtol=1e-6)
    assert iodine.members.hyperparameters.deviation[0] == np.float32(0.14)
    assert len(att.members.labels) == 3
    assert att.config.method.optimizer == models.Adam()
    assert RUNS["dangnhu2022"](as_released=False)[0].config.method.optimizer == models.RmsProp()
    assert not any(run.config.method.regularized for run in RUNS["dangnhu2022"](regularized=False))


def test_dangnhu2022_can_meet_its_goals():
    """No error is below that of pictures that are the image, under the narrowest slot."""
    for data in ("multi_dsprites", "clevr6"):
        for run in RUNS["dangnhu2022"](data, seeds=1):
            method, h = run.config.method, run.members.hyperparameters
            method.resolved((128, 128, 3) if data == "clevr6" else (64, 64, 3))
            if hasattr(h, "goal"):
                narrowest = min(float(h.deviation[0]), float(getattr(h, "background_deviation", h.deviation)[0]))
                assert np.log(narrowest * np.sqrt(2 * np.pi)) < h.goal[0]


@pytest.mark.parametrize("make", [RUNS[key] for key in ("locatello2020", "mahon2024", "julka2024")])
def test_every_preset_suits_its_method(make, images):
    """An update is traced, which reads every setting."""
    large = np.kron(images, np.ones((1, 2, 2, 1)))
    for config, members in make(seeds=1, steps=2):
        if not isinstance(config.method, models.Vae):  # the contracts of methods train the others
            continue
        small = {"channels": (2,) * 4, "decoder_channels": (2,) * 4, "hidden": (4,), "decoder_hidden": (4,)}
        vae = config.method
        config = changed(
            config,
            network=dataclasses.replace(vae.network, **small),
            discriminator=dataclasses.replace(vae.discriminator, network=models.Discriminator(1, 4)),
            batch_size=8,
        )
        one = jax.tree.map(lambda leaf: leaf[0], members[:2])
        trained = jax.eval_shape(models.make_train(config, large), *one)
        assert trained.stopped.shape == ()
