import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxdis._core.kernels import convolution
from jaxdis._core.platforms import tracing_for
from jaxdis.models.networks import _architectures as architectures
from jaxdis.models.networks._architectures import functions_of
from tests.draws import normal, uniform
from tests.models.conftest import largest_difference

SMALL = {
    "channels": (4, 4, 6, 6),
    "decoder_channels": (6, 6, 4, 4),
    "hidden": (8,),
    "decoder_hidden": (8,),
    "num_codes": 3,
}


FORMS = {"patches": "gpu", "direct": "cpu"}


@pytest.fixture(params=FORMS.items(), ids=lambda pair: pair[0])
def form(request):
    """Both forms of a convolution, whichever this backend takes."""
    with tracing_for(request.param[1]):
        yield


def down(images, kernel):
    return convolution.convolution(images, kernel, (2, 2), "SAME")


def ordinary(images, kernel, stride=1, padding="SAME", **dilated):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(images, kernel, (stride,) * 2, padding, dimension_numbers=layout, **dilated)


def ordinary_up(images, kernel):
    return jax.lax.conv_transpose(images, kernel, (2, 2), "SAME")


def begun(network):
    return jax.jit(lambda key: functions_of(network).init(key, network.image_shape))(jax.random.key(1))


def assert_same_values_and_gradients(found, wanted, images, kernel, tolerance=1e-5):
    """Values and both gradients of a sum of squares, relative to the largest of each, in both forms of ``found``."""

    def values_and_gradients(f, *pair):
        return f(*pair), *jax.grad(lambda *pair: jnp.square(f(*pair)).sum(), (0, 1))(*pair)

    @jax.jit
    def all_of_them(*pair):
        results = [values_and_gradients(wanted, *pair)]
        for platform in FORMS.values():
            with tracing_for(platform):
                results.append(values_and_gradients(found, *pair))
        return results

    (expected, *of_expected), *by_form = jax.tree.map(np.asarray, all_of_them(images, kernel))
    for values, *gradients in by_form:
        np.testing.assert_allclose(values, expected, atol=tolerance)
        for left, right in zip(gradients, of_expected, strict=True):
            assert left.shape == right.shape
            assert np.abs(left - right).max() < tolerance * np.abs(right).max()


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("shape", [(6, 6, 1), (8, 12, 3), (7, 5, 2)])
def test_a_convolution_equals_the_ordinary_one(size, shape):
    images = normal(0, (2, *shape))
    kernel = normal(1, (size, size, shape[-1], 5))
    assert_same_values_and_gradients(down, functools.partial(ordinary, stride=2), images, kernel)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4)])
def test_a_transposed_convolution_equals_the_ordinary_one(shape):
    images = normal(0, (2, *shape))
    kernel = normal(1, (4, 4, shape[-1], 3))
    assert_same_values_and_gradients(convolution.transposed_convolution, ordinary_up, images, kernel)


@pytest.mark.parametrize("shape", [(7, 6), (20, 22)])
@pytest.mark.parametrize(
    ("size", "stride", "padding"),
    [(3, 1, 0), (3, 1, 1), (3, 2, 0), (3, 2, 1), (5, 1, 0), (5, 1, 2), (5, 1, 3), (5, 2, 2), (1, 1, 0)],
)
def test_a_padded_convolution_equals_the_ordinary_one(shape, size, stride, padding):
    images = normal(0, (2, *shape, 3))
    kernel = normal(1, (size, size, 3, 2))
    window = [(padding, padding)] * 2
    found = functools.partial(convolution.convolution, strides=(stride,) * 2, padding=window)
    wanted = functools.partial(ordinary, stride=stride, padding=window)
    assert_same_values_and_gradients(found, wanted, images, kernel, 2e-5)


def test_a_transposed_convolution_of_size_five_equals_the_ordinary_one_of_spaced_images():
    images = normal(0, (2, 3, 5, 4))
    kernel = normal(1, (5, 5, 4, 3))

    def spaced(images, kernel):
        # Correlation with the kernel turned by 180 degrees of an image with zeros between its pixels.
        return ordinary(images, kernel[::-1, ::-1], padding=[(2, 3)] * 2, lhs_dilation=(2, 2))

    assert_same_values_and_gradients(convolution.transposed_convolution_five, spaced, images, kernel, 2e-5)


@pytest.mark.parametrize("name", ["pooled_convolution", "enlarged_convolution"])
def test_a_convolution_with_a_change_of_size_equals_the_two_of_them(name):
    images = normal(0, (2, 6, 8, 3))
    kernel = normal(1, (3, 3, 3, 2))

    def apart(images, kernel):
        images = convolution.enlarged(images) if name == "enlarged_convolution" else images
        maps = ordinary(images, kernel)
        return maps if name == "enlarged_convolution" else maps.reshape(2, 3, 2, 4, 2, 2).mean((2, 4))

    assert_same_values_and_gradients(getattr(convolution, name), apart, images, kernel, 2e-5)


