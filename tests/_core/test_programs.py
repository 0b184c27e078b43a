"""Traced functions on disk: found again, never for anything else, and with the same numbers."""

import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import jaxdis
from jaxdis import METRICS, RELATIONS, SCORES, Blend, Direct, Factors, Spec, evaluate
from jaxdis._core import files, programs
from jaxdis._core.kernels.assignment import Assignment, assign
from jaxdis._core.options import Range
from jaxdis.evaluation import _member as member
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member_often
from jaxdis.evaluation._run import shared_by
from jaxdis.metrics._plan import plan_of
from tests.metrics.test_contracts import assert_same, every_source, shortened_plan

SIZES = (3, 4)
STATIC = (plan_of("sap_r2"), 0)


@pytest.fixture
def folder(tmp_path):
    """Where traced functions are kept during the test."""
    programs.keep_in(tmp_path / "traced")
    jax.clear_caches()
    return tmp_path / "traced"


@pytest.fixture
def untraced(monkeypatch):
    """From the call on, whatever traces a member fails."""

    def begin():
        jax.clear_caches()
        monkeypatch.setattr(member, "roles_of", None)

    return begin


def kept_files(folder) -> list:
    return sorted(folder.glob("*"))


def make(n=60, members=None, seed=0):
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    codes = values @ rng.normal(size=(members or 1, 2, 3)) + rng.normal(size=(members or 1, n, 3))
    return (codes if members else codes[0]).astype(np.float32), Factors.of(values, SIZES)


@pytest.mark.two_devices
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("members", [None, 5])
def test_a_program_on_disk_is_not_traced_and_gives_the_same_numbers(folder, untraced, members, devices):
    """One file serves single members and zoos, on any number of devices."""
    arguments = *make(members=members), ("mig", "sap_r2")
    programs.keep_in(None)
    plain = evaluate(*arguments)
    programs.keep_in(folder)
    jax.clear_caches()
    evaluate(*make(), ("mig", "sap_r2"))
    assert len(kept_files(folder)) == 2
    untraced()
    again = evaluate(*arguments, devices=jax.devices()[:devices])
    assert list(again) == list(plain)
    assert_same(again, plain)
    assert len(kept_files(folder)) == 2


def continuous():
    codes, factors = make()
    return codes, Factors.of(np.c_[factors.values, codes @ np.array([1.0, 0.5, 0.0])], (*SIZES, None))


@pytest.mark.parametrize(
    ("samples", "arguments"),
    [
        (continuous, {}),
        (make, {"weights": np.arange(60) % 3 + 1.0, "active": np.array([True, False, True])}),
        (make, {"bootstrap": 2}),
        (make, {"test": make(40, seed=1), "variances": np.full((60, 3), 0.1)}),
    ],
    ids=["continuous", "weights, active", "bootstrap", "test, variances"],
)
def test_whatever_is_passed_gives_the_same_numbers(folder, untraced, samples, arguments):
    plan = ("sap_r2", "linear_probe") if "test" in arguments else ("sap_r2",)
    programs.keep_in(None)
    plain = evaluate(*samples(), plan, **arguments)
    programs.keep_in(folder)
    for begin in (jax.clear_caches, untraced):
        begin()
        kept = evaluate(*samples(), plan, **arguments)
        assert_same(kept, plain)
        for name in plain:
            np.testing.assert_array_equal(kept.replicates.get(name, 0), plain.replicates.get(name, 0))
    assert len(kept_files(folder)) == len(plan)


@every_source
def test_every_metric_can_be_kept(tmp_path, monkeypatch, name):
    """With names, shapes and dtypes; programs are compiled in the test above. Metrics share what else is traced."""
    programs.keep_in(tmp_path)
    codes, factors = make()
    members, shared, _ = bind(codes, factors, test=make(40, seed=1), variances=np.ones_like(codes))
    plan, one = plan_of(shortened_plan([name])), jax.tree.map(lambda leaf: leaf[0], members)
    kept, shared = programs.kept(score_member_often, (plan, 0)), shared_by(plan, shared)
    traced, structure_of = [], programs._structure

    def shapes(result):
        return jax.tree.structure(result), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(result)]

    with monkeypatch.context() as patch:
        # Is given the traced result, and then its parts.
        patch.setattr(programs, "_structure", lambda tree: traced.append(shapes(tree)) or structure_of(tree))
        assert shapes(jax.eval_shape(kept, one, shared)) == traced[0]
    assert len(kept_files(tmp_path)) == 1
    monkeypatch.setattr(member, "roles_of", None)  # nothing is traced again
    again = programs.kept(score_member_often, (plan, 0))
    assert shapes(jax.eval_shape(again, one, shared)) == traced[0]


def shapes_of(*arguments, static=STATIC):
    """Trace, but do not compile, a metric of one member."""
    codes, factors = arguments or make()
    members, shared, _ = bind(codes, factors)
    one = jax.tree.map(lambda leaf: leaf[0], members)
    return jax.eval_shape(programs.kept(score_member_often, static), one, shared._replace(prepared=(None,)))


