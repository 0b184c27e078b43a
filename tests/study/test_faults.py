"""A full disk, leases left behind, names from hell: one clear error, nothing lost, nothing outside the directory."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxdis.metrics import METRICS
from jaxdis.study import leases
from jaxdis.study.report import write_report
from jaxdis.study.run import run
from jaxdis.study.store import Store
from tests.study.tiny import tiny

NASTY = ("../../x", "<script>alert(1)</script>", "größe ☃ \u202e", "a" * 5000, "-rf", "q\"uo'te&", "x\n,y")


@pytest.fixture
def small_disk(tmp_path):
    """Grow a file system of its own: ``small_disk(kilobytes)``."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def grow(kilobytes: int) -> Path:
        how = f"size={kilobytes}k" + (",remount" if mounted else "")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", how, "tmpfs", str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"needs the right to mount: {done.stderr}")
        mounted.append(folder)
        return folder

    yield grow
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_the_directory_carries_on(small_disk, tmp_path):
    expected = run(tiny(), tmp_path / "whole").read_bytes()
    for kilobytes in (40, 500, 800):
        out = small_disk(kilobytes) / "study"
        with pytest.raises(OSError, match="No space left on device") as full:
            run(tiny(), out)
        assert "run again" in str(full.value)
        assert not list(out.rglob("*.tmp"))
    small_disk(50_000)
    assert run(tiny(), out).read_bytes() == expected
    assert list(Store(out).verify()) == []


def test_a_full_disk_on_the_command_line(small_disk):
    out = small_disk(40) / "study"
    command = [sys.executable, "-m", "jaxdis", "study", "run", "quickstart", "--out", str(out), "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("jaxdis: [Errno 28] No space left on device")
    assert "Traceback" not in done.stderr


def test_a_lease_of_a_dead_process_or_an_old_one_is_taken_over(tmp_path):
    folder = tmp_path / "partial" / "batch"
    with leases.claimed(folder) as first, leases.claimed(folder) as second:
        assert first == folder
        assert second != folder  # this process lives
        leases.lease_of(folder).write_text("elsewhere 1")
        with leases.claimed(folder) as third:
            assert third != folder  # another host's: it may live
        old = time.time() - leases.EXPIRES_AFTER_SECONDS - 1
        os.utime(leases.lease_of(folder), (old, old))
        leases.renew(folder)
        with leases.claimed(folder) as fourth:
            assert fourth != folder  # renewed
        os.utime(leases.lease_of(folder), (old, old))
        with leases.claimed(folder) as fifth:
            assert fifth == folder
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    leases.lease_of(folder).write_text(f"{leases.socket.gethostname()} {gone.pid}")
    with leases.claimed(folder) as sixth:
        assert sixth == folder
    assert not leases.lease_of(folder).exists()


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


@pytest.mark.parametrize("name", [*NASTY, "__class__", "synthetic"])
def test_a_data_name_is_looked_up_in_the_table_alone(name):
    training = tiny().trainings[0]
    bad = dataclasses.replace(training, config=dataclasses.replace(training.config, data=name))
    with pytest.raises(ValueError, match="data: needs one of"):
        dataclasses.replace(tiny(), trainings=(bad,))


def test_factor_names_are_escaped(tmp_path, monkeypatch):
    from jaxdis.data import DATASETS
    from jaxdis.study import make

    out = tmp_path / "study"
    run(tiny(), out)
    row = DATASETS["dsprites"]
    named = dataclasses.replace(row.space, names=NASTY[: len(row.space.names)])
    renamed = dataclasses.replace(row, space=named, make=lambda **options: (named, row.make(**options)[1]))
    monkeypatch.setitem(make.DATASETS, "dsprites", renamed)
    page = write_report(tiny(), out).read_text(encoding="utf-8")
    assert "<script>alert" not in page
