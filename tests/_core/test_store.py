"""Files of results: whole or absent, first writer wins, damage is found."""

import concurrent.futures
import errno
import hashlib
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from jaxdis._core.files import MOST_JSON_BYTES
from jaxdis._core.store import Store, StoreError, canonical, cell_id, number, publish

SPEC = {"kind": "score", "encode": "0123456789abcdef", "metric": {"bins": 20}}


def test_identity_ignores_key_order_and_the_type_of_whole_numbers():
    assert cell_id({"a": 1, "b": 2.0}) == cell_id({"b": 2, "a": np.float32(1)})
    assert cell_id({"a": 1}) != cell_id({"a": 1.5})
    assert canonical({"x": math.nan, "y": (1, 2)}) == '{"x":null,"y":[1,2]}'


def test_published_results_come_back(tmp_path):
    store = Store(tmp_path)
    arrays = {"codes": np.arange(6, dtype=np.float32).reshape(2, 3)}
    assert store.publish("score", SPEC, {"mig": 0.25, "undefined": math.nan}, arrays)
    name = cell_id(SPEC)
    assert store.ids("score") == {name}
    assert store.result("score", name)["mig"] == 0.25
    assert math.isnan(number(store.result("score", name)["undefined"]))
    np.testing.assert_array_equal(store.arrays("score", name)["codes"], arrays["codes"])


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"mig": 0.25}, {"mig.per_factor": [0.2, 0.3]}),
        ({"mig.completeness": 0.25, "mig.disentanglement": 0.5}, {}),
        ({"mig": 0.25}, {}),
        ({"mig.object.score": 0.25, "mig.kind.mask": 0.5}, {"mig.object.joint": [[1.0]]}),
        ({}, {}),
    ],
)
@pytest.mark.parametrize("name", ["mig", "gap", "my.gap"])
def test_a_score_is_read_under_any_name(columns, parts, name, tmp_path):
    """A cell does not know the name of its metric, but its columns begin with the one it was made under."""
    store = Store(tmp_path)
    store.publish("score", SPEC, {"columns": columns, "parts": parts})
    wanted = {
        kind: {column.replace("mig", name, 1): value for column, value in stored.items()}
        for kind, stored in (("columns", columns), ("parts", parts))
    }
    assert store.score(cell_id(SPEC), name) == wanted


def test_cells_of_another_directory_are_taken_over(tmp_path):
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    specs = [{"number": number} for number in range(3)]
    for spec in specs:
        there.publish("encode", spec, {"done": spec["number"]}, {"codes": np.full(3, spec["number"])})
    here.publish("encode", specs[0], {"done": "own"})
    wanted = {"encode": {cell_id(spec) for spec in specs[:2]}, "score": {cell_id(specs[2])}}
    assert here.adopt(there, wanted) == 1
    assert here.ids("encode") == wanted["encode"]
    assert here.result("encode", cell_id(specs[0])) == {"done": "own"}
    np.testing.assert_array_equal(here.arrays("encode", cell_id(specs[1]))["codes"], np.full(3, 1))
    assert here.adopt(there, wanted) == 0
    there.path("encode", cell_id(specs[2]), ".npz").write_bytes(b"spoiled")
    with pytest.raises(StoreError, match="is damaged"):
        here.adopt(there, {"encode": {cell_id(specs[2])}})


@pytest.mark.parametrize("spoil", ["flip", "cut", "empty", "other", "list"])
def test_damage_is_found_removed_and_made_again(tmp_path, spoil):
    store = Store(tmp_path)
    store.publish("score", SPEC, {"mig": 0.25})
    name = cell_id(SPEC)
    path = store.path("score", name)
    text = path.read_text()
    other = {**SPEC, "metric": {"bins": 30}}
    store.publish("score", other, {"mig": 0.5})
    spoiled = {
        "flip": text.replace("0.25", "0.26"),
        "cut": text[: len(text) // 2],
        "empty": "",
        "other": store.path("score", cell_id(other)).read_text(),
        "list": "[]",
    }[spoil]
    path.write_text(spoiled)
    with pytest.raises(StoreError, match="damaged|another cell"):
        store.record("score", name)
    assert [found[1] for found in store.verify()] == [name]
    assert list(store.verify()) == []
    assert store.publish("score", SPEC, {"mig": 0.25})


def test_damaged_arrays_are_found(tmp_path):
    store = Store(tmp_path)
    store.publish("encode", SPEC, {}, {"mean": np.zeros(100)})
    path = store.path("encode", cell_id(SPEC), ".npz")
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="hash does not fit"):
        store.arrays("encode", cell_id(SPEC))
    assert len(list(store.verify())) == 1