def test_nothing_is_found_for_other_arguments(folder):
    codes, factors = make()
    shapes_of(codes, factors)
    others = [
        lambda: shapes_of(codes[:50], factors.take(jnp.arange(50))),
        lambda: shapes_of(codes[:, :2], factors),
        lambda: shapes_of(codes, dataclasses.replace(factors, sizes=(3, 5))),
        lambda: shapes_of(static=(plan_of("sap_r2"), 3)),
        lambda: shapes_of(static=(plan_of({"other": "sap_r2"}), 0)),
        lambda: shapes_of(static=(plan_of({"sap_r2": Blend("r2", "entropy")}), 0)),
        lambda: shapes_of(static=(plan_of("mig"), 0)),
        lambda: shapes_of(static=(plan_of({"mig": METRICS["mig"].with_options(bins=7)}), 0)),
    ]
    for number, other in enumerate(others):
        other()
        assert len(kept_files(folder)) == 2 + number
        other()
        shapes_of(codes, factors)
        assert len(kept_files(folder)) == 2 + number


def test_nothing_is_found_under_other_settings(folder):
    shapes_of()
    settings = [
        lambda: jax.default_matmul_precision("highest"),
        lambda: jax.numpy_dtype_promotion("standard"),
        lambda: jax.threefry_partitionable(not jax.config.jax_threefry_partitionable),
        lambda: jax.default_prng_impl("rbg"),
    ]
    for number, setting in enumerate(settings):
        with setting():
            shapes_of()
        assert len(kept_files(folder)) == 2 + number


