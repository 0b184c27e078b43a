"""Engines: a study runs on workers, survives their deaths and that of the scheduler, and listens on loopback alone."""

import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from jaxdis._core.files import read_csv
from jaxdis._core.store import Store
from jaxdis.study import _given_codes as given_codes
from jaxdis.study._executors import Processes, opened
from jaxdis.study._run_study import run, status
from tests.study.test_given_codes import files_of, given_of, write_zoo
from tests.study.tiny import tiny

dask = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return read_csv(run(tiny(), tmp_path_factory.mktemp("here")))


def assert_same(found: list[dict], expected: list[dict]) -> None:
    """The same members; their numbers to float32 rounding, since workers have another number of devices."""
    assert [row["id"] for row in found] == [row["id"] for row in expected]
    for a, b in zip(found, expected, strict=True):
        for name in ("final_reconstruction", "mig", "med.disentanglement"):
            assert float(a[name]) == pytest.approx(float(b[name]), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "processes",
        "processes:0",
        "processes:²",
        "processes:100000",
        "dask://x",
        "dask://:8786",
        "dask://x:99999",
        "ray:1",
    ],
)
def test_another_name_is_refused(name):
    with pytest.raises(ValueError, match="processes:COUNT or dask://HOST:PORT"), opened(name):
        pass


def test_processes_make_the_study(expected, tmp_path):
    with opened("processes:2") as executor:
        assert_same(read_csv(run(tiny(), tmp_path, executor=executor)), expected)


def _die_once(flag: Path) -> str:
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def test_a_pool_that_a_dead_worker_broke_is_begun_anew(tmp_path):
    executor = Processes(1)
    with pytest.raises(concurrent.futures.process.BrokenProcessPool):
        executor.submit(_die_once, tmp_path / "flag").result()
    assert executor.submit(_die_once, tmp_path / "flag").result() == "alive"
    executor.shutdown()


def test_each_process_has_its_own_accelerator(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    executor = Processes(2)
    found = list(executor.map(_device_and_wait, [1.0, 1.0]))
    executor.shutdown()
    assert sorted(found) == ["3", "5"]


def _device_and_wait(seconds: float) -> str:
    time.sleep(seconds)  # so that both workers take one
    return os.environ["CUDA_VISIBLE_DEVICES"]


class Cluster:
    """A Dask scheduler and workers as processes of their own, on loopback."""

    def __init__(self, folder: Path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.workers = folder, []
        self.scheduler = None

    @property
    def name(self) -> str:
        return f"dask://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")

    def start_worker(self) -> None:
        address = f"tcp://127.0.0.1:{self.port}"
        how = ("--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny")
        self.workers.append(self._start("worker", address, *how))

    def replace_worker(self) -> None:
        """Kill the first worker, and start another."""
        self.workers[0].kill()
        self.start_worker()

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()

    def _start(self, *arguments: str) -> subprocess.Popen:
        environment = {**os.environ, "PYTHONPATH": os.getcwd(), "DASK_TEMPORARY_DIRECTORY": str(self.folder)}
        command = [sys.executable, "-m", "dask", *arguments]
        with open(self.folder / "log.txt", "a") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


@pytest.fixture
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.start_scheduler()
    cluster.start_worker()
    yield cluster
    cluster.stop()


@contextlib.contextmanager
def when_trained(out: Path, act, kind: str = "train"):
    """Do something once the first member is trained (or scored), while the study runs."""
    store = Store(out)

    def watch():
        deadline = time.monotonic() + 120
        while not store.ids(kind) and time.monotonic() < deadline:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()


def test_a_dask_worker_killed_mid_run(expected, tmp_path, cluster):
    with when_trained(tmp_path, cluster.replace_worker), opened(cluster.name) as executor:
        path = run(tiny(), tmp_path, executor=executor)
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert_same(read_csv(path), expected)
    assert list(Store(tmp_path).verify()) == []


def test_files_are_scored_though_a_dask_worker_is_killed(tmp_path, cluster, monkeypatch):
    zoo, out = write_zoo(tmp_path / "zoo", 24), tmp_path / "out"
    monkeypatch.setattr("jaxdis.study._given_codes.MOST_FILES", 8)
    here = given_codes.score_given(given_of(tmp_path / "here"), files_of(zoo))

    with when_trained(out, cluster.replace_worker, "score"), opened(cluster.name) as executor:
        found = given_codes.score_given(given_of(out), files_of(zoo), executor)
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert found.members == here.members
    for name, column in found.columns().items():
        if name != "member":
            np.testing.assert_allclose(column, here.columns()[name], rtol=1e-5, atol=1e-6)
    assert list(Store(out).verify()) == []


def test_a_dask_scheduler_restarted_mid_run(expected, tmp_path, cluster):
    def restart():
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        cluster.start_scheduler()
        cluster.start_worker()

    with when_trained(tmp_path, restart), opened(cluster.name) as executor:
        path = run(tiny(), tmp_path, executor=executor)
    assert_same(read_csv(path), expected)
    assert status(tiny(), tmp_path).complete


def test_a_scheduler_that_is_not_there_is_one_clear_error(monkeypatch):
    monkeypatch.setattr("jaxdis.study._executors.SCHEDULER_SECONDS", 1)
    with pytest.raises(OSError, match="127.0.0.1:9"), opened("dask://127.0.0.1:9"):
        pass


DRIVER = """
import signal
import sys
from pathlib import Path

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
from jaxdis.__main__ import run
import jaxdis.cli._study_commands as study
import jaxdis.study._executors as executors
from tests.study.test_executors import wait_long

def act(self):
    with executors.opened("processes:2") as executor:
        futures = [executor.submit(wait_long, Path(folder), place) for place in range(2)]
        [future.result() for future in futures]

study.Study.run = act
folder, sys.argv[1:] = sys.argv[1], ["study", "run", "quickstart", "--out", "unused"]
sys.exit(run())
"""


def wait_long(folder: Path, place: int) -> None:
    (folder / f"{place}.{os.getpid()}").touch()
    time.sleep(120)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_driver_in_the_middle_of_what_they_do(tmp_path, number):
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    driver = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(path.suffix[1:]) for path in tmp_path.iterdir()]
    assert len(workers) == 2
    driver.send_signal(number)
    _, errors = driver.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert driver.returncode == 128 + number
        assert errors.startswith("jaxdis: stopped")
        assert len(errors.splitlines()) == 1
    deadline = time.monotonic() + 20
    while not all(map(gone, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(gone, workers))
