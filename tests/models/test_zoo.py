import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis._core.files import DamagedFile, read_arrays, write_arrays
from jaxdis.models import _zoo as traversal
from jaxdis.models._config import describe, restored, types_of_configs
from jaxdis.models._images import Images
from jaxdis.models.training._train import begin
from jaxdis.papers import PAPERS
from tests.models.conftest import changed, same, untrained
from tests.models.methods.test_methods import SMALLEST

pytestmark = pytest.mark.two_devices


@pytest.fixture(scope="module")
def zoo(images):
    members = models.members({"beta": {"beta": [1.0, 4.0]}, "dip_i": {"lambda_off_diagonal": 5.0}}, seeds=2)
    method = models.Vae(objective=("beta", "dip_i"), network=models.Mlp((16,), 3), batch_size=8)
    return untrained(models.Config(data="squares", method=method, steps=20), members, images)


def logits_of(zoo, member, codes):
    return zoo.config.method.network.apply(zoo.export(member), jnp.asarray(codes), method="decode")


def test_encoding_is_the_networks_own_whatever_the_batch(zoo, images):
    posterior = zoo.encode(images, batch_size=7)
    assert posterior.mean.shape == posterior.variance.shape == (6, 40, 3)
    encode = jax.jit(functools.partial(zoo.config.method.network.apply, method="encode"))
    for i in range(6):
        mean, log_variance = encode(zoo.export(i), jnp.asarray(images))
        np.testing.assert_allclose(posterior.mean[i], mean, atol=1e-5)
        np.testing.assert_allclose(posterior.variance[i], np.exp(log_variance), rtol=1e-5)
    np.testing.assert_allclose(zoo.encode(images).mean, posterior.mean, atol=1e-6)
    np.testing.assert_allclose(zoo.encode((images * 255).astype(np.uint8)).mean, posterior.mean, atol=1e-5)


@pytest.mark.parametrize("members", [1, 3, 6])
def test_encoding_and_decoding_do_not_depend_on_the_devices(members, zoo, images):
    def render(factors, key):
        return jnp.asarray(images)[factors[:, 0]] * jax.random.uniform(key, (len(factors), 8, 8, 1))

    few, factors = zoo[:members], np.arange(40)[:, None]
    both, one, other = ({"devices": devices} for devices in (None, jax.devices()[:1], jax.devices()[1:]))
    for how in (both, other):
        np.testing.assert_array_equal(few.encode(images, batch_size=7, **how), few.encode(images, batch_size=7, **one))
        noisy = few.encode(factors, render=render, **how)
        np.testing.assert_array_equal(noisy, few.encode(factors, render=render, **one))
        codes = few.encode(images).mean
        np.testing.assert_array_equal(few.decode(codes, batch_size=7, **how), few.decode(codes, batch_size=7, **one))


def test_encoding_factors_with_a_renderer_is_encoding_their_images(zoo, images):
    def render(factors):
        return jnp.asarray(images)[factors[:, 0]]

    factors = np.arange(40)[:, None]
    np.testing.assert_allclose(zoo.encode(factors, render=render).mean, zoo.encode(images).mean, atol=1e-6)


def test_reconstruction_is_decoding_the_mean(zoo, images):
    made = zoo.reconstruct(images[:5])
    logits = logits_of(zoo, 2, zoo.encode(images[:5]).mean[2])
    np.testing.assert_allclose(made[2], jax.nn.sigmoid(logits), atol=1e-6)
    sheet = traversal.reconstructions(zoo, images[:5])
    assert sheet.shape == (6, 5, 2, 8, 8, 1)
    np.testing.assert_array_equal(sheet[3, :, 0], images[:5])
    np.testing.assert_array_equal(sheet[:, :, 1], made)


def test_a_traversal_moves_one_code_and_leaves_the_others(zoo, images):
    values = [-1.5, 0.0, 2.0]
    grid = traversal.traversals(zoo, images[:2], values=values)
    assert grid.shape == (6, 2, 3, 3, 8, 8, 1)
    codes = zoo.encode(images[:2]).mean[4, 1].copy()
    codes[2] = -1.5
    logits = logits_of(zoo, 4, codes[None])
    np.testing.assert_allclose(grid[4, 1, 2, 0], jax.nn.sigmoid(logits)[0], atol=1e-6)


def test_a_relative_traversal_is_in_standard_deviations(zoo, images):
    codes = zoo.encode(images).mean
    relative = traversal.traversals(zoo, images, values=[0.0, 1.0], relative=True)
    wanted = codes[0, 7].copy()
    wanted[1] = codes[0, :, 1].mean() + codes[0, :, 1].std()
    logits = logits_of(zoo, 0, wanted[None])
    np.testing.assert_allclose(relative[0, 7, 1, 1], jax.nn.sigmoid(logits)[0], atol=1e-5)
    with pytest.raises(ValueError, match="at least 2 images"):
        traversal.traversals(zoo, images[:1], relative=True)


