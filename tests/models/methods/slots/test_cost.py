"""The size of the published models in operations, which no run of theirs fits into a test to show."""

import jax
import jax.numpy as jnp
import pytest

from jaxdis import models
from jaxdis._core.resources import operations


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
