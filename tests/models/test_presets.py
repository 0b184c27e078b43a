import dataclasses

import numpy as np
import pytest

from jaxdis import models
from jaxdis.models import presets
from tests.models.conftest import changed


def test_locatello2020_has_its_thirty_six_settings():
    plain, factor = presets.locatello2020(seeds=2)
    settings = {
        tuple((k, v) for k, v in label.items() if k != "seed") for p in (plain, factor) for label in p.members.labels
    }
    assert len(settings) == 36
    assert len(plain.members.labels) + len(factor.members.labels) == 72
    assert plain.config.method.network.kernels == (4, 4, 2, 2)
    assert plain.config.steps == factor.config.steps == 300_000
    assert presets.locatello2020(seeds=1, halve_factor_steps=True)[1].config.steps == 150_000
    assert presets.locatello2020(seeds=1, as_released=False)[0].config.method.network.kernels == (4, 4, 4, 4)


def test_mahon2024_is_the_released_defaults():
    beta, tc, factor = presets.mahon2024(seeds=1)
    assert beta.members.hyperparameters.warmup_steps.tolist() == [10_000]
    assert tc.config.method.estimator == "mahon2024"
    assert (tc.members.hyperparameters.mutual_information[0], tc.members.hyperparameters.total_correlation[0]) == (1, 6)
    assert factor.config.method.discriminator.order == "split_batch"
    assert factor.config.method.discriminator.encoder_sees_discriminator
    assert factor.members.hyperparameters.discriminator_learning_rate[0] == np.float32(5e-5)
    assert presets.mahon2024(seeds=1, section="dsprites")[2].members.hyperparameters.density_ratio[0] == np.float32(6.4)
    assert not presets.mahon2024(seeds=1, as_released=False)[2].config.method.discriminator.encoder_sees_discriminator


def test_julka2024_updates_the_discriminator_afterwards():
    beta, factor = presets.julka2024()
    assert len(beta.members.labels) + len(factor.members.labels) == 45
    assert factor.config.method.discriminator.order == "sequential"


@pytest.mark.parametrize("make", [presets.locatello2020, presets.mahon2024, presets.julka2024])
def test_every_preset_trains(make, images):
    large = np.kron(images, np.ones((1, 2, 2, 1)))
    for config, members in make(seeds=1, steps=2):
        small = {"channels": (2,) * 4, "decoder_channels": (2,) * 4, "hidden": (4,), "decoder_hidden": (4,)}
        vae = config.method
        config = changed(
            config,
            network=dataclasses.replace(vae.network, **small),
            discriminator=dataclasses.replace(vae.discriminator, network=models.Discriminator(1, 4)),
            batch_size=8,
        )
        zoo = models.train(config, *members, data=large)
        assert (zoo.stopped == -1).all()