def test_members_are_picked_by_index_slice_and_label(zoo, images):
    assert len(zoo) == 6
    assert zoo[1].labels == ({"model": "beta", "beta": 1.0, "seed": 1},)
    assert same(zoo[2:4], zoo.select(beta=4.0))
    assert zoo.select(model="dip_i", seed=[1]).labels == (zoo.labels[5],)
    np.testing.assert_array_equal(zoo[-1].encode(images).mean[0], zoo.encode(images).mean[5])
    assert len(np.unique(zoo.encode(images).mean[:2, 0, 0])) == 2  # of other seeds
    assert zoo.select(model="dip_i", seed=range(2)).labels == zoo.select(model="dip_i", seed=np.arange(2)).labels
    assert same(models.concatenate([zoo[:2], zoo[2:]]), zoo)
    with pytest.raises(ValueError, match="must have a label among"):
        zoo.select(gamma=1)
    with pytest.raises(ValueError, match="no member has"):
        zoo.select(beta=3.0)
    for none in ([], slice(6, None), np.zeros(6, bool)):
        with pytest.raises(IndexError, match="at least one of 6 members"):
            zoo[none]


@pytest.mark.parametrize(
    ("changes", "words"), [({"data": "dots"}, "data"), ({"steps": 30}, "steps"), ({"log_every": 4}, "log_every")]
)
def test_zoos_of_different_trainings_are_not_joined(changes, words, zoo):
    config = dataclasses.replace(zoo.config, **{n: v for n, v in changes.items() if n != "log_every"})
    other = dataclasses.replace(zoo, config=config, log_every=changes.get("log_every", zoo.log_every))
    with pytest.raises(ValueError, match=f"zoos: need the same {words} to be concatenated"):
        models.concatenate([zoo, other])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 9, 9, 1)), r"shape \(8, 8, 1\)"),
        (np.full((2, 8, 8, 1), 255.0), r"in \[0, 1\]"),
        (np.zeros(3), "shape"),
    ],
)
def test_images_that_do_not_suit_are_refused(wrong, message, zoo):
    with pytest.raises(ValueError, match=message):
        zoo.encode(wrong)


def test_a_method_without_slots_has_no_parts(zoo, images):
    with pytest.raises(ValueError, match="^zoo: must be a method with slots, got Vae"):
        models.slot_parts(zoo, images)


def test_codes_that_do_not_suit_are_refused(zoo):
    with pytest.raises(ValueError, match="codes: must have shape"):
        zoo.decode(np.zeros((2, 5, 3)))


def test_no_file_is_unpickled_and_damage_is_found(zoo, tmp_path):
    path = tmp_path / "zoo.npz"
    zoo.save(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], b"", b"not a zip"):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile):
            models.load(path)
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DamagedFile):
        models.load(path)


def test_a_zoo_whose_arrays_do_not_fit_its_network_is_refused(zoo, tmp_path):
    other = dataclasses.replace(zoo, config=changed(zoo.config, network=models.Mlp((17,), 3, (8, 8, 1))))
    other.save(tmp_path / "zoo.npz")
    with pytest.raises(DamagedFile, match="must be float32"):
        models.load(tmp_path / "zoo.npz")


def test_configs_survive_json():
    for preset in (
        *PAPERS["locatello2020"].preset.make(seeds=1),
        *PAPERS["mahon2024"].preset.make(seeds=1),
        *PAPERS["julka2024"].preset.make(seeds=1),
    ):
        assert restored(json.loads(json.dumps(describe(preset.config)))) == preset.config
        assert hash(preset.config) == hash(restored(describe(preset.config)))
    with pytest.raises(ValueError, match="type among"):
        restored({"type": "os.system"})
    with pytest.raises(ValueError, match="unexpected"):
        restored({"type": "Mlp", "widths": [3]})


@pytest.mark.parametrize("kind", list(types_of_configs().values()), ids=lambda kind: kind.__name__)
def test_a_description_from_a_file_names_no_paths(kind):
    described = json.loads(json.dumps(describe(kind())))
    assert restored(described) == kind()
    with pytest.raises(ValueError, match="config: must be what jaxdis describes, got 'path' of a|unexpected"):
        restored({**described, "path": "/dev/zero"})


@pytest.mark.parametrize("name", ["source", "painting"])
def test_options_from_a_file_name_no_paths(name):
    with pytest.raises(ValueError, match=f"options: must be settings of a data set, got '{name}'"):
        restored({"type": "DataSource", "options": [[name, "/dev/zero"]], "checksum": ""})