@pytest.mark.parametrize("shape", [(8, 8), (7, 10)])
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (4, 2), (2, 2), (5, 1), (5, 2)])
def test_a_layer_is_that_of_flax(shape, size, stride):
    images = normal(0, (2, *shape, 3))
    ordinary, found = (kind(4, (size, size), (stride, stride)) for kind in (nn.Conv, architectures.Conv))

    def both(key, images):
        params, by_form = ordinary.init(key, images), []
        for platform in FORMS.values():
            with tracing_for(platform):
                by_form.append(found.apply(params, images))
        return by_form, ordinary.apply(params, images)

    by_form, expected = jax.jit(both)(jax.random.key(1), images)
    for outputs in by_form:
        np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_running_variances_are_those_of_torch():
    """One pass of a batch of five: 0.9 of the old moments and 0.1 of the unbiased new ones."""
    hidden = normal(0, (5, 1, 1, 2))
    module = architectures.UnbiasedBatchNorm()
    shapes = architectures.shapes_of(module, hidden, training=False)
    blank = architectures.blank_statistics(shapes)
    params = architectures.draw(jax.random.key(0), shapes["params"], "torch")
    outputs, moved = architectures.normalized(module, params, blank, hidden, training=True)
    rows = np.asarray(hidden).reshape(5, 2)
    np.testing.assert_allclose(moved["var"], 0.9 + 0.1 * rows.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(outputs.reshape(5, 2), (rows - rows.mean(0)) / rows.std(0), atol=1e-4)
    still, kept = architectures.normalized(module, params, blank, hidden, training=False)
    assert kept is blank
    np.testing.assert_allclose(still, hidden, rtol=1e-4)


def test_penalties_on_gradients_equal_those_of_ordinary_convolutions(form):
    """Second derivatives, as the gradient penalty of a critic takes them."""
    images = normal(0, (2, 6, 8, 3))
    kernels = {"down": normal(1, (4, 4, 3, 2))}
    kernels["up"] = normal(2, (4, 4, 2, 3))

    def penalty(kernels, down, up):
        def score(images):
            return jnp.tanh(up(jnp.tanh(down(images, kernels["down"])), kernels["up"])).sum()

        return jnp.square(jax.grad(score)(images)).sum()

    gradients = jax.jit(jax.grad(penalty), static_argnums=(1, 2))
    found = gradients(kernels, down, convolution.transposed_convolution)
    wanted = gradients(kernels, functools.partial(ordinary, stride=2), ordinary_up)
    assert largest_difference(found, wanted) < 1e-4 * max(np.abs(leaf).max() for leaf in jax.tree.leaves(wanted))


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_a_zoo_of_convolutions_equals_one_after_another(axes, form):
    images = normal(0, (2, 3, 6, 8, 4))
    kernels = normal(1, (2, 4, 4, 4, 5))
    images, kernels = (array if axis == 0 else array[0] for array, axis in zip((images, kernels), axes, strict=True))
    of_one = jax.jit(jax.grad(lambda *pair: jnp.square(down(*pair)).sum(), (0, 1)))
    found = jax.jit(jax.vmap(of_one, axes))(images, kernels)
    for i in range(2):
        pair = (array if axis is None else array[i] for array, axis in zip((images, kernels), axes, strict=True))
        for left, right in zip(found, of_one(*pair), strict=True):
            np.testing.assert_allclose(left[i], right, rtol=1e-4, atol=1e-3)  # sums of up to a thousand products


def test_other_kernel_sizes_are_refused():
    with pytest.raises(ValueError, match="size 5"):
        convolution.transposed_convolution_five(jnp.zeros((1, 4, 4, 1)), jnp.zeros((4, 4, 1, 1)))
    with pytest.raises(ValueError, match="size 4"):
        convolution.transposed_convolution(jnp.zeros((1, 4, 4, 1)), jnp.zeros((2, 2, 1, 1)))


@pytest.mark.parametrize(
    ("make", "image_shape"), [(architectures.locatello, (20, 33, 3)), (architectures.burgess, (16, 16, 1))]
)
def test_matmul_and_conv_give_the_same_values_and_gradients(make, image_shape):
    images = uniform(0, (3, *image_shape))

    def loss(params, network):
        _, encode, decode = functions_of(network)
        mean, log_variance = encode(params, images)
        return jnp.square(decode(params, mean) - images).mean() + jnp.square(log_variance).mean()

    by_matmul, by_conv = (make(image_shape=image_shape, compute=compute, **SMALL) for compute in ("matmul", "conv"))
    params = begun(by_matmul)
    assert jax.tree.structure(params) == jax.tree.structure(begun(by_conv))
    step = jax.jit(jax.value_and_grad(loss), static_argnums=1)
    left, right = (step(params, network) for network in (by_matmul, by_conv))
    assert largest_difference(left, right) < 1e-5


def test_images_have_derivatives_by_codes_in_forward_mode():
    small = {"channels": (2,), "kernels": (4,), "hidden": (4,), "decoder_hidden": (4,), "decoder_channels": (2,)}
    by_matmul, by_conv = (
        architectures.Convolutional(image_shape=(8, 8, 1), compute=compute, num_codes=3, **small)
        for compute in ("matmul", "conv")
    )
    params, codes = begun(by_matmul), normal(0, (2, 3))

    def jacobian(mode, network):
        decode = functions_of(network).decode
        return jax.jit(jax.vmap(mode(lambda one: decode(params, one[None])[0])))(codes)

    found, wanted = jacobian(jax.jacfwd, by_conv), jacobian(jax.jacrev, by_matmul)
    assert found.shape == (2, 8, 8, 1, 3)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("network", "parameters"),
    [
        (architectures.locatello(image_shape=(64, 64, 1)), 690_517),
        (architectures.locatello(image_shape=(64, 64, 3)), 692_567),
        (architectures.locatello(as_released=False, image_shape=(64, 64, 1)), 764_245),
        (architectures.locatello(as_released=False, image_shape=(64, 64, 3)), 766_295),
        (architectures.burgess(image_shape=(64, 64, 1)), 502_005),
        (architectures.burgess(image_shape=(64, 64, 3)), 504_055),
    ],
)
def test_published_parameter_counts(network, parameters):
    assert architectures.num_parameters(jax.eval_shape(lambda: begun(network))) == parameters


