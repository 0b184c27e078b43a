"""What every method promises to training, for every row of METHODS and for a toy method."""

import dataclasses
import functools
import inspect
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis import models
from jaxdis._core import platforms
from jaxdis._core.executor import Layout
from jaxdis.models._members import checked_members
from jaxdis.models.methods import _method as method_module
from jaxdis.models.methods._method import accepted
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import _advance, begin, resolved_config
from tests.models.conftest import interrupted_and_resumed, largest_difference, same
from tests.models.methods.toy import ToyGan
from tests.programs import check_products_of

pytestmark = pytest.mark.two_devices

SLOTS = {"num_slots": 2, "num_codes": 2, "batch_size": 4, "encoder": (2,), "encoder_hidden": 2, "decoder": (2,)}
# The smallest instance of each row.
SMALLEST = {
    "vae": models.Vae(network=models.Mlp((8,), 2), batch_size=4),
    "pca": models.Pca(num_codes=2, passes=5, batch_size=16),
    "parted_vae": models.PartedVae(
        network=models.Stacks(hidden=(8,), decoder_hidden=()), num_z=1, labelled=True, batch_size=4, num_labelled=20
    ),
    "weak_de": models.WeakDe(
        network=models.Stacks(channels=(2,), decoder_channels=(2,), hidden=(4,), decoder_hidden=(), normalized=True),
        num_codes=2,
        classes=((0, (0, 1, 2)), (1, (0, 0))),
        relations=((0, 1, True),),
        opponents=(4,),
        batch_size=8,
        relation_batch=4,
        num_labelled=20,
        augmented=False,
    ),
    "labelled_partition": models.LabelledPartition((3, 2), models.Mlp((8,)), block=1, content=1, batch_size=4),
    # Without blocks, which take long to compile. Batch normalization cancels some gradients, and Adam with a small ε
    # would turn what rounding leaves of them into steps.
    "resnet_vae": models.ResnetVae((2,), 2, batch_size=4, optimizer=models.Adam(0.0, 0.9, 1e-2)),
    "infogan": models.InfoGan((2,), 2, batch_size=4, critic_updates=1, optimizer=models.Adam(0.0, 0.9, 1e-2)),
    # One block, and a coarse map; nothing changes the bias of all logits of masks, whose gradient is rounding alone.
    "monet": models.Monet(attention=(2,), attention_hidden=2, optimizer=models.RmsProp(epsilon=1e-2), **SLOTS),
    "genesis": models.Genesis(
        num_mask_codes=2,
        mask_encoder=(2,),
        mask_strides=(2,),
        mask_decoder=(2, 2),
        features=2,
        units=2,
        prior_units=2,
        optimizer=models.Adam(epsilon=1e-2),
        **SLOTS,
    ),
    "iodine": models.Iodine(
        num_slots=2,
        num_codes=2,
        batch_size=4,
        refinements=1,
        decoder=(2,),
        kernel=3,
        refiner=(2,),
        units=2,
        optimizer=models.Adam(epsilon=1e-2),
    ),
    "toy_gan": ToyGan(),
}


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_no_time():
    """Promises are about a method's code; tests of training and of single methods compile as users do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.setitem(models.METHODS, "toy_gan", ToyGan)


@pytest.fixture(params=list(SMALLEST))
def method(request):
    return SMALLEST[request.param]


@pytest.fixture
def data(images):
    """The images and two factors of each."""
    return images, np.stack([np.arange(len(images)) % 3, np.arange(len(images)) % 2], axis=1)


def run_of(method):
    """A config and members, as :func:`jaxdis.models.train` takes them."""
    name = method.trained[0]
    swept = method.variants[name].swept
    settings = {swept: [1.0, 2.0]} if swept else {}
    keys, hyperparameters, labels = models.members({name: settings}, 3, method)
    some = jax.tree.map(lambda leaf: leaf[:3], (keys, hyperparameters))
    config = models.Config("squares", method=method, steps=min(6, method.default_steps))
    return config, *some, labels[:3]


def trained(method, data, **arguments):
    return models.train(*run_of(method), data=data, **arguments)


def test_the_example_of_the_documentation_trains(images):
    text = inspect.getdoc(method_module)
    names = {"dataclasses": dataclasses, "jnp": jnp, "NamedTuple": NamedTuple, "Array": jax.Array, **vars(models)}
    exec(textwrap.dedent(text[text.index("    class Settings") :]), names)
    mean_image = names["MeanImage"]()
    config = models.Config("squares", method=mean_image, steps=200)
    zoo = models.train(config, *models.members({"mean_image": {"rate": 0.1}}, 1, mean_image), data=images)
    # Batches of 64 of 40 images: an average over about twenty batches.
    np.testing.assert_allclose(zoo.params[0], images.mean(0), atol=0.1)
    assert zoo.encode(images).mean.shape == (1, 40, 1)


def test_every_row_is_tested():
    assert set(SMALLEST) == set(models.METHODS)


def test_members_are_equal_whatever_the_grouping(method, data):
    spread = trained(method, data, log_every=2)
    together = trained(method, data, log_every=2, execution="vmap", members_at_once=2, devices=jax.devices()[:1])
    assert largest_difference(together.params, spread.params) < 1e-5
    assert largest_difference(together.losses, spread.losses) < 1e-5
    assert (spread.stopped == -1).all()


def test_products_of_an_update_are_not_rounded_on_accelerators(method, data, monkeypatch):
    monkeypatch.setenv(platforms.FORMS_VARIABLE, "gpu")
    source = as_source(data)
    method = resolved_config(models.Config("squares", method=method), source).method.tuned("gpu")
    name = method.trained[0]
    swept = method.variants[name].swept
    zoo = models.members({name: {swept: [1.0]} if swept else {}}, 2, method)
    keys, hyperparameters, _ = checked_members(method, *zoo)
    state = jax.eval_shape(jax.vmap(functools.partial(begin, method)), keys)
    layout, real = Layout(tuple(jax.devices()[:1]), 2), np.full(1, 2, np.int32)
    traced = _advance.trace(method, layout, state, (keys, hyperparameters), source, np.int32(1), real)
    check_products_of(traced.jaxpr.jaxpr)


def test_a_resumed_run_has_the_bits_of_one_without_a_break(method, data, tmp_path):
    how = {"data": data, "log_every": 2, "checkpoint_every": 2, "directory": tmp_path}
    assert same(interrupted_and_resumed(4, *run_of(method), **how), trained(method, data, log_every=2))


@pytest.mark.parametrize("rate", [1e12, 3.2e8])
def test_a_member_that_is_not_finite_stops_alone_and_unchanged(rate, method, data):
    """The lower rate gives losses whose squares, but not themselves, are beyond float32."""
    name = method.trained[0]
    variant = method.variants[name]
    keys, hyperparameters, labels = models.members({name: {}}, 3, method)  # as many as in other tests: one program
    if "learning_rate" not in getattr(hyperparameters, "_fields", ()):
        pytest.skip("has no step length that could be too long")
    config = models.Config("squares", method=method, steps=8)
    sound = models.train(config, keys, hyperparameters, labels, data=data, log_every=1)
    rates = np.float32([rate, *[variant.settings().learning_rate] * 2])
    sick = models.train(config, keys, hyperparameters._replace(learning_rate=rates), labels, data=data, log_every=1)
    stop = sick.stopped[0]
    if stop < 0:
        assert all(np.isfinite(curve).all() for curve in sick.losses)
        return
    assert 0 < stop < 8
    assert sick.stopped[1] == -1
    assert largest_difference(sick[1].params, sound[1].params) == 0
    assert all(np.isnan(curve[0, stop + 1 :]).all() for curve in sick.losses)
    before = models.train(
        dataclasses.replace(config, steps=int(stop)), keys, hyperparameters._replace(learning_rate=rates), data=data
    )
    assert largest_difference(sick[0].params, before[0].params) == 0


def test_a_zoo_is_saved_read_and_represents_images_one_by_one(method, data, tmp_path):
    zoo = trained(method, data, log_every=2)
    zoo.save(tmp_path / "zoo.npz")
    read = models.load(tmp_path / "zoo.npz")
    assert same(read, zoo)
    whole = zoo.encode(data[0])
    if method.represents is models.Slots:
        assert whole.codes.shape[:3] == (3, 40, method.num_slots)
        assert whole.masks.shape == (3, 40, method.num_slots, 8, 8)
        np.testing.assert_allclose(whole.masks.sum(2), 1, rtol=1e-5)
    else:
        num_codes = method.num_codes if hasattr(method, "num_codes") else 2
        assert whole.mean.shape == whole.variance.shape == (3, 40, num_codes)
    parts = read.encode(data[0][:7], batch_size=3)
    for part, all_of_it in zip(parts, whole, strict=True):
        np.testing.assert_allclose(part, all_of_it[:, :7], rtol=1e-4, atol=1e-4)
    together = models.concatenate([read[:1], read[1:]])
    assert same(together, zoo)


def test_labels_are_asked_for_in_one_line(data):
    with pytest.raises(ValueError, match=r"^data: must be \(images, factors\) for ToyGan, got images alone$"):
        trained(ToyGan(), data[0])
    with pytest.raises(
        ValueError, match=r"^factors: must be numbers \[40, k\], one row per image, got \(39, 2\) int64$"
    ):
        trained(ToyGan(), (data[0], data[1][:-1]))


def test_another_method_cannot_stand_in_for_that_of_a_zoo(data, tmp_path):
    trained(ToyGan(), data).save(tmp_path / "zoo.npz")
    with pytest.raises(ValueError, match="method: must be that of the zoo, got one with another num_codes"):
        models.load(tmp_path / "zoo.npz", ToyGan(num_codes=3))


def test_a_method_without_decoder_says_so(data):
    with pytest.raises(ValueError, match="method: needs a decoder, ToyGan has none"):
        trained(ToyGan(), data).decode(np.zeros((2, 2)))


def test_an_update_is_accepted_whole_or_not_at_all():
    run = jax.jit(lambda loss: accepted(loss, lambda: jnp.float32(2), jnp.float32(1), (loss, jnp.float32(3))))
    assert jax.tree.map(float, run(5.0)) == (2, (5, 3))
    state, losses = run(np.inf)
    assert state == 1
    assert np.isnan(losses).all()


SPINE = ("training", "_zoo.py", "_members.py")


def test_training_knows_no_method():
    root = Path(jaxdis.__file__).parent
    roots = [*(root / "models" / name for name in SPINE), root / "study"]
    assert all(path.exists() for path in roots)
    paths = [path for start in roots for path in (start, *start.rglob("*.py")) if path.is_file()]
    assert len(paths) > 20
    for path in paths:
        assert not re.search(r"\b(kl|discriminator|judge)\b", path.read_text(), re.IGNORECASE), path