def test_a_header_that_a_method_refuses_is_named_with_its_file(zoo, tmp_path):
    zoo.save(tmp_path / "zoo.npz")
    header, arrays = read_arrays(tmp_path / "zoo.npz")
    header["config"]["method"]["network"]["hidden"] = [10**9]
    write_arrays(tmp_path / "zoo.npz", {name: value for name, value in header.items() if name != "checksum"}, arrays)
    with pytest.raises(ValueError, match=r"zoo.npz: hidden: must"):
        models.load(tmp_path / "zoo.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"config": {}},
        {"labels": 3},
        {"log_every": ...},
        {"config": {"type": "Config", "method": [[]]}},
    ],
    ids=str,
)
def test_a_forged_header_is_damage(zoo, tmp_path, change):
    zoo.save(tmp_path / "zoo.npz")
    header, arrays = read_arrays(tmp_path / "zoo.npz")
    header = {name: value for name, value in (header | change).items() if value is not ...}
    write_arrays(tmp_path / "zoo.npz", header, arrays)
    with pytest.raises(ValueError, match="zoo.npz: must|config: |method: must"):
        models.load(tmp_path / "zoo.npz")


@pytest.mark.parametrize(("method", "size"), [(models.Vae(), 256), (models.Iodine(), 16)])
def test_fewer_images_are_encoded_at_a_time_where_each_takes_much_memory(method, size):
    """IODINE decodes every slot of an image five times: 54 MB for 64 × 64 pixels."""
    method = method.resolved((64, 64, 3))
    params = jax.eval_shape(lambda key: method.params(begin(method, key).learner), jax.random.key(0))
    zoo = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((3, *leaf.shape), leaf.dtype), params)
    assert traversal.images_at_once(method.represent, zoo, method.image_shape) == size


def plain(factors):
    return jnp.zeros((len(factors), 8, 8, 1)) + factors[:, :1, None, None].astype(jnp.float32)


def noisy(factors, key):
    return jnp.broadcast_to(jax.random.uniform(key, (len(factors), 8, 8, 1)), (len(factors), 8, 8, 1))


def with_options(factors, *, scale=1.0):
    return scale * plain(factors)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gathered:
    table: jax.Array

    def __call__(self, factors):
        return self.table[factors[:, 0]]


@pytest.mark.parametrize(
    ("render", "arrays", "takes_key"),
    [(plain, 0, False), (noisy, 0, True), (with_options, 0, False), (Gathered(jnp.ones((3, 8, 8, 1))), 1, False)],
    ids=["plain", "noisy", "options", "pytree"],
)
def test_a_renderer_is_called_as_it_asks_to_be(render, arrays, takes_key):
    images = Images.of(render)
    assert (len(jax.tree.leaves(images)), images.takes_key) == (arrays, takes_key)
    call = jax.jit(lambda images, factors, key: images(factors, key))
    assert call(images, jnp.zeros((2, 1), int), jax.random.key(0)).shape == (2, 8, 8, 1)
    assert Images.of(images) is images


def test_what_is_no_renderer_is_refused():
    with pytest.raises(ValueError, match="render: must be a function of factors"):
        Images.of("dsprites")


def test_noise_follows_from_the_key_and_the_place_alone(zoo):
    factors = np.zeros((9, 1), np.int32)
    found = zoo.encode(factors, render=noisy).mean
    np.testing.assert_array_equal(zoo.encode(factors, render=noisy).mean, found)
    np.testing.assert_allclose(zoo.encode(factors, render=noisy, batch_size=4).mean, found, atol=1e-6)
    np.testing.assert_allclose(zoo.encode(factors[:5], render=noisy, batch_size=2).mean, found[:, :5], atol=1e-6)
    assert not np.allclose(zoo.encode(factors, render=noisy, key=jax.random.key(1)).mean, found)
    assert len(np.unique(found[0, :, 0])) == 9


def test_parts_of_a_zoo_are_those_of_its_members(images):
    config = models.Config("squares", method=SMALLEST["monet"], steps=1)
    zoo = untrained(config, models.members({"monet": {}}, 2, config.method), images)
    parts, slots = models.slot_parts(zoo, images[:5], batch_size=2), zoo.encode(images[:5])
    assert parts.reconstruction.shape == (2, 5, 8, 8, 1)
    assert parts.pictures.shape == (2, 5, 2, 8, 8, 1)
    np.testing.assert_allclose(parts.masks, slots.masks, rtol=1e-5)
    whole = np.einsum("mnshw,mnshwc->mnhwc", parts.masks, parts.pictures)
    np.testing.assert_allclose(parts.reconstruction, whole, rtol=1e-5)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), zoo.params)
    alone = zoo.config.method.parts(one, jnp.asarray(images[:5]))
    np.testing.assert_allclose(parts.pictures[1], alone.pictures, rtol=1e-5)
    assert zoo.reconstruct(images[:5]).shape == (2, 5, 8, 8, 1)