@pytest.mark.parametrize("name", ["../../x", "ABCDEF0123456789", "", "0123456789abcdef/..", "x" * 500])
def test_names_cannot_leave_the_directory(tmp_path, name):
    with pytest.raises(StoreError, match="16 hexadecimal digits"):
        Store(tmp_path).path("score", name)


@pytest.mark.parametrize("name", ["results.csv", "report.html"])
def test_a_directory_with_tables_of_something_else_is_refused(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(StoreError, match=f"must be a directory of the study alone, got one with {name}"):
        Store(tmp_path).open({"name": "a"})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    study = tmp_path / "study"
    Store(study).open({"name": "a"})
    (study / name).write_text("of the study")
    Store(study).open({"name": "a"})


def test_a_changed_study_is_refused_and_says_what_changed(tmp_path):
    store = Store(tmp_path)
    store.open({"name": "a", "parts": [{"sampling": {"num_samples": 100}}]})
    store.open({"name": "a", "parts": [{"sampling": {"num_samples": 100.0}}]})
    changed = {"name": "a", "parts": [{"sampling": {"num_samples": 200}}]}
    with pytest.raises(StoreError, match=r"parts.0.sampling.num_samples is 100, asked for 200"):
        store.open(changed)
    store.open(changed, extend=True)
    assert store.description()["parts"] == changed["parts"]


def test_parts_that_were_left_empty_may_be_added_and_nothing_else(tmp_path):
    store = Store(tmp_path)
    store.open({"name": "a", "case_samples": 100, "warp": [], "full_size": 0})
    store.check_smaller({"name": "a", "case_samples": 100, "warp": [0.5], "full_size": 10}, ())
    with pytest.raises(StoreError, match=r"case_samples is 100, asked for 0\."):
        store.check_smaller({"name": "a", "case_samples": 0, "warp": [0.5], "full_size": 10}, ())


def test_a_directory_without_a_study_says_so(tmp_path):
    with pytest.raises(StoreError, match="holds no study"):
        Store(tmp_path).description()


def test_records_are_readable_json(tmp_path):
    store = Store(tmp_path)
    store.publish("score", {**SPEC, "name": "größe <b>"}, {"mig": 1})
    path = next(tmp_path.rglob("*.json"))
    assert json.loads(path.read_text(encoding="utf-8"))["cell"]["name"] == "größe <b>"


class Killed(BaseException):
    """As SIGKILL: nothing after it runs but what the interpreter cannot help."""


@pytest.mark.parametrize("moment", [1, 2])
def test_a_kill_between_publications_leaves_nothing_that_counts(tmp_path, monkeypatch, moment):
    """Before the arrays, or between the arrays and the record; what lies there is damaged besides."""
    store, calls = Store(tmp_path), []

    def publish_until(path, *arguments, **options):
        calls.append(path)
        if len(calls) == moment:
            raise Killed
        return publish(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("jaxdis._core.store.publish", publish_until)
        with pytest.raises(Killed):
            store.publish("encode", SPEC, {}, {"mean": np.arange(9.0)})
    assert store.ids("encode") == set()
    arrays = store.path("encode", cell_id(SPEC), ".npz")
    if arrays.exists():
        arrays.write_bytes(b"")
    assert store.publish("encode", SPEC, {}, {"mean": np.arange(9.0)})
    assert list(store.verify()) == []
    np.testing.assert_array_equal(store.arrays("encode", cell_id(SPEC))["mean"], np.arange(9.0))


def test_a_kill_within_verify_leaves_a_cell_that_is_found_again(tmp_path, monkeypatch):
    """Arrays go first: a record without them is damaged, but arrays without a record would be nobody's."""
    store = Store(tmp_path)
    store.publish("encode", SPEC, {}, {"mean": np.zeros(9)})
    store.path("encode", cell_id(SPEC), ".npz").write_bytes(b"")
    unlink, removed = Path.unlink, []

    def once(path, **options):
        if path.suffix != ".tmp" and removed:
            raise Killed
        removed.append(path)
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", once)
        with pytest.raises(Killed):
            list(store.verify())
    assert removed[0].suffix == ".npz"
    with pytest.raises(StoreError, match="damaged"):
        store.arrays("encode", cell_id(SPEC))
    assert len(list(store.verify())) == 1
    assert store.publish("encode", SPEC, {}, {"mean": np.zeros(9)})


def signed(record: dict) -> str:
    return canonical({**record, "hash": hashlib.sha256(canonical(record).encode()).hexdigest()})


def odd_records():
    yield "deep", lambda path: path.write_text("[" * 100_000)
    yield "digits", lambda path: path.write_text('{"hash": ' + "1" * 5000 + "}")
    yield "surrogate", lambda path: path.write_text('{"hash": "", "cell": "\\ud800"}')
    yield "no cell", lambda path: path.write_text(signed({"result": {}}))
    yield "no result", lambda path: path.write_text(signed({"cell": SPEC}))
    yield "text", lambda path: path.write_bytes(b"\xff\xfe")
    yield "folder", lambda path: path.mkdir()
    yield "pipe", os.mkfifo
    yield "link", lambda path: path.symlink_to(path)
    yield "huge", lambda path: (path.touch(), os.truncate(path, MOST_JSON_BYTES + 1))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("name", "make"), list(odd_records()), ids=lambda case: case if isinstance(case, str) else "")
def test_verify_survives_whatever_it_meets(tmp_path, name, make):
    store = Store(tmp_path)
    other = {**SPEC, "metric": 1}
    store.publish("score", other, {"mig": 0.5})
    path = store.path("score", cell_id(SPEC))
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    with pytest.raises(StoreError, match="jaxdis study verify"):
        store.record("score", cell_id(SPEC))
    assert [found[1] for found in store.verify()] == [cell_id(SPEC)]
    assert not os.path.lexists(path)
    assert store.publish("score", SPEC, {"mig": 0.25})
    assert list(store.verify()) == []
    assert store.ids("score") == {cell_id(SPEC), cell_id(other)}


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + bytes(50)])
def test_damaged_arrays_under_a_fitting_hash_are_found(tmp_path, content):
    store = Store(tmp_path)
    record = {"cell": SPEC, "result": {}, "arrays": hashlib.sha256(content).hexdigest()}
    publish(store.path("encode", cell_id(SPEC)), signed(record).encode())
    store.path("encode", cell_id(SPEC), ".npz").write_bytes(content)
    assert len(list(store.verify())) == 1
    assert store.ids("encode") == set()


