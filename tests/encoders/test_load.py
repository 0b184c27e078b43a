"""Codes and factors of files and zoos, in Python as in the shell."""

import numpy as np
import pytest

import jaxdis
from jaxdis import models

CODES = np.random.default_rng(0).normal(size=(3, 40, 2)).astype(np.float32)
LABELS = np.arange(40)[:, None] % [2, 3]


def save(folder, name, codes, **others):
    np.savez(folder / name, codes=codes, **others)


def test_files_of_one_member_become_a_zoo_with_their_names(tmp_path):
    for seed, codes in enumerate(CODES):
        save(tmp_path, f"seed{seed}.npz", codes, factors=LABELS, names=["shape", "size"])
    codes, factors, names = jaxdis.load(f"{tmp_path}/*.npz")
    np.testing.assert_array_equal(codes, CODES)
    np.testing.assert_array_equal(np.asarray(factors.values), LABELS)
    assert names == ("seed0.npz", "seed1.npz", "seed2.npz")
    alone = jaxdis.load(tmp_path / "seed1.npz")
    np.testing.assert_array_equal(alone.codes, CODES[1])
    assert alone.names == ("seed1.npz",)
    save(tmp_path, "zoo.npz", CODES[:2], factors=LABELS, names=["shape", "size"])
    both = jaxdis.load([tmp_path / "zoo.npz", tmp_path / "seed2.npz"])
    np.testing.assert_array_equal(both.codes, CODES)
    assert both.names == ("zoo.npz[0]", "zoo.npz[1]", "seed2.npz")


def test_factors_may_be_given_or_in_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "codes.npy", CODES[0])
    (tmp_path / "labels.csv").write_text("shape\n" + "\n".join(["NA", *["heart", "square"] * 19, "heart"]))
    table = jaxdis.Factors.from_table(tmp_path / "labels.csv", missing="drop")
    codes, factors, _ = jaxdis.load(tmp_path / "codes.npy", table)
    np.testing.assert_array_equal(codes, CODES[0, 1:])
    assert factors.classes == (("heart", "square"),)
    np.save(tmp_path / "labels.npy", LABELS)
    assert jaxdis.load(tmp_path / "codes.npy", tmp_path / "labels.npy").factors.sizes == (2, 3)


def test_files_that_are_no_zoo_are_refused_with_the_way_out(tmp_path):
    save(tmp_path, "a.npz", CODES[0], factors=LABELS)
    save(tmp_path, "b.npz", CODES[0, :, :1], factors=LABELS)
    save(tmp_path, "c.npz", CODES[0], factors=LABELS[::-1])
    with pytest.raises(ValueError, match=r"b.npz: must hold codes of the shape \(40, 2\) .*by jaxdis.stack"):
        jaxdis.load([tmp_path / "a.npz", tmp_path / "b.npz"])
    with pytest.raises(ValueError, match="c.npz: must hold the same factors as .*a.npz, got others"):
        jaxdis.load([tmp_path / "a.npz", tmp_path / "c.npz"])
    with pytest.raises(ValueError, match="none.npz: no such file"):
        jaxdis.load("none.npz")
    with pytest.raises(ValueError, match="paths: must be a path, a pattern or several of these, got 3"):
        jaxdis.load(3)


def test_a_zoo_encodes_images_of_its_data(tmp_path):
    config = models.Config("hearts", method=models.Vae(network=models.Mlp((8,), num_codes=2)), steps=2)
    zoo = models.train(config, *models.members({"beta": {"beta": (1, 4)}}, seeds=1))
    zoo.save(tmp_path / "zoo.npz")
    codes, factors, names = jaxdis.load(tmp_path, samples=50, key=1)
    assert codes.shape == (2, 50, 2)
    assert factors.num_samples == 50
    assert names == ("beta, beta=1.0, seed=0", "beta, beta=4.0, seed=0")
    again = jaxdis.load(tmp_path / "zoo.npz", samples=50, key=1)
    np.testing.assert_array_equal(again.codes, codes)
