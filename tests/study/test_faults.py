"""A full disk, locks left behind, names from hell: one clear error, nothing lost, nothing outside the directory."""

import concurrent.futures.process
import dataclasses
import errno
import subprocess
import sys

import pytest

from jaxdis._core import store
from jaxdis._core.store import Store
from jaxdis.metrics import METRICS
from jaxdis.study import _compute_cells as compute
from jaxdis.study._run_study import run
from jaxdis.study.report._report import write_report
from tests.study.tiny import tiny

NASTY = ("../../x", "<script>alert(1)</script>", "größe ☃ \u202e", "a" * 5000, "-rf", "q\"uo'te&", "x\n,y")


def test_a_lock_is_held_by_one_and_ends_with_its_process(tmp_path):
    path = store.lock_of(tmp_path / "partial" / "batch")
    with store.locked(path) as first, store.locked(path, wait=False) as second:
        assert (first, second) == (True, False)
    with store.locked(path, wait=False) as third:
        assert third
    program = "import sys, time; from pathlib import Path; from jaxdis._core import store as _store\n"
    program += "with _store.locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with store.locked(path, wait=False) as fourth:
            assert not fourth
        holder.kill()
    with store.locked(path, wait=False) as fifth:
        assert fifth


def test_what_another_version_began_to_train_starts_over(tiny_folder, tmp_path, monkeypatch):
    study, train_in, started = tiny(), compute._train_in, []

    def after_another(partial, *rest):
        if not started:
            partial.mkdir(parents=True, exist_ok=True)
            (partial / "run.json").write_text('{"config": "of another version"}')
        started.append(partial)
        train_in(partial, *rest)

    expected = (tiny_folder / "results.csv").read_bytes()
    monkeypatch.setattr(compute, "_train_in", after_another)
    with pytest.warns(UserWarning, match="training starts over: .* holds another run"):
        assert run(study, tmp_path / "resumed").read_bytes() == expected
    assert started[0] == started[1]


def test_two_drivers_in_one_folder_train_no_batch_twice(tmp_path, monkeypatch):
    study, trained, train_in = tiny(steps=40, seeds=3), [], compute._train_in
    monkeypatch.setattr(
        compute, "_train_in", lambda partial, *rest: (trained.append(partial), train_in(partial, *rest))
    )
    expected = run(study, tmp_path / "alone").read_bytes()
    alone = len(trained)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run, study, tmp_path / "shared") for _ in range(2)]
    assert [future.result().read_bytes() for future in both] == [expected, expected]
    assert len(trained) == 2 * alone
    assert not list((tmp_path / "shared" / "partial").iterdir())


def test_metric_and_study_names_stay_in_their_directory_and_are_escaped(tmp_path):
    metrics = dict(
        zip(NASTY, [METRICS["mig"].with_options(bins=bins) for bins in range(5, 5 + len(NASTY))], strict=True)
    )
    study = dataclasses.replace(tiny(metrics=metrics), name=NASTY[1], title="".join(NASTY))
    out = tmp_path / "study"
    table = run(study, out)
    page = write_report(study, out).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.count("<script>") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"study"}
    for path in out.rglob("*"):
        assert len(path.name) < 40
        assert path.resolve().is_relative_to(out.resolve())
    assert len(table.read_text().splitlines()) >= 4


def test_folders_of_killed_drivers_go_when_the_study_is_complete(cells_copied, tmp_path):
    out = tmp_path / "study"
    for name in ("0" * 16, "1" * 16):
        (out / "partial" / name).mkdir(parents=True)
    store.lock_of(out / "partial" / ("0" * 16)).touch()
    with store.locked(store.lock_of(out / "partial" / ("1" * 16))):
        run(tiny(), out)
    assert sorted(path.name for path in (out / "partial").iterdir()) == ["1" * 16, "1" * 16 + ".lock"]


@pytest.mark.skipif(store.fcntl is None, reason="no locks to go without")
def test_two_drivers_in_one_folder_without_locks_exchange_no_records(tmp_path, monkeypatch):
    study = tiny(steps=40, seeds=3)
    expected = run(study, tmp_path / "alone").read_bytes()

    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store.fcntl, "flock", refuse)
    for attempt in range(2):
        out = tmp_path / f"shared{attempt}"
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            tables = [future.result() for future in [pool.submit(run, study, out) for _ in range(2)]]
        assert {table.read_bytes() for table in tables} == {expected}
        assert list(Store(out).verify()) == []


@pytest.mark.parametrize("writes", [2, 9])
def test_a_disk_that_fills_up_is_one_clear_error_and_the_directory_carries_on(
    tiny_folder, tmp_path, monkeypatch, writes
):
    expected = (tiny_folder / "results.csv").read_bytes()
    left = [writes]

    def fill(_):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "study"
    with monkeypatch.context() as patch:
        patch.setattr("jaxdis._core.files.os.fsync", fill)
        with pytest.raises(OSError, match=f"No space left on device in {out}; what is finished is kept") as full:
            run(tiny(), out)
    assert full.value.errno == errno.ENOSPC
    assert not list(out.rglob("*.tmp"))
    assert run(tiny(), out).read_bytes() == expected
    assert list(Store(out).verify()) == []


class Failing(concurrent.futures.Executor):
    """Rounds that fail, then rounds that do what they are told."""

    def __init__(self, error: Exception, calls: int):
        self.error, self.calls = error, calls

    def submit(self, function, *arguments):
        future = concurrent.futures.Future()
        self.calls -= 1
        future.set_exception(self.error) if self.calls >= 0 else future.set_result(function(*arguments))
        return future


def test_a_full_disk_under_workers_is_the_same_error(tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="what is finished is kept: make room and run again"):
        run(tiny(), tmp_path, executor=Failing(error, 99))


def test_bad_input_under_workers_is_the_same_error(tmp_path):
    with pytest.raises(ValueError, match="factors: needs"):
        run(tiny(), tmp_path, executor=Failing(ValueError("factors: needs two classes, got one"), 99))


def test_a_first_round_that_a_killed_worker_took_along_is_tried_again(cells_copied, tiny_folder, tmp_path):
    error = concurrent.futures.process.BrokenProcessPool("a process was terminated abruptly")
    found = run(tiny(), tmp_path, executor=Failing(error, 2))
    assert found.read_bytes() == (tiny_folder / "results.csv").read_bytes()
    with pytest.raises(RuntimeError, match="made no progress; the last failure: a process was terminated") as stop:
        run(tiny(), tmp_path / "never", executor=Failing(error, 99))
    assert stop.value.__cause__ is error
