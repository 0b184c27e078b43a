"""The cache on disk: written once, whole or not at all, rebuilt when it is damaged."""

import errno
import logging
import os

import numpy as np
import pytest

from jaxdis.data import _lattice as lattice


def fetch(calls, origin="here", shape=(50, 4), name="squares"):
    def build(out):
        calls.append(1)
        out[:] = np.arange(out.size).reshape(out.shape) ** 2

    return lattice.cached(name, shape, np.int32, build, origin)


def test_built_once_and_read_from_disk(cache):
    calls = []
    first = fetch(calls)
    again = fetch(calls)
    assert len(calls) == 1
    np.testing.assert_array_equal(first, np.arange(200).reshape(50, 4) ** 2)
    np.testing.assert_array_equal(again, first)
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable
    assert sorted(path.name for path in cache.iterdir()) == ["squares.json", "squares.npy"]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-7] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def pickled(path):
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)


def no_description(path):
    path.with_suffix(".json").unlink()


def half_a_description(path):
    path.with_suffix(".json").write_text('{"shape": [50')


def too_deep_a_description(path):
    path.with_suffix(".json").write_text("[" * 100_000)


def a_description_of_another_kind(path):
    path.with_suffix(".json").write_text("3")


@pytest.mark.parametrize(
    "spoil",
    [
        truncate,
        flip,
        empty,
        pickled,
        no_description,
        half_a_description,
        too_deep_a_description,
        a_description_of_another_kind,
    ],
)
def test_a_damaged_file_is_rebuilt_with_a_message(cache, caplog, spoil):
    calls = []
    fetch(calls)
    spoil(cache / "squares.npy")
    with caplog.at_level(logging.WARNING):
        again = fetch(calls)
    assert len(calls) == 2
    np.testing.assert_array_equal(again, np.arange(200).reshape(50, 4) ** 2)
    assert "squares.npy" in caplog.text
    assert "building it again" in caplog.text
    assert len(fetch(calls)) == 50
    assert len(calls) == 2


def test_a_file_is_read_for_its_checksum_once_until_it_changes(cache, monkeypatch):
    """Every cell of a study opens its data set."""
    calls, read, checksum = [], [], lattice._crc32
    monkeypatch.setattr(lattice, "_crc32", lambda array: read.append(1) or checksum(array))
    fetch(calls)
    path = cache / "squares.npy"
    os.utime(path, (0, 0))
    for _ in range(3):
        fetch(calls)
    assert len(read) == 2  # as it was built, and as it was opened
    flip(path)
    np.testing.assert_array_equal(fetch(calls), np.arange(200).reshape(50, 4) ** 2)
    assert len(calls) == 2


@pytest.mark.parametrize("change", [{"origin": "there"}, {"shape": (40, 4)}])
def test_another_origin_or_shape_is_rebuilt(caplog, change):
    calls = []
    fetch(calls)
    fetch(calls, **change)
    assert len(calls) == 2
    assert next(iter(change)) in caplog.text


def test_an_interrupted_build_leaves_nothing(cache):
    def build(out):
        out[:10] = 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lattice.cached("half", (50, 4), np.int32, build)
    assert list(cache.iterdir()) == []


def test_room_is_taken_before_anything_is_written(cache, monkeypatch):
    """Writing to a map of a file without room would kill the process."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jaxdis.data._lattice.os.posix_fallocate", full)
    calls = []
    with pytest.raises(OSError, match=f"No space left on device in {cache}; make room, or choose another .*CACHE"):
        fetch(calls)
    assert calls == []
    assert list(cache.iterdir()) == []


def test_a_file_system_that_cannot_promise_room_is_used_all_the_same(cache, monkeypatch):
    def unable(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("jaxdis.data._lattice.os.posix_fallocate", unable)
    assert fetch([]).shape == (50, 4)


def test_what_a_killed_build_left_goes_and_modes_are_the_users(cache):
    cache.mkdir(parents=True, exist_ok=True)
    left = cache / f".squares.npy.{'0' * 16}.tmp"
    left.touch()
    os.utime(left, (0, 0))
    before = os.umask(0o027)
    try:
        fetch([])
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in cache.iterdir()} == {
        "squares.json": 0o640,
        "squares.npy": 0o640,
    }