def test_nothing_is_found_for_other_sources(folder, monkeypatch):
    shapes_of()
    monkeypatch.setattr(programs, "_sources", lambda: "one letter more")
    shapes_of()
    assert len(kept_files(folder)) == 2


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Another package in the place of this one, of two modules."""
    folder = tmp_path / "jaxdis"
    (folder / "metrics").mkdir(parents=True)
    monkeypatch.setattr(programs, "SOURCES", folder)
    (folder / "metrics" / "one.py").write_text("a = 1")
    (folder / "metrics" / "two.py").write_text("b = 1")
    return folder


def test_all_sources_and_libraries_count(package, monkeypatch):
    def digest():
        return programs._sources.__wrapped__()

    digests = [digest()]
    (package / "metrics" / "one.py").write_text("a = 2")
    digests.append(digest())
    (package / "metrics" / "two.py").rename(package / "metrics" / "three.py")
    digests.append(digest())
    monkeypatch.setattr(programs, "LIBRARIES", ("jax",))
    digests.append(digest())
    assert len(set(digests)) == 4


def test_the_sources_are_those_of_the_whole_package():
    folders = {path.relative_to(Path(jaxdis.__file__).parent).parts[0] for path in programs._modules()}
    assert {"_core", "relations", "scores", "metrics", "factors.py"} <= folders


def test_a_lock_of_an_editor_is_no_source(package):
    before = programs._sources.__wrapped__(), programs._stamps()
    (package / "metrics" / ".#one.py").symlink_to("someone@somewhere.1234")
    assert (programs._sources.__wrapped__(), programs._stamps()) == before


def test_without_sources_nothing_is_known(package):
    for path in (package / "metrics").iterdir():
        path.unlink()
    assert programs._sources.__wrapped__() == ""


def test_edited_sources_are_traced_as_usual(folder, package, monkeypatch):
    """What was imported may be the text before the edit or that after it."""
    monkeypatch.setattr(programs, "_STAMPS", programs._stamps())
    shapes_of()
    assert len(kept_files(folder)) == 1
    (package / "metrics" / "one.py").write_text("a = 22")
    assert programs.kept(score_member_often, STATIC).func is score_member_often


def test_nothing_is_kept_in_a_mesh_of_the_user(folder):
    codes, factors = make()
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    with jax.set_mesh(mesh):
        inside = evaluate(codes, factors, "sap_r2")
    assert not kept_files(folder)
    jax.clear_caches()
    assert evaluate(codes, factors, "sap_r2")["sap_r2"] == inside["sap_r2"]
    assert len(kept_files(folder)) == 1


class Own(NamedTuple):
    score: jax.Array


def own_metric(codes, factors) -> Own:
    return Own(codes.mean())


@pytest.mark.parametrize(
    "metric",
    [
        Direct(Spec(own_metric)),
        Direct(Spec(functools.wraps(METRICS["irs"].source.function)(own_metric))),  # it only has the name of ours
        Blend(Spec(lambda codes, factors: RELATIONS["r2"](codes, factors)), "entropy"),
        Blend("r2", Spec(lambda relation: SCORES["entropy"](relation))),
    ],
    ids=["direct", "named like ours", "relation", "score"],
)
def test_functions_of_users_are_traced_as_usual(folder, metric):
    static = plan_of({"own": metric}), 0
    assert programs.kept(score_member_often, static).func is score_member_often
    assert jax.tree.leaves(shapes_of(static=static))
    assert not kept_files(folder)


@pytest.mark.parametrize("name", programs.DEBUGGING)
def test_nothing_is_kept_while_debugging(folder, name):
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        assert programs.kept(score_member_often, (plan_of("irs"), 0)).func is score_member_often
    finally:
        jax.config.update(name, before)


def test_a_damaged_file_is_written_again(folder, untraced):
    traced = shapes_of()
    (path,) = kept_files(folder)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-900] + b"x" + whole[-899:]):
        path.write_bytes(damaged)
        assert shapes_of() == traced
        assert programs._read(path) is not None
    untraced()
    assert shapes_of() == traced
    assert kept_files(folder) == [path]


def test_a_file_that_was_not_written_here_is_written_again(folder):
    traced = shapes_of()
    (path,) = kept_files(folder)
    _, written = files.read_arrays(path)
    for header, program in [
        ({}, None),
        ({"result": "array"}, b""),
        ({"result": "array"}, bytes(100)),
        ({"result": {"tuple": ["array"], "kind": "jaxdis._core.files:np.f2py.subprocess.Popen"}}, None),
        ({"result": {"tuple": ["array"], "kind": "jaxdis.evaluation._member:score_member_often"}}, None),
        ({"result": {"tuple": ["array"] * 99, "kind": None}}, None),
    ]:
        arrays = written if program is None else {**written, "program": np.frombuffer(program, np.uint8)}
        files.write_arrays(path, header, arrays)
        assert programs._read(path) is None, header
        assert shapes_of() == traced
        assert programs._read(path) is not None


def test_a_folder_that_cannot_be_written_does_not_matter(folder):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file")
    assert jax.tree.leaves(shapes_of())
    assert folder.read_text() == "a file"


def assigned(static, cost):
    return assign(cost, method=static).column


def test_a_program_that_calls_back_is_not_kept(folder, monkeypatch):
    """A callback to Python, as for assignments of many codes, cannot be on disk."""
    monkeypatch.setattr(programs, "_identity", str)
    cost = np.random.default_rng(0).random((4, 4)).astype(np.float32)
    for method, count in (("scipy", 0), ("optax", 1)):
        found = jax.jit(programs.kept(assigned, method))(cost)
        np.testing.assert_array_equal(found, linear_sum_assignment(cost)[1])
        assert len(kept_files(folder)) == count


def refusing(static, x):
    raise ValueError("x: must be more, got less")


def listing(static, x):
    return [x, 2 * x]


def test_functions_that_cannot_be_kept_do_what_they_do(folder, monkeypatch):
    monkeypatch.setattr(programs, "_identity", str)
    with pytest.raises(ValueError, match="must be more, got less"):
        jax.jit(programs.kept(refusing, 0))(jnp.ones(2))
    np.testing.assert_array_equal(jax.jit(programs.kept(listing, 0))(jnp.ones(2)), [[1, 1], [2, 2]])
    assert not kept_files(folder)


def test_only_what_this_package_defines_has_a_name():
    for name in (
        "os:system",
        "jaxdis_of_mine:f",
        "jaxdis.nothing:f",
        "jaxdis.metrics:nothing",
        "jaxdis._core.files:os.system",
    ):
        assert programs._found(name) is None
    assert programs._found("jaxdis.evaluation._member:score_member_often") is score_member_often


def test_static_arguments_have_texts_of_their_own():
    values = [
        0,
        0.0,
        -0.0,
        1,
        1.0,
        True,
        "1",
        None,
        "None",
        (),
        (1,),
        ((1,),),
        (1, 2),
        ((1, 2),),
        ("1, 2",),
        Range(1, 2),
    ]
    texts = [programs._identity(value) for value in [*values, Range(1, 3), score_member_often, Range]]
    assert len(set(texts)) == len(texts)
    assert programs._identity(Assignment(1, 2)) != programs._identity((1, 2))
    for value in (np.float32(1), [1], {"a": 1}, frozenset(), jnp.sin, shapes_of, Own(1)):
        with pytest.raises(programs._Unknown):
            programs._identity(value)


PROCESS = """
import jax, numpy as np, jaxdis
missed = []
jax.monitoring.register_event_listener(lambda event, **_: missed.extend([event] * event.endswith("cache_misses")))
values = np.random.default_rng(0).integers(0, 3, (60, 2))
jaxdis.evaluate(np.random.default_rng(1).normal(size=(60, 3)), values, ["dci_forest", "explicitness", "sap"])
print(len(missed))
"""


def test_the_second_process_compiles_nothing(tmp_path):
    """A function that was just traced once had another text, and so another key, than when it was read again."""
    settings = {**os.environ, "JAXDIS_CACHE": str(tmp_path)}
    run = functools.partial(subprocess.run, [sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
    first, second = (int(run(env=settings).stdout) for _ in range(2))
    assert first > 0
    assert second == 0
