"""Data sets that draw noise for every image go through every kind of cell."""

import csv

import numpy as np
import pytest

from jaxdis.models import Config, Mlp, Vae
from jaxdis.study import Sampling, Store, Study, Training
from jaxdis.study._run_study import run
from jaxdis.study.report._report import write_report


@pytest.mark.parametrize(("pool", "held_out"), [(None, None), (32, {"shape": 1, "scale": 3})], ids=["anew", "pool"])
@pytest.mark.parametrize("data", ["color_dsprites", "noisy_dsprites"])
def test_a_noisy_set_is_trained_encoded_and_scored(data, pool, held_out, tmp_path):
    config = Config(data=data, method=Vae(network=Mlp((8,), num_codes=3), batch_size=4), steps=2)
    training = Training.of(config, {"beta": {"beta": (1, 4)}}, 1, pool=pool, held_out=held_out)
    study = Study.of("noisy", [training], ("mig", "med"), sampling=Sampling(64, 32))
    rows = list(csv.DictReader(run(study, tmp_path / "a").read_text().splitlines()))
    assert [row["data"] for row in rows] == [data, data]
    assert all(np.isfinite(float(row["mig"])) for row in rows)
    assert list(Store(tmp_path / "a").verify()) == []
    if pool is None:
        write_report(study, tmp_path / "a")
        assert run(study, tmp_path / "b").read_bytes() == (tmp_path / "a/results.csv").read_bytes()