@pytest.mark.parametrize(("number", "parameters"), [(6, 5_018_002), (5, 4_017_002)])
def test_discriminator_parameter_counts(number, parameters):
    shapes = architectures.shapes_of(architectures.Discriminator(number), jnp.zeros((1, 10)))
    assert architectures.num_parameters(shapes) == parameters


@pytest.mark.parametrize(
    ("make", "image_shape"),
    [
        (architectures.Mlp, (5, 7, 2)),
        (architectures.Convolutional, (33, 20, 3)),
        (architectures.Convolutional, (5, 7, 2)),
    ],
)
def test_any_image_size(make, image_shape):
    network = make(image_shape=image_shape, hidden=(8,))

    def there_and_back(key):
        init, encode, decode = functions_of(network)
        params = init(key, image_shape)
        mean, log_variance = encode(params, jnp.ones((2, *image_shape)))
        return mean, log_variance, decode(params, mean)

    mean, log_variance, images = jax.jit(there_and_back)(jax.random.key(0))
    assert mean.shape == log_variance.shape == (2, 10)
    assert images.shape == (2, *image_shape)
    assert np.isfinite(images).all()


def test_interleaved_outputs_are_the_same_columns_in_another_order():
    plain, interleaved = (architectures.burgess(image_shape=(16, 16, 1), interleaved=i, **SMALL) for i in (False, True))
    params = begun(plain)
    images = uniform(1, (2, 16, 16, 1))
    whole = np.concatenate(functions_of(plain).encode(params, images), axis=1)
    mean, log_variance = functions_of(interleaved).encode(params, images)
    np.testing.assert_array_equal(mean, whole[:, 0::2])
    np.testing.assert_array_equal(log_variance, whole[:, 1::2])


@pytest.mark.parametrize(
    ("scheme", "bounds", "bias_bound"),
    [
        ("glorot", {"encoder_0": (6 / (12 + 40)) ** 0.5, "transposed_0": (6 / (16 * 12)) ** 0.5}, 0),
        ("torch", {"encoder_0": 12**-0.5, "transposed_0": (16 * 8) ** -0.5}, 12**-0.5),
        ("kaiming", {"encoder_0": (6 / 12) ** 0.5, "transposed_0": (6 / (16 * 8)) ** 0.5}, 12**-0.5),
    ],
)
def test_initialization_bounds(scheme, bounds, bias_bound):
    shape = jax.ShapeDtypeStruct
    shapes = {
        "encoder_0": {"kernel": shape((12, 40), jnp.float32), "bias": shape((40,), jnp.float32)},
        "transposed_0": {"kernel": shape((4, 4, 4, 8), jnp.float32), "bias": shape((8,), jnp.float32)},
    }
    drawn = jax.jit(lambda key: architectures.draw(key, shapes, scheme))(jax.random.key(0))
    for name, bound in bounds.items():
        largest = float(jnp.abs(drawn[name]["kernel"]).max())
        assert 0.95 * bound < largest <= bound
    assert float(jnp.abs(drawn["encoder_0"]["bias"]).max()) <= bias_bound
    assert (float(jnp.abs(drawn["encoder_0"]["bias"]).max()) > 0) == (bias_bound > 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: architectures.locatello(as_released="printed"),
        lambda: architectures.Convolutional(kernels=(4, 4)),
        lambda: functions_of(architectures.Mlp()).init(jax.random.key(0), (4, 4, 1)),
    ],
)
def test_bad_networks_are_refused(make):
    with pytest.raises(ValueError, match="as_released|kernel|image_shape"):
        make()
