"""Process-wide settings."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis._core import runtime

pytestmark = pytest.mark.two_devices


def test_programs_are_forgotten_when_they_hold_too_many_maps():
    traces = []

    @jax.jit
    def program(x):
        traces.append(1)
        return x + 1

    program(jnp.zeros(3))
    assert not runtime.forget_programs_if_many(share=1.0)
    program(jnp.zeros(3))
    assert len(traces) == 1
    forgotten = runtime.forget_programs_if_many(share=0.0)
    assert forgotten == sys.platform.startswith("linux")  # elsewhere nothing is counted, and nothing forgotten
    program(jnp.zeros(3))
    assert len(traces) == 1 + forgotten


def test_caches_live_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXDIS_CACHE", str(tmp_path / "mine"))
    assert runtime.default_cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("JAXDIS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runtime.default_cache_directory() == tmp_path / "jaxdis"


def test_devices_with_which_jax_has_begun_stay():
    there = len(jax.devices("cpu"))
    assert runtime.use_cpu_devices(there) == there
    assert runtime.use_cpu_devices(there + 1) == there
    assert len(jax.devices("cpu")) == there


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Where programs were going to be kept, in a process that has chosen nothing."""
    folders, before = [], jax.config.jax_compilation_cache_dir
    monkeypatch.setattr(runtime, "_keep_in", folders.append)
    monkeypatch.setattr(runtime, "_chosen", False)
    monkeypatch.setenv("JAXDIS_CACHE", str(tmp_path / "mine"))
    jax.config.update("jax_compilation_cache_dir", None)
    yield folders
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_first_evaluation_keeps_its_programs_in_a_folder_of_the_user_alone(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(jax.config, "update", lambda *setting: None)
    values = np.arange(20)[:, None] % 3
    for _ in range(2):
        jaxdis.evaluate(values, values, "mig")
    assert kept == [tmp_path / "mine" / "programs"]
    assert kept[0].stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("way", ["variable", "argument", "of JAX"])
def test_nothing_is_kept_on_request(way, kept, monkeypatch, tmp_path):
    if way == "variable":
        monkeypatch.setenv("JAXDIS_CACHE", "off")
        assert runtime.use_compilation_cache() is None
        assert runtime.default_cache_directory().name == "jaxdis"
    elif way == "argument":
        assert runtime.use_compilation_cache(False) is None
    else:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    runtime.keep_programs()
    assert kept == ([] if way == "of JAX" else [None])


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_folder_in_which_everybody_may_write_is_refused(kept, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(OSError, match="everybody may write in it; use chmod o-w"):
        runtime.use_compilation_cache(tmp_path / "shared")
    assert kept == []


def test_the_files_unused_for_longest_make_room(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "MOST_BYTES", 1000)
    for age in range(6):
        path = tmp_path / f"program{age}"
        path.write_bytes(bytes(200))
        os.utime(path, (1e9 - age, 1e9 - age))
    runtime.use_compilation_cache(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program0", "program1", "program2"]
    runtime.use_compilation_cache(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def homeless():
    raise RuntimeError("Could not determine home directory.")


def test_without_a_home_programs_are_not_kept_and_a_warning_names_the_variable(monkeypatch):
    """As in a container whose user has no entry in the table of users."""
    for name in ("JAXDIS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("jaxdis._core.runtime.Path.home", homeless)
    with pytest.warns(UserWarning, match="compiled programs are not kept: JAXDIS_CACHE: must be a folder"):
        assert runtime.use_compilation_cache() is None
    with pytest.raises(OSError, match="JAXDIS_CACHE: must be a folder for caches"):
        runtime.default_cache_directory()


def test_a_home_that_cannot_be_written_is_as_good_as_none(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("JAXDIS_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(UserWarning, match="compiled programs are not kept.*choose a folder by JAXDIS_CACHE"):
        assert runtime.use_compilation_cache() is None
    with pytest.raises(OSError, match="cache: must be a folder that can be written"):
        runtime.use_compilation_cache(tmp_path / "file" / "below")
