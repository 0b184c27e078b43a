"""Files of results: whole or absent, first writer wins, damage is found."""

import concurrent.futures
import json
import math

import numpy as np
import pytest

from jaxdis.study.store import Store, StoreError, canonical, cell_id, number, publish

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


def test_a_torn_temporary_file_is_nothing(tmp_path):
    store = Store(tmp_path)
    store.publish("score", SPEC, {"mig": 1})
    folder = store.path("score", cell_id(SPEC)).parent
    (folder / ".0123456789abcdef.json.77.aa.tmp").write_text('{"half')
    assert store.ids("score") == {cell_id(SPEC)}


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


def test_a_changed_study_is_refused_and_says_what_changed(tmp_path):
    store = Store(tmp_path)
    store.open({"name": "a", "sampling": {"num_samples": 100}})
    store.open({"name": "a", "sampling": {"num_samples": 100.0}})
    with pytest.raises(StoreError, match=r"sampling.num_samples is 100, asked for 200"):
        store.open({"name": "a", "sampling": {"num_samples": 200}})
    store.open({"name": "a", "sampling": {"num_samples": 200}}, extend=True)
    assert store.description()["sampling"] == {"num_samples": 200}


def test_a_change_deep_in_a_list_is_named(tmp_path):
    store = Store(tmp_path)
    store.open({"trainings": [{"config": {"steps": 3}, "seeds": [0, 1]}]})
    with pytest.raises(StoreError, match=r"trainings.0.config.steps is 3, asked for 4"):
        store.open({"trainings": [{"config": {"steps": 4}, "seeds": [0, 1]}]})


def test_a_directory_without_a_study_says_so(tmp_path):
    with pytest.raises(StoreError, match="holds no study"):
        Store(tmp_path).description()


def test_records_are_readable_json(tmp_path):
    store = Store(tmp_path)
    store.publish("score", {**SPEC, "name": "größe <b>"}, {"mig": 1})
    path = next(tmp_path.rglob("*.json"))
    assert json.loads(path.read_text(encoding="utf-8"))["cell"]["name"] == "größe <b>"
