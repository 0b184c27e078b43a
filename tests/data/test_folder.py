"""Pictures in a folder: which row is which picture, sizes, and what is done with them."""

import csv

import jax
import numpy as np
import pytest
from PIL import Image

import jaxdis
from jaxdis.cli import main

N, SIDE = 60, 8
RNG = np.random.default_rng(0)
SHADE, ROW = RNG.integers(1, 5, N), RNG.integers(0, SIDE, N)
NAMES = ["dim", "dark", "light", "bright"]


def picture(number):
    image = np.zeros((SIDE, SIDE), np.uint8)
    image[ROW[number]] = 60 * SHADE[number]
    return image


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pictures under names that are not in the order of the rows."""
    place = tmp_path_factory.mktemp("own")
    (place / "images").mkdir()
    names = [f"{number:03d}" for number in np.random.default_rng(1).permutation(N)]
    for number, name in enumerate(names):
        Image.fromarray(picture(number)).save(place / "images" / f"{name}.png")
    with (place / "labels.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "shade", "row"])
        rows.writerows([f"{name}.png", NAMES[SHADE[i] - 1], ROW[i] if i else "NA"] for i, name in enumerate(names))
    return place


def test_rows_belong_to_the_pictures_that_they_name(place):
    space, render = jaxdis.data.folder(place / "images", place / "labels.csv", missing="drop")
    numbers = np.arange(N - 1)[:, None]
    images = np.asarray(render(numbers))
    assert images.shape == (N - 1, SIDE, SIDE, 1)
    np.testing.assert_allclose(images[..., 0] * 255, [picture(number) for number in range(1, N)], atol=1e-4)
    np.testing.assert_array_equal(np.asarray(jax.jit(render)(numbers)), images)
    factors = space.wrap(numbers)
    assert factors.names == ("shade", "row")
    assert factors.classes[0] == ("bright", "dark", "dim", "light")
    shades = [factors.classes[0][number] for number in np.asarray(factors.values)[:, 0]]
    assert shades == [NAMES[shade - 1] for shade in SHADE[1:]]


def test_without_names_rows_belong_to_files_in_order(tmp_path):
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", picture(number) / 255.0)
    space, render = jaxdis.data.folder(tmp_path, {"shade": [1, 1, 2, 2]}, dtype="uint8")
    np.testing.assert_array_equal(np.asarray(render(np.arange(4)[:, None]))[..., 0], [picture(i) for i in range(4)])
    np.testing.assert_array_equal(np.asarray(space.wrap(np.array([[2], [0]])).values), [[1], [0]])


def read(images):
    images = np.asarray(images)[..., 0]
    return np.stack([images.max((1, 2)), images.max(2) @ np.arange(SIDE) / images.max((1, 2))], axis=1)


def test_an_encoder_is_scored_on_pictures_that_do_not_repeat(place):
    data, seen = jaxdis.data.folder(place / "images", place / "labels.csv", missing="drop"), []

    def encode(images):
        seen.append(np.array(images))
        return read(images)

    scores = jaxdis.evaluate_encoder(encode, data, "mcc", 0)
    assert scores["mcc"] > 0.6
    assert scores.factor_names == ("shade", "row")
    assert sum(map(len, seen)) >= N - 1
    space = data[0]
    rows, held_out = space.split(jax.random.key(0), 10_000, 5_000)
    assert (len(rows), len(held_out)) == (39, 20)
    assert len(np.unique(np.concatenate([rows, held_out]))) == N - 1
    with pytest.raises(ValueError, match="metrics: must not intervene in stored pictures, got irs; leave these out"):
        jaxdis.evaluate_encoder(read, data, ("mig", "irs"))


def test_the_command_trains_on_pictures_and_encodes_and_scores_them(place, tmp_path, capsys):
    with (place / "whole.csv").open("w") as file:
        csv.writer(file).writerows([["size"], *([number % 3] for number in range(N))])
    given = ["--data", f"folder:{place / 'images'}", "--factors", str(place / "whole.csv")]
    small = ["--steps", "2", "--network", "mlp", "--out", str(tmp_path / "zoo")]
    assert main(["train", *given, *small]) == 0
    assert main(["encode", str(tmp_path / "zoo"), *given, "--out", str(tmp_path / "codes.npz")]) == 0
    codes, factors, _ = jaxdis.load(tmp_path / "codes.npz")
    assert codes.shape[:2] == (1, N)
    np.testing.assert_array_equal(np.asarray(factors.values)[:, 0], np.arange(N) % 3)
    scored = ["score", str(tmp_path / "zoo"), "--metrics", "mig"]
    assert main([*scored, *given, "--csv", str(tmp_path / "scores.csv")]) == 0
    (row,) = csv.DictReader((tmp_path / "scores.csv").read_text().splitlines())
    assert 0 <= float(row["mig"]) <= 1
    assert main(scored) == 2
    assert "--data: must be given for a zoo that was trained on folder:" in " ".join(capsys.readouterr().err.split())
    assert main([*scored, "--data", "dsprites"]) == 2
    assert "--data: must be folder:PATH" in " ".join(capsys.readouterr().err.split())
    assert main(["score", str(tmp_path / "codes.npz"), "--metrics", "mig", *given[:2]]) == 2
    assert "--data: goes with a zoo" in capsys.readouterr().err
    assert main(["train", *given[:2], *small]) == 2
    assert "--factors: must name a table with a row for each picture" in capsys.readouterr().err


def test_what_is_no_folder_of_pictures_is_refused(place, tmp_path):
    labels = place / "labels.csv"
    with pytest.raises(ValueError, match="images: must be a folder of pictures, got"):
        jaxdis.data.folder(labels, labels)
    with pytest.raises(ValueError, match="images: must be a folder of .png, .jpg"):
        jaxdis.data.folder(tmp_path, labels)
    np.save(tmp_path / "a.npy", picture(0))
    with pytest.raises(ValueError, match="labels: must have a row for each of the 1 pictures, or .* got 60 rows"):
        jaxdis.data.folder(tmp_path, labels, columns=["shade"])
    np.save(tmp_path / "b.npy", picture(0)[1:])
    with pytest.raises(ValueError, match="b.npy: must be of the size of a.npy, 8 × 8, got 7 × 8; resize"):
        jaxdis.data.folder(tmp_path, {"shade": [0, 1]})
    (tmp_path / "b.npy").unlink()
    (tmp_path / "b.png").write_text("no picture")
    with pytest.raises(ValueError, match="b.png: must be a picture, got a damaged file or another one"):
        jaxdis.data.folder(tmp_path, {"shade": [0, 1]})
    with pytest.raises(ValueError, match="images: must hold the files of column file, got no 'c.npy'"):
        jaxdis.data.folder(tmp_path, {"file": ["a.npy", "c.npy"], "shade": [0, 1]})


def test_frames_of_a_video_are_held_out_together(tmp_path):
    shade = np.random.default_rng(0).integers(0, 2, 12).repeat(10)
    for number, value in enumerate(shade):
        np.save(tmp_path / f"{number:03}.npy", np.full((4, 4), 100 * value + number, np.uint8))
    data, video = jaxdis.data.folder(tmp_path, {"shade": shade.tolist()}), np.arange(12).repeat(10)

    def encode(images):
        return images.reshape(len(images), -1)[:, :1]

    scores = jaxdis.evaluate_encoder(encode, data, "r2_linear", groups=video)
    whole = jaxdis.evaluate_encoder(encode, data, "r2_linear", groups=[f"video {number:02}" for number in video])
    assert scores["r2_linear"] == whole["r2_linear"]
    assert scores.evaluation["groups"]["count"] == 12
    assert scores.evaluation["samples"] == 120
    with pytest.raises(ValueError, match="groups: must be left out for images that are drawn"):
        jaxdis.evaluate_encoder(encode, "hearts", "r2_linear", groups=video)
