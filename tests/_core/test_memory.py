"""Free memory as files of the system report it."""

import math
import resource

import pytest

from jaxdis._core import resources

MEMINFO = "MemTotal:       1000 kB\nMemFree:        50 kB\nMemAvailable:   500 kB\n"


def files(root, **texts):
    for name, text in {"proc/meminfo": MEMINFO, **texts}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_machine_without_limits(tmp_path):
    assert resources.host_bytes(files(tmp_path)) == 500 * 1024
    assert resources.host_bytes(tmp_path / "nothing") == math.inf


@pytest.mark.parametrize("folder", ["sys/fs/cgroup/", "sys/fs/cgroup/jobs/"])  # of the job, or of its parent
def test_limit_of_a_container(tmp_path, folder):
    texts = {
        f"{folder}memory.max": "400000\n",
        f"{folder}memory.current": "150000\n",
        f"{folder}memory.stat": "anon 100000\ninactive_file 30000\n",
        "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
        "sys/fs/cgroup/jobs/mine/memory.current": "150000\n",
        "proc/self/cgroup": "0::/jobs/mine\n",
    }
    assert resources.host_bytes(files(tmp_path, **texts)) == 400000 - 150000 + 30000


def test_limit_of_a_container_of_version_1(tmp_path):
    folder = "sys/fs/cgroup/memory/jobs/"
    texts = {
        f"{folder}memory.limit_in_bytes": "400000\n",
        f"{folder}memory.usage_in_bytes": "150000\n",
        "proc/self/cgroup": "3:cpuset:/\n4:memory:/jobs\n",
    }
    assert resources.host_bytes(files(tmp_path, **texts)) == 250000


def test_limit_of_the_process(tmp_path, monkeypatch):
    limits = {resource.RLIMIT_AS: 300 * 1024, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], -1))
    root = files(tmp_path, **{"proc/self/status": "Name:\tpython\nVmSize:\t    100 kB\nVmData:\t  40 kB\n"})
    assert resources.host_bytes(root) == 200 * 1024


@pytest.mark.parametrize(
    ("count", "words"), [(75.34e9, "75.3 GB"), (2e6, "2 MB"), (4096, "4.1 kB"), (5e12, "5,000 GB")]
)
def test_words(count, words):
    assert resources.in_words(count) == words
