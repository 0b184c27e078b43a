"""Contact sheets and the table of data sets."""

import jax
import numpy as np
import pytest
from PIL import Image
from publishers import synthetic_painting

import jaxdis.data
from jaxdis.data import DATASETS
from jaxdis.data import _datasets as show

LIGHT = [name for name, row in DATASETS.items() if row.renders and name != "shapes3d"]


@pytest.mark.parametrize("name", LIGHT)
def test_rows_that_render_do_so_as_they_say(name):
    row = DATASETS[name]
    space, render = row.make(dtype="uint8")
    assert (space, render.shape, render.source) == (row.space, row.shape, "procedural")
    images = jax.jit(render)(space.sample(jax.random.key(0), 2), jax.random.key(1))
    assert images.shape == (2, *row.shape)


def test_a_sheet_traverses_one_factor_a_row():
    space, render = jaxdis.data.dsprites(dtype="uint8")
    key = jax.random.key(5)
    sheet = show.contact_sheet(space, render, key, columns=8)
    assert sheet.shape == (2 + 5 * 66, 2 + 8 * 66, 3)
    factors = show.traversals(space, jax.random.split(key)[0], 8)
    center = np.asarray(space.sample(jax.random.split(key)[0], 1))[0]
    for row, size in enumerate(space.sizes):
        others = [column for column in range(5) if column != row]
        np.testing.assert_array_equal(factors[row][:, others], np.tile(center[others], (8, 1)))
        assert factors[row, 0, row] == 0
        assert factors[row, -1, row] == size - 1
        for column in range(8):
            tile = sheet[2 + 66 * row : 66 * (row + 1), 2 + 66 * column : 66 * (column + 1)]
            if column < size:
                np.testing.assert_array_equal(tile, np.broadcast_to(render(factors[row, column]), (64, 64, 3)))
            else:
                assert (tile == 128).all()


def test_a_sheet_of_scenes_shows_all_objects():
    space, _ = jaxdis.data.multi_dsprites(2)
    rows = show.traversals(space, jax.random.key(0))
    assert (rows[1:, :, 0] == 1).all()
    assert rows[0, :, 0].tolist()[:2] == [0, 1]


def test_a_sheet_is_saved_as_png(tmp_path):
    show.save_sheet("color_dsprites", tmp_path / "sheet.png", zoom=2)
    with Image.open(tmp_path / "sheet.png") as file:
        picture = np.asarray(file)
    space, render = jaxdis.data.color_dsprites()
    sheet = show.contact_sheet(space, render, jax.random.key(0))
    np.testing.assert_array_equal(picture, sheet.repeat(2, 0).repeat(2, 1))


def test_a_sheet_from_a_source(tmp_path):
    painting = (synthetic_painting() * 255).astype(np.uint8)
    Image.fromarray(painting).save(tmp_path / "painting.png")
    show.save_sheet("scream_dsprites", tmp_path / "sheet.png", source=tmp_path / "painting.png")
    with Image.open(tmp_path / "sheet.png") as picture:
        assert picture.size == (2 + 12 * 66, 2 + 5 * 66)


@pytest.mark.parametrize(
    ("name", "source", "kind", "message"),
    [
        ("dspirtes", None, ValueError, "unknown data set 'dspirtes'; did you mean 'dsprites'"),
        ("hearts", "x", ValueError, "reads no file"),
        ("cars3d", "absent", FileNotFoundError, "nips2015-analogy-data.tar.gz"),
    ],
)
def test_what_cannot_be_shown_is_refused(tmp_path, name, source, kind, message):
    with pytest.raises(kind, match=message):
        show.save_sheet(name, tmp_path / "sheet.png", source=source)
    assert not (tmp_path / "sheet.png").exists()
