"""Scores of encoders: of JAX, of NumPy, of several members, with real interventions."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis import METRICS
from jaxdis.data import FactorSpace
from jaxdis.models._zoo import Encoder
from tests.models.conftest import untrained

SPACE = FactorSpace.of(shade=4, row=8, column=8)
FEW = {"num_train": 64, "num_eval": 32, "batch": 16}
METRICS_USED = {
    "mig": METRICS["mig"],
    "factor_vae": METRICS["factor_vae"].with_options(**FEW),
    "beta_vae": METRICS["beta_vae"].with_options(**FEW),
    "irs": METRICS["irs"],
}
MIXED = np.array([[1, 0, 0], [0, 1, 1], [0, -1, 1]], np.float32)
HOW = {"samples": 600, "test_samples": 300, "batch": 128}


def render(factors):
    """A pixel whose shade, row and column are the factors."""
    shade = (1 + factors[:, 0].astype(jnp.float32)) / np.float32(4)
    row, column = (jax.nn.one_hot(factors[:, j], 8) for j in (1, 2))
    return (shade[:, None, None] * row[:, :, None] * column[:, None, :])[..., None]


def true_factors(images):
    """The factors themselves, read off the pixel; NumPy alone."""
    images = np.asarray(images)[..., 0]
    numbers = np.arange(8, dtype=np.float32)
    shade = images.max((1, 2))
    return np.stack([shade, images.max(2) @ numbers / shade, images.max(1) @ numbers / shade], 1)


def traced_factors(images):
    images = images[..., 0]
    numbers = jnp.arange(8, dtype=jnp.float32)
    shade = images.max((1, 2))
    return jnp.stack([shade, images.max(2) @ numbers / shade, images.max(1) @ numbers / shade], 1)


def test_an_encoder_of_the_factors_is_perfect_in_numpy_and_in_jax_alike():
    on_host, traced = (
        jaxdis.evaluate_encoder(encode, (SPACE, render), METRICS_USED, **HOW)
        for encode in (true_factors, traced_factors)
    )
    assert list(on_host) == ["mig", "factor_vae", "factor_vae.train", "beta_vae", "beta_vae.train", "irs"]
    assert on_host["mig"] > 0.9  # the codes of a sample tell each factor, and nothing else does
    assert on_host["factor_vae"] == on_host["beta_vae"] == 1
    assert on_host["irs"] > 0.99
    for name in on_host:
        np.testing.assert_allclose(on_host[name], traced[name], atol=1e-5)


def test_codes_far_from_0_are_shifted_before_they_are_rounded():
    near, far = (
        jaxdis.evaluate_encoder(
            lambda images, shift=shift: np.float64(true_factors(images) @ MIXED) + shift,
            (SPACE, render),
            {name: METRICS_USED[name] for name in ("mig", "factor_vae")},
            **HOW,
        )
        for shift in (0, 1e9)
    )
    for name in near:
        assert far[name] == pytest.approx(float(near[name]), abs=1e-3)


def test_members_are_scored_together_and_as_alone():
    mixed = lambda images: true_factors(images) @ MIXED  # noqa: E731
    both = jaxdis.evaluate_encoder([true_factors, mixed], (SPACE, render), METRICS_USED, **HOW)
    alone = jaxdis.evaluate_encoder(true_factors, (SPACE, render), METRICS_USED, **HOW)
    assert both["mig"].shape == both["factor_vae"].shape == (2,)
    assert both["mig"][1] < both["mig"][0] - 0.3
    for name in alone:
        np.testing.assert_allclose(both[name][0], alone[name], atol=1e-6)


def test_scores_arrive_one_by_one():
    arrived = []
    scores = jaxdis.evaluate_encoder(true_factors, (SPACE, render), METRICS_USED, arrived=arrived.append, **HOW)
    assert [next(iter(part)) for part in arrived] == ["mig", "factor_vae", "beta_vae", "irs"]
    for part in arrived:
        for column in part:
            np.testing.assert_array_equal(part[column], scores[column])


def test_an_encoder_whose_codes_change_in_number_is_refused():
    widths = iter([3] * 3 + [2] * 9)
    with pytest.raises(ValueError, match="encode: must return equally many codes for every batch, got 3 and then 2"):
        jaxdis.evaluate_encoder(lambda images: true_factors(images)[:, : next(widths)], (SPACE, render), "mig", **HOW)


@pytest.mark.parametrize("encode", [true_factors, traced_factors], ids=["host", "traced"])
def test_progress_counts_the_images_of_interventions(encode):
    """By hand: (64 + 32) batches of 16 and 512 for the spread; as many pairs; 512 and 256 for each of 20 values."""
    told = []
    jaxdis.evaluate_encoder(
        encode, (SPACE, render), METRICS_USED, progress=lambda *count: told.append(count), **{**HOW, "samples": 540}
    )
    total = 840 + (96 * 16 + 512) + 2 * 96 * 16 + (512 + 20 * 256)
    assert sorted(told)[-1] == (total, total)
    assert len({done for done, _ in told}) == len(told) > 20


def test_samples_limit_the_images_of_interventions():
    """All of them are new, and can be written, since torch complains of arrays that cannot be."""
    counts = []

    def encode(images):
        counts.append(len(images))
        assert images.flags.writeable
        return true_factors(images)

    jaxdis.evaluate_encoder(encode, (SPACE, render), "factor_vae", samples=64, test_samples=32)
    assert sum(count for count in counts if count > 2) == 64 + 32 + (64 + 32) * 64 + 64  # two to look at the codes
    with pytest.warns(
        RuntimeWarning, match=r"metrics: interventions draw and encode 102,400 \(f\) images; fewer samples"
    ):
        jaxdis.evaluate_encoder(
            encode,
            (SPACE, render),
            {"f": METRICS["beta_vae"].with_options(num_train=768, num_eval=32)},
            samples=64,
            test_samples=32,
        )


def test_progress_counts_every_sample():
    seen = []
    jaxdis.evaluate_encoder(
        true_factors, (SPACE, render), "mig", progress=lambda done, total: seen.append((done, total)), **HOW
    )
    assert seen[-1] == (900, 900)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("encode", "words"),
    [
        (
            lambda images: np.zeros((3, 2)),
            r"encode: must have codes \[128, d\] of images .*\(128, 8, 8, 1\), got \(3, 2\)",
        ),
        (lambda images: np.zeros(128), r"encode: must have codes \[128, d\] of images .* got \(128,\)"),
        (lambda images: true_factors(images)[None], r"encode: must have codes \[128, d\] .* got \(1, 128, 3\)"),
        (lambda images: (true_factors(images),) * 2, "encode: must be one array of codes, got a tuple of 2"),
        (lambda images: true_factors(images) + 1j, "encode: must be codes of real numbers, got dtype complex64"),
        (
            [true_factors, lambda images: true_factors(images)[:, :2]],
            "encode: must have members .* equally many codes, got 3, 2",
        ),
        ("model", "encode: must be a function of images, several of them, or a zoo, got 'model'"),
        ([], "encode: must be a function"),
    ],
)
def test_what_is_no_encoder_is_refused_by_name(encode, words):
    with pytest.raises(ValueError, match=words):
        jaxdis.evaluate_encoder(encode, (SPACE, render), "mig", **HOW)


def test_members_whose_training_stopped_are_named():
    images = np.asarray(render(SPACE.sample(jax.random.key(0), 16)))
    method = jaxdis.models.Vae(network=jaxdis.models.Mlp((8,), 3), batch_size=8)
    config = jaxdis.models.Config("made", method=method, steps=2)
    zoo = untrained(config, jaxdis.models.members({"beta": {}}, seeds=3), images)
    assert repr(zoo).startswith("Zoo(Vae on 'made', 3 members: {'model': 'beta'")
    assert len(repr(zoo)) < 200
    zoo = dataclasses.replace(zoo, stopped=np.int32([-1, 1, -1]))
    with pytest.warns(RuntimeWarning, match=r"1 of 3 members stopped at an update .* \(1 at update 1\)"):
        jaxdis.evaluate_encoder(zoo, (SPACE, render), "mig", **HOW)


def test_a_renderer_of_bytes_as_floats_is_refused():
    with pytest.raises(ValueError, match=r"data: must be values in \[0, 1\] .*, got .* to 255"):
        jaxdis.evaluate_encoder(true_factors, (SPACE, lambda factors: 0 * render(factors) + 255), "mig", **HOW)


def test_a_zoo_needs_images_of_its_own_shape():
    with pytest.raises(ValueError, match=r"images: must have images of shape \(8, 8, 3\), got \(8, 8, 1\)"):
        Encoder({}, jaxdis.models.Vae().resolved((8, 8, 3)))(jnp.zeros((2, 8, 8, 1)))


def test_data_is_a_name_or_a_pair():
    with pytest.raises(ValueError, match="did you mean 'dsprites'"):
        jaxdis.evaluate_encoder(true_factors, "dsprite")
    with pytest.raises(ValueError, match=r"data: must be the name of a data set or a pair"):
        jaxdis.evaluate_encoder(true_factors, SPACE)
    with pytest.raises(ValueError, match="source: goes with the name"):
        jaxdis.evaluate_encoder(true_factors, (SPACE, render), source="x.npz")


def test_what_would_go_unread_is_refused():
    binned = {"factor_vae": METRICS["factor_vae"].with_options(factor_bins=5)}
    with pytest.raises(ValueError, match="factor_bins: factor_vae holds the factors of the data set itself"):
        jaxdis.evaluate_encoder(true_factors, (SPACE, render), binned, **HOW)
    with pytest.raises(TypeError, match="unexpected keyword argument 'active'"):
        jaxdis.evaluate_encoder(true_factors, (SPACE, render), "mig", active=np.ones(3, bool), **HOW)


def test_a_data_set_that_draws_noise_and_continuous_factors():
    """The noise of images follows from the key; a continuous factor is held at a value."""
    mean_color = lambda images: np.asarray(images).mean((1, 2))  # noqa: E731
    once, again = (
        jaxdis.evaluate_encoder(mean_color, "color_dsprites", "total_correlation", samples=100, test_samples=50)
        for _ in range(2)
    )
    assert once["total_correlation"] == again["total_correlation"]
    space = FactorSpace.of(row=8, shade=jaxdis.data.Interval(0.2, 1.0))

    def bars(factors):
        lit = jax.nn.one_hot(factors[:, 0].astype(jnp.int32), 8)
        return (lit * factors[:, 1:])[:, :, None, None]

    def read(images):
        column = np.asarray(images)[:, :, 0, 0]
        return np.stack([column.argmax(1), column.max(1)], axis=1).astype(np.float32)

    assert jaxdis.evaluate_encoder(read, (space, bars), {"f": METRICS_USED["factor_vae"]}, **HOW)["f"] == 1


def test_a_module_of_torch_is_called_in_its_layout_in_evaluation_mode_and_without_gradients():
    torch = pytest.importorskip("torch")
    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(1)
            self.drop = torch.nn.Dropout(0.9).eval()

        def forward(self, images):
            seen.append((images.shape[1:], torch.is_grad_enabled(), self.training, images.dtype))
            rows = (self.drop(self.norm(images)) * self.norm.weight).permute(0, 2, 3, 1)
            return torch.from_numpy(true_factors(rows.detach().float().numpy()))

    model = Model()
    how = {**HOW, "samples": 200, "test_samples": 100}
    scores = jaxdis.evaluate_encoder(model, (SPACE, render), {"mig": "mig", "f": METRICS_USED["factor_vae"]}, **how)
    expected = jaxdis.evaluate_encoder(true_factors, (SPACE, render), "mig", **how)
    assert scores["mig"] == pytest.approx(float(expected["mig"]), abs=1e-4)
    assert set(seen) == {((1, 8, 8), False, False, torch.float32)}
    assert model.training
    assert not model.drop.training
    assert int(model.norm.num_batches_tracked) == 0
    seen.clear()
    jaxdis.evaluate_encoder([model.double()], (SPACE, render), "mig", layout="nchw", **how)
    assert set(seen) == {((1, 8, 8), False, False, torch.float64)}


def test_a_function_may_read_channels_first():
    seen = []

    def encode(images):
        seen.append(images)
        return true_factors(np.asarray(images).transpose(0, 2, 3, 1))

    scores = jaxdis.evaluate_encoder(encode, (SPACE, render), "mig", layout="nchw", **HOW)
    assert scores["mig"] == jaxdis.evaluate_encoder(true_factors, (SPACE, render), "mig", **HOW)["mig"]
    concrete = [images for images in seen if isinstance(images, np.ndarray)]
    assert {images.shape[1:] for images in concrete} == {(1, 8, 8)}
    assert all(images.flags.writeable and images.flags.c_contiguous for images in concrete)
    traced = jaxdis.evaluate_encoder(
        lambda images: traced_factors(images.transpose(0, 2, 3, 1)), (SPACE, render), "mig", layout="nchw", **HOW
    )
    assert traced["mig"] == scores["mig"]


def test_a_flax_module_comes_with_its_variables():
    from flax import linen

    module = linen.Dense(3)
    flat = lambda images: images.reshape(len(images), -1)  # noqa: E731
    variables = module.init(jax.random.key(0), jnp.zeros((1, 64)))

    class Flat(linen.Module):
        @linen.compact
        def __call__(self, images):
            return linen.Dense(3)(flat(images))

    pair = (Flat(), {"params": {"Dense_0": variables["params"]}})
    scored = functools.partial(jaxdis.evaluate_encoder, data=(SPACE, render), metrics="mig", **HOW)
    expected = scored(lambda images: module.apply(variables, flat(images)))
    assert scored(pair)["mig"] == expected["mig"]
    both = scored([pair, pair[0].bind(pair[1])])
    np.testing.assert_array_equal(both["mig"], expected["mig"])
    with pytest.raises(ValueError, match=r"encode: must be a pair \(module, variables\) of a Flax module"):
        jaxdis.evaluate_encoder(Flat(), (SPACE, render), "mig")


def test_a_keras_model_is_called_in_inference():
    """Keras is not installed: a class that says to come from it."""

    class Layer:
        def __call__(self, images, training=None):
            assert training is False
            return true_factors(images)

    Layer.__module__ = "keras.src.layers.layer"
    model = type("Functional", (Layer,), {})()
    scores = jaxdis.evaluate_encoder(model, (SPACE, render), "mig", **HOW)
    assert scores["mig"] == jaxdis.evaluate_encoder(true_factors, (SPACE, render), "mig", **HOW)["mig"]
