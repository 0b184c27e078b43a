"""A study from nothing to its table; again after failures; the same bytes every time."""

import csv
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jaxdis.study._run_study as module
from jaxdis import METRICS
from jaxdis._core.files import read_csv_columns
from jaxdis._core.store import Store, StoreError
from jaxdis.study import _compute_cells as compute
from jaxdis.study._definition import Sampling, Study, cells
from jaxdis.study._run_study import run, status
from jaxdis.study._trained_work import TrainedWork, plan
from tests.study.tiny import tiny

EVERY = tiny().trainings[0].config.method.log_every


@pytest.fixture(scope="module")
def finished(tiny_copy):
    return tiny_copy, (tiny_copy / "results.csv").read_bytes()


def test_every_member_has_a_row_with_its_settings_losses_and_scores(finished):
    out, table = finished
    rows = list(csv.DictReader(table.decode().splitlines()))
    assert [row["model"] for row in rows] == ["beta"] * 4 + ["dip_ii"] * 2
    assert [row["beta"] and float(row["beta"]) for row in rows] == [1, 1, 4, 4, "", ""]
    for row in rows:
        assert float(row["mig"]) >= 0
        assert float(row["final_reconstruction"]) > 0
        assert row["stopped"] == "-1.0"
        assert (row["train_samples"], row["test_samples"]) == ("64", "32")
    assert status(tiny(), out).complete


def test_cells_have_distinct_ids_that_do_not_depend_on_the_other_cells():
    few, many = list(cells(tiny(seeds=1))), list(cells(tiny(metrics=("mig", "med", "modularity"))))
    assert len({member.train for member in many}) == 6
    by_label = {str(member.label): member for member in many}
    for member in few:
        twin = by_label[str(member.label)]
        assert (member.train, member.encode) == (twin.train, twin.encode)
        assert twin.scores[:2] == member.scores
    assert {member.train for member in cells(tiny(steps=4))}.isdisjoint(member.train for member in few)


def test_running_again_makes_nothing(finished, monkeypatch):
    out, table = finished
    monkeypatch.setattr(module, "run_batch", lambda *_, **__: pytest.fail("a finished cell ran again"))
    assert run(tiny(), out).read_bytes() == table


def test_a_lost_or_damaged_score_is_made_again_with_the_same_bytes(finished):
    out, table = finished
    store = Store(out)
    names = sorted(store.ids("score"))
    store.path("score", names[0]).unlink()
    damaged = store.path("score", names[1])
    damaged.write_text(damaged.read_text().replace('"columns"', '"colums"'))
    assert len(list(store.verify())) == 1
    assert run(tiny(), out).read_bytes() == table


def test_adding_a_metric_trains_nothing(finished, tmp_path, monkeypatch):
    out = shutil.copytree(finished[0], tmp_path / "out")
    monkeypatch.setattr(compute.models, "train", lambda *_, **__: pytest.fail("trained again"))
    wider = tiny(metrics=("mig", "med", "modularity"))
    with pytest.raises(StoreError, match="holds a study that differs: metrics.modularity"):
        run(wider, out)
    rows = list(csv.DictReader(run(wider, out, extend=True).read_text().splitlines()))
    assert all(float(row["modularity"]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"metrics": ("modularity",)}, "metrics.med is .*, asked for null"),
        ({"steps": 4}, "6 of its trained members are not in the study"),
        ({"sampling": Sampling(128, 64)}, "sampling.train is 64, asked for 128"),
    ],
    ids=["metrics", "steps", "sampling"],
)
def test_what_would_lose_results_is_no_extension(other, words, finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "out")
    kept = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for act in (run, status, plan):
        with pytest.raises(StoreError, match=f"not a smaller version of this one: .*{words}"):
            act(tiny(**other), out, extend=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == kept


def test_the_table_is_derived(finished):
    out, table = finished
    (out / "results.csv").unlink()
    assert run(tiny(), out).read_bytes() == table


PROGRAM = """
import sys, jax
from jaxdis._core import runtime
runtime.use_cpu_devices(2); runtime.use_compilation_cache()
jax.config.update("jax_numpy_dtype_promotion", "strict"); jax.config.update("jax_numpy_rank_promotion", "raise")
from jaxdis.study._run_study import run
from tests.study.tiny import tiny
run(tiny(steps=1000), sys.argv[1])
"""


def _process(out: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(out)], env={**os.environ, "PYTHONPATH": os.getcwd()})


def test_killed_at_random_moments_the_table_is_the_same(tmp_path):
    """SIGKILL at four random moments, each followed by a rerun of the same directory, which resumes its trainings."""
    draw = random.Random(0)
    started = time.monotonic()
    assert _process(tmp_path / "whole").wait() == 0
    whole = time.monotonic() - started
    for _ in range(4):
        process = _process(tmp_path / "killed")
        try:
            process.wait(timeout=draw.uniform(0.3, 1.0) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert _process(tmp_path / "killed").wait() == 0
    assert (tmp_path / "killed/results.csv").read_bytes() == (tmp_path / "whole/results.csv").read_bytes()
    assert list(Store(tmp_path / "killed").verify()) == []


def test_a_member_alone_is_a_zoo_of_one(finished):
    out, _ = finished
    study = tiny()
    member = next(iter(cells(study)))
    zoo = compute.member_zoo(study, Store(out), member)
    assert len(zoo) == 1
    arrays = Store(out).arrays("encode", member.encode)
    factors, _, _, render = compute.samples_of(study.trainings[0], study.sampling)
    np.testing.assert_array_equal(arrays["factors"], factors.values)
    np.testing.assert_allclose(zoo.encode(factors.values, render=render).mean[0], arrays["mean"], atol=1e-5)


def along(keep: tuple[int, ...]) -> Study:
    """Two blocks of updates, and members kept at the ends of some."""
    study = tiny()
    [training] = study.trainings
    longer = dataclasses.replace(training.config, steps=2 * EVERY)
    return dataclasses.replace(study, trainings=(dataclasses.replace(training, config=longer, keep=keep),))


def test_members_that_are_kept_along_training_are_scored(tmp_path):
    """The last ones are those of a study that keeps none; the first ones have never been trained."""
    table = read_csv_columns(run(along((0, EVERY)), tmp_path / "along"))
    alone = read_csv_columns(run(along(()), tmp_path / "alone"))
    np.testing.assert_array_equal(table["updates"], np.tile([0, EVERY, 2 * EVERY], len(alone["id"])))
    first, last = (table["updates"] == updates for updates in (0, 2 * EVERY))
    for name in alone:
        np.testing.assert_array_equal(table[name][last], alone[name])
    assert np.isnan(table["final_loss"][first]).all()
    assert (np.abs(table["mig"][last] - table["mig"][first]) > 1e-6).all()
    page = TrainedWork(along((0, EVERY))).report(Store(tmp_path / "along")).read_text()
    for words in ("Scores along training", "loss by updates", "MIG by updates"):
        assert words in page
    with pytest.raises(ValueError, match="keep: must be multiples of 100"):
        along((EVERY + 1,))


def test_progress_ends_at_the_number_of_cells(cells_copied, tmp_path):
    """Two names of one metric share a cell."""
    study = tiny(metrics={"mig": METRICS["mig"], "again": METRICS["mig"]})
    seen = {}
    run(study, tmp_path, progress=lambda kind, done: seen.update({kind: done}))
    assert seen == status(study, tmp_path).total == {"train": 6, "encode": 6, "score": 6}
