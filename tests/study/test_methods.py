"""Studies of methods that are not autoencoders."""

import csv

import jax
import numpy as np
import pytest

from jaxdis.cli import main
from jaxdis.models import METHODS, Config, Mlp, Pca, Vae, members, train
from jaxdis.models.training._image_source import as_source
from jaxdis.study import Sampling, Study, Training
from jaxdis.study._run_study import run
from jaxdis.study.report._report import write_report
from tests.models.methods.toy import ToyGan
from tests.study.tiny import mixed


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("mixed")
    return out, run(mixed(), out).read_bytes()


def test_components_and_autoencoders_share_a_table(finished):
    rows = list(csv.DictReader(finished[1].decode().splitlines()))
    assert [row["model"] for row in rows] == ["beta", "dip_ii", "pca", "pca"]
    assert [row["seed"] for row in rows] == ["0", "0", "0", "1"]
    assert [bool(row["final_kl"]) for row in rows] == [True, True, False, False]
    assert [bool(row["final_unexplained"]) for row in rows] == [False, False, True, True]
    assert 0 < float(rows[2]["final_unexplained"]) < 0.95
    for row in rows:
        assert 0 <= float(row["mig"]) <= 1
    assert float(rows[2]["mig"]) == pytest.approx(float(rows[3]["mig"]), abs=1e-3)


def test_the_report_shows_all_of_them(finished):
    page = write_report(mixed(), finished[0]).read_text()
    for words in ("unexplained by update", "reconstruction by update", "kl by update", ">pca<"):
        assert words in page


def test_a_toy_method_is_trained_scored_reported_and_shown_with_its_own_losses(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "toy_gan", ToyGan)
    training = Training.of(
        Config("dsprites", method=ToyGan(), steps=4),
        {"toy_gan": {"pull": (1.0, 3.0)}},
        2,
        pool=32,
    )
    study = Study.of("toys", [training], ["mig"], sampling=Sampling(60, 30))
    rows = list(csv.DictReader(run(study, tmp_path / "study").read_text().splitlines()))
    assert [row["pull"] for row in rows] == ["1.0", "1.0", "3.0", "3.0"]
    assert all(np.isfinite(float(row["final_critic"])) and np.isfinite(float(row["final_generator"])) for row in rows)
    page = write_report(study, tmp_path / "study").read_text()
    for words in ("critic by update", "generator by update", "Toy GAN, pull = 1"):
        assert words in page
    assert "reconstructions" not in page
    command = ["train", "--model", "toy_gan", "--model-option", "num_codes=3", "--steps", "4", "--seeds", "2"]
    assert main([*command, "--out", str(tmp_path / "zoo")]) == 0
    printed = capsys.readouterr()
    assert "trained for 4 updates: 2 members" in printed.out
    assert main([*command, "--out", str(tmp_path / "zoo")]) == 0
    assert "already complete" in capsys.readouterr().out


def test_a_study_is_extended_by_an_objective(tmp_path):
    """Members that both versions share are found by content, though their zoos were trained beside others."""

    def study(*objectives):
        config = Config(method=Vae(objectives, Mlp((8,), num_codes=3), batch_size=4), steps=2)
        training = Training.of(config, {name: {} for name in objectives}, 1, pool=32)
        return Study.of("grows", [training], ["mig"], sampling=Sampling(60, 30))

    [first] = csv.DictReader(run(study("beta"), tmp_path).read_text().splitlines())
    rows = list(csv.DictReader(run(study("beta", "dip_ii"), tmp_path, extend=True).read_text().splitlines()))
    assert [row["model"] for row in rows] == ["beta", "dip_ii"]
    assert rows[0]["id"] == first["id"]
    assert rows[0]["mig"] == first["mig"]


def test_settings_of_another_model_are_refused():
    components = Config("x", method=Pca(num_codes=2, passes=1))
    with pytest.raises(ValueError, match=r"hyperparameters: must be those of Pca \(none\), got others"):
        train(components, *members({"beta": {}}), data=np.zeros((4, 8, 8, 1)))


def test_labelled_examples_come_from_a_fixed_part_if_asked():
    images = np.arange(40, dtype=np.float32).reshape(40, 1, 1, 1) / 40
    source = as_source((images, np.arange(40)[:, None]))
    for among, most in ((None, 39), (5, 4)):
        drawn, factors = source.examples(jax.random.key(0), 200, among)
        assert int(factors.max()) == most
        np.testing.assert_allclose(drawn[:, 0, 0, 0], factors[:, 0] / 40, rtol=1e-6)
