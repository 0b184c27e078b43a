"""TFRecords without TensorFlow, and CLEVR with masks: small files of the official form, and spoiled ones."""

import gzip
import struct
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import jaxdis.data
from jaxdis.data import DATASETS
from jaxdis.data import _clevr_render as clevr
from jaxdis.data import _lattice as lattice
from jaxdis.data._clevr_render import View
from jaxdis.data.files import _clevr_files as files
from jaxdis.data.files import _tfrecord as tfrecord

KEY = jax.random.key(0)


def messages():
    """Message classes of tf.train.Example, described as TensorFlow does."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, (label, kind, of) in enumerate(fields, 1):
            made.field.add(name=label, number=number, label=kind[0], type=kind[1], type_name=of)
        return made

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message("BytesList", ("value", (many, field.TYPE_BYTES), None))
    message("FloatList", ("value", (many, field.TYPE_FLOAT), None))
    message("Int64List", ("value", (many, field.TYPE_INT64), None))
    feature = message(
        "Feature",
        ("bytes_list", (one, field.TYPE_MESSAGE), ".t.BytesList"),
        ("float_list", (one, field.TYPE_MESSAGE), ".t.FloatList"),
        ("int64_list", (one, field.TYPE_MESSAGE), ".t.Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for part in feature.field:
        part.oneof_index = 0
    features = message("Features", ("feature", (many, field.TYPE_MESSAGE), ".t.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=one, type=field.TYPE_STRING)
    entry.field.add(name="value", number=2, label=one, type=field.TYPE_MESSAGE, type_name=".t.Feature")
    message("Example", ("features", (one, field.TYPE_MESSAGE), ".t.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


EXAMPLE = messages()


def serialized(features):
    made = EXAMPLE()
    for name, values in features.items():
        if isinstance(values, list):
            made.features.feature[name].bytes_list.value.extend(values)
        elif values.dtype == np.uint8:
            # Each byte is an entry of one byte: its field, its length, itself.
            entries = np.stack(np.broadcast_arrays(np.uint8(10), np.uint8(1), values.ravel()), axis=1)
            made.features.feature[name].bytes_list.MergeFromString(entries.tobytes())
        elif values.dtype == np.int64:
            made.features.feature[name].int64_list.value.extend(values.tolist())
        else:
            made.features.feature[name].float_list.value.extend(values.ravel().tolist())
    return made.SerializeToString()


def record(data):
    """With zeros in place of the checksums of the length and of the data, which are not compared."""
    return struct.pack("<Q", len(data)) + bytes(4) + data + bytes(4)


# ---- the format ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [gzip.compress, bytes])
def test_examples_are_read_as_they_were_written(tmp_path, packed):
    rng = np.random.default_rng(0)
    rows = [
        {
            "image": rng.integers(0, 256, 300, dtype=np.uint8),
            "long": [rng.bytes(200), b"", rng.bytes(1)],
            "x": rng.normal(size=11).astype(np.float32),
            "id": np.array([1, -2]),
        }
        for _ in range(3)
    ]
    path = tmp_path / "some.tfrecords"
    path.write_bytes(packed(b"".join(record(serialized(row)) for row in rows)))
    for found, row in zip(tfrecord.examples(path), rows, strict=True):
        assert set(found) == {"image", "long", "x"}
        np.testing.assert_array_equal(found["image"], row["image"])
        np.testing.assert_array_equal(found["x"], row["x"])
        assert found["long"].tobytes() == b"".join(row["long"])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[:-2], "record 1.*the file ends inside a record"),
        (lambda data: data[:6], "record 0.*the file ends inside a record"),
        (lambda data: data[:3] + b"\xff" + data[4:], "record 0.*a record of .* bytes"),
        (lambda data: data + record(b"\x0a\x05\x0a"), "record 2.*a field is longer than its message"),
        (lambda data: data + record(b"\x0b\x05\x0a"), "record 2.*a field of kind 3"),
        (lambda data: data + record(b"\x0a\xff"), "record 2.*a number is cut off"),
        (lambda data: gzip.compress(data)[:-12], "record"),
        (
            lambda data: gzip.compress(data[:-5] + b"\xff" + data[-4:])[:-8] + gzip.compress(data)[-8:],
            "record 2 .CRC check failed",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, spoil, message):
    path = tmp_path / "some.tfrecords"
    path.write_bytes(spoil(2 * record(serialized({"a": np.arange(60, dtype=np.uint8)}))))
    with pytest.raises(ValueError, match=f"source: .* is damaged in {message}"):
        list(tfrecord.examples(path))


# ---- CLEVR with masks ------------------------------------------------------------------------------------------------

# Codes of the file: color 1 is the palette's third, and so on.
CODE_OF_COLOR = np.array([4, 7, 1, 2, 8, 5, 3, 6])


VIEW = View(clevr.CROP_SIDE, "degrees")
picture_of, mask_of = jax.jit(clevr.Draw(VIEW, bounce=False).image), jax.jit(VIEW.mask)


def published(row, rng):
    """One scene as published: the whole picture, of which the renderer draws the middle, with codes."""
    objects = np.asarray(clevr.parts(jnp.asarray(row)).objects)
    count = int(row[0]) + 3
    image = rng.integers(0, 256, (240, 320, 3), dtype=np.uint8)
    which = np.zeros((240, 320), int)
    image[29:221, 64:256] = np.round(255 * np.asarray(picture_of(jnp.asarray(row))))
    which[29:221, 64:256] = mask_of(jnp.asarray(row))
    palette = np.array(clevr.PALETTE) / 255
    color = np.abs(objects[:, None, :3] - palette).sum(-1).argmin(1)
    there = np.arange(11) <= count

    def column(values):
        found = np.zeros(11, np.float32)
        found[1 : count + 1] = values[:count]
        return found

    return {
        "image": image,
        "mask": (255 * (np.arange(11)[:, None, None] == which)).astype(np.uint8),
        "color": column(CODE_OF_COLOR[color]).astype(np.uint8),
        "shape": column(objects[:, 3] + 1).astype(np.uint8),
        "material": column(objects[:, 4] + 1).astype(np.uint8),
        "size": column(2 - objects[:, 5]).astype(np.uint8),
        "rotation": column(objects[:, 6]),
        "x": column(objects[:, 7]),
        "y": column(objects[:, 8]),
        "z": column(np.array(clevr.SIZES)[objects[:, 5].astype(int)]),
        "visibility": there.astype(np.float32),
        "pixel_coords": np.zeros((11, 3), np.float32),
    }


@pytest.fixture(scope="module")
def scenes():
    space = clevr.space(jitter=False, view=View(rotation="degrees")).only({"num_objects": 3})
    rows = np.array(space.sample(KEY, 5))
    rows[1:4, 0] = [0, 2, 1]  # what is left of a scene follows the rules
    rng = np.random.default_rng(0)
    return rows, [published(row, rng) for row in rows]


def write(path, features):
    path.write_bytes(gzip.compress(b"".join(record(serialized(one)) for one in features), 1))
    return path


def test_the_file_has_the_interface_of_the_renderer(tmp_path, scenes):
    rows, features = scenes
    hidden = {name: np.copy(array) for name, array in features[0].items()}
    # In an extra scene, one object shows less than 200 pixels in the crop.
    first = hidden["mask"][1] > 0
    hidden["mask"][0][first], hidden["mask"][1][first] = 255, 0
    hidden["mask"][0, 100, 100:190], hidden["mask"][1:, 100, 100:190] = 0, 0
    hidden["mask"][1, 100, 100:190] = 255
    path = write(tmp_path / "clevr.tfrecords", [features[0], hidden, *features[1:]])
    space, render = jaxdis.data.clevr6(source=path, side=48, dtype="uint8")
    assert render.source == "file:clevr.tfrecords"
    assert space.names == clevr.space(jitter=False).names
    factors = np.asarray(space.listing.values)
    assert len(factors) == 5
    expected, found = (np.asarray(clevr.parts(jnp.asarray(r)).objects) for r in (rows, factors))
    present = np.asarray(clevr.parts(jnp.asarray(rows)).present)
    np.testing.assert_array_equal(rows[:, 0], factors[:, 0])
    np.testing.assert_allclose(found[present], expected[present], atol=1e-5)
    assert (found[~present] == 0).all()
    # Every fourth row and column of a crop of 192 is between pixels 4i + 1 and 4i + 2.
    crops = np.stack([one["image"][29:221, 64:256].astype(float) for one in features])
    fine = sum(crops[:, 1 + i :: 4, 1 + j :: 4] for i in (0, 1) for j in (0, 1)) / 4
    np.testing.assert_allclose(np.asarray(render(jnp.asarray(factors))).astype(int), fine, atol=0.51)
    masks = np.stack([one["mask"].argmax(0)[29:221, 64:256] for one in features])[:, 2::4, 2::4]
    np.testing.assert_array_equal(jax.jit(space.masks)(jnp.asarray(factors)), masks)
    order = np.array([3, 0, 3])
    np.testing.assert_array_equal(space.masks(jnp.asarray(factors[order])), masks[order])
    # The cache is used again; without its pictures, it is made again.
    again, other = jaxdis.data.clevr6(source=path, side=48, dtype="uint8")
    assert again == space
    lattice.path_of(next(lattice.directory().glob("*pictures.npy")).stem).unlink()
    _, third = jaxdis.data.clevr6(source=path, side=48, dtype="uint8")
    np.testing.assert_array_equal(third.tables[1], other.tables[1])
    loose, _ = jaxdis.data.clevr6(source=path, side=48, min_pixels=50)
    assert len(loose.listing.values) == 6


def test_slots_are_scored_on_scenes_of_all_objects(tmp_path, scenes):
    _, features = scenes
    path = write(tmp_path / "clevr.tfrecords", features)
    space, _ = jaxdis.data.clevr6(source=path, side=16)
    of = DATASETS["clevr6"].scenes
    drawn = of.draw(space, KEY, 12)
    assert (np.asarray(drawn)[:, 0] == 3).all()
    assert len(np.unique(np.asarray(drawn), axis=0)) == 2
    samples = of.samples(space, space.wrap(drawn))
    assert samples.masks.max() == 6
    with pytest.raises(ValueError, match="local_group: must be called on a data set that is rendered"):
        of.draw(space, KEY, 12, groups=2)


def two_masks(scene):
    scene["mask"][:, :8] = 255


def two_sizes(scene):
    scene["z"][1] = 0.5


def another_code(scene):
    scene["color"][2] = 9


def far_away(scene):
    scene["x"][1] = 3.5


def lost(scene):
    scene["visibility"][1] = 0


def short(scene):
    scene["rotation"] = scene["rotation"][:5]


def nothing_left(scene):
    scene["visibility"][3:] = 0
    scene["mask"][0] = 255 * (scene["mask"][1:3] == 0).all(0)
    scene["mask"][3:] = 0


def gray(scene):
    scene["image"] = np.tile(scene["image"].mean(2, keepdims=True), 3).astype(np.uint8)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (two_masks, r"has 3.3% of pixels that are not in one mask; needs at most 1%"),
        (two_sizes, "holds height above its size"),
        (another_code, "holds color . to 9; needs 1 to 8"),
        (far_away, "holds x .* to 3.5; needs -3 to 3"),
        (lost, "must have visible entities first"),
        (short, r"needs 11 values 'rotation', float32; got \(5,\)"),
        (nothing_left, "holds no scene of 3 to 6 objects that all show 200 pixels"),
        (gray, "shows colors .* away from those of CLEVR"),
    ],
)
def test_spoiled_scenes_are_refused(tmp_path, cache, scenes, spoil, message):
    scene = {name: np.copy(array) for name, array in scenes[1][0].items()}
    spoil(scene)
    path = write(tmp_path / "clevr.tfrecords", [scene])
    with pytest.raises(ValueError, match=message):
        files.read(path, 16)
    assert not list(cache.glob("*.npy"))


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match="clevr_with_masks_train.tfrecords"):
        jaxdis.data.clevr6(source="nowhere.tfrecords")


def test_colors_are_told_apart_in_the_light_of_the_scene():
    """Mean colors that light and mirrors have changed are matched to the palette."""
    palette = np.array(clevr.PALETTE) / 255
    shown = np.zeros((256, 4))
    for code, color in zip(CODE_OF_COLOR, palette, strict=True):
        lit = clevr.GROUND * 0.3 * (0.7 * color + 0.1) * [1.05, 1, 0.95]
        shown[code] = [*(10 * lit), 10]
    objects = np.zeros((8, 6, 9), np.float32)
    objects[:, 0, 0] = np.arange(1, 9)
    rows = np.concatenate([np.zeros((8, 1), np.float32), objects.reshape(8, -1)], 1)
    found = files._with_colors(Path("somewhere"), rows, shown)[:, 1:4]
    np.testing.assert_allclose(found[CODE_OF_COLOR - 1], palette, atol=1e-6)
