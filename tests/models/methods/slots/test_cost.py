"""The published models' sizes in operations and parameters, which no run of theirs fits into a test to show."""

import jax
import jax.numpy as jnp
import pytest

from jaxdis import models
from jaxdis._core.resources import operations
from jaxdis.models.networks._architectures import num_parameters


# The widest tolerance is for decoders, whose first convolution is here a product with each code's response.
@pytest.mark.parametrize(
    ("method", "giga"),
    [(models.Monet(), 2.6), (models.Genesis(), 6.1), (models.Iodine(), 80.0)],
    ids=lambda m: str(m)[:6],
)
def test_the_loss_of_an_image_takes_the_operations_of_the_published_model(method, giga):
    method = method.resolved((64, 64, 3))
    settings = jax.tree.map(jnp.float32, method.settings())
    model = jax.eval_shape(method.begin_model, jax.random.key(0))
    noise = jax.eval_shape(lambda key: method.noise(key, 2), jax.random.key(0))
    images = jax.ShapeDtypeStruct((2, 64, 64, 3), jnp.float32)
    counted = operations(
        lambda *given: method.loss(given[0], jnp.ones(()), *given[1:])[0], model, noise, settings, images
    )
    assert counted / 2e9 == pytest.approx(giga, rel=0.12)


@pytest.mark.parametrize(
    ("method", "side", "millions", "within"),
    [
        (models.Monet(), 64, 0.974085, 1e-7),
        (models.Monet(attention=(32, 32, 32, 64, 64, 64), num_slots=7), 128, 1.788293, 1e-7),
        (models.Genesis(), 64, 12.6, 0.05),
        (models.Genesis(mask_strides=(2, 2, 2, 1, 1)), 128, 13.4, 0.05),
        (models.Iodine(), 64, 0.36, 0.005),
    ],
    ids=lambda m: str(m)[:6],
)
def test_it_has_the_published_number_of_parameters(method, side, millions, within):
    params = jax.eval_shape(method.resolved((side, side, 3)).begin, jax.random.key(0)).model.params
    assert num_parameters(params) / 1e6 == pytest.approx(millions, abs=within)