def test_a_record_in_the_wrong_folder_is_no_cell_and_goes(tmp_path):
    store = Store(tmp_path)
    store.publish("score", SPEC, {"mig": 0.25})
    path = store.path("score", cell_id(SPEC))
    astray = path.parent.with_name("zz") / path.name
    astray.parent.mkdir()
    path.rename(astray)
    assert store.ids("score") == set()
    assert [found[0] for found in store.verify()] == ["score"]
    assert not astray.exists()


@pytest.mark.parametrize("spoil", ["[]", "{", "[" * 100_000, None])
def test_a_damaged_description_says_what_to_do(tmp_path, spoil):
    store, path = Store(tmp_path), tmp_path / "study.json"
    os.mkfifo(path) if spoil is None else path.write_text(spoil)
    for call in (store.description, lambda: store.open({"name": "a"}), lambda: store.check({"name": "a"})):
        with pytest.raises(StoreError, match="verify"):
            call()
    assert [found[:2] for found in store.verify()] == [("study", "study.json")]
    store.open({"name": "a"})


def test_what_a_killed_writer_left_is_removed_when_it_is_old(tmp_path):
    store = Store(tmp_path)
    store.open({"name": "a"})
    store.publish("score", SPEC, {"mig": 0.25})
    for folder in (tmp_path, store.path("score", cell_id(SPEC)).parent):
        old, young = folder / f".results.csv.{'0' * 16}.tmp", folder / f".results.csv.{'1' * 16}.tmp"
        for path in (old, young):
            path.touch()
        os.utime(old, (0, 0))
        store.open({"name": "a"})
        assert (old.exists(), young.exists()) == (False, True)


def test_two_writers_of_one_cell_leave_the_arrays_of_one(tmp_path):
    """Twenty threads with arrays of their own: the record names those that are there, and nothing else is left."""
    store = Store(tmp_path)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda i: store.publish("encode", SPEC, {"i": i}, {"mean": np.full(9, i)}), range(20)))
    assert sum(done) == 1
    assert list(store.verify()) == []
    assert len(list(store.path("encode", cell_id(SPEC)).parent.iterdir())) == 2
    assert store.arrays("encode", cell_id(SPEC))["mean"][0] == store.result("encode", cell_id(SPEC))["i"]


def test_a_full_disk_names_the_folder_and_what_to_do(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jaxdis._core.files.os.fsync", full)
    with pytest.raises(OSError, match=f"No space left on device in {tmp_path}; make room and run again"):
        publish(tmp_path / "a.json", b"{}")
    assert list(tmp_path.iterdir()) == []


def test_the_first_writer_wins(tmp_path):
    store = Store(tmp_path)
    assert store.publish("score", SPEC, {"mig": 1})
    assert not store.publish("score", SPEC, {"mig": 2})
    assert store.result("score", cell_id(SPEC)) == {"mig": 1}


def test_one_of_many_writers_wins_and_nothing_is_left_over(tmp_path):
    path = tmp_path / "ab" / "result.json"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: publish(path, f"writer {i}".encode() * 1000), range(40)))
    assert sum(won) == 1
    assert path.read_bytes() == f"writer {won.index(True)}".encode() * 1000
    assert list(path.parent.iterdir()) == [path]
