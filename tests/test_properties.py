"""Whatever is handed in: a result, or one ValueError that names the argument.

1,500 cases in the default run; ``JAXDIS_EXAMPLES=5000 pytest -o addopts= tests/test_properties.py`` draws as many
as that, shared out among the tests.
"""

import datetime
import decimal
import fractions
import io
import os
import warnings

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import jaxdis
from jaxdis import METRICS, RELATIONS, SCORES, Blend, Factors, Spec
from jaxdis.data import FactorSpace, synthetic
from jaxdis.evaluation._arrays_file import load_arrays
from jaxdis.models import Adam, Config, Convolutional, Mlp, Pca, Vae, members, train
from jaxdis.structured import Structure

DEFAULT = 1500
EXAMPLES = int(os.environ.get("JAXDIS_EXAMPLES", DEFAULT))


def cases(share: float):
    """A test's share of all examples, drawn the same way in every run."""
    return settings(
        max_examples=max(1, round(EXAMPLES * share)),
        deadline=None,
        derandomize=EXAMPLES == DEFAULT,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True, scope="module")
def as_users_run_it():
    """Without the type checker that tests may run with, which would refuse first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Stubborn:
    """An object that cannot be shown, compared or made an array."""

    def __repr__(self):
        raise RuntimeError("no")

    def __array__(self, *_, **__):
        raise RuntimeError("no")

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("no")


RNG = np.random.default_rng(0)
VALUES = np.stack([RNG.integers(0, 3, 40), RNG.integers(0, 4, 40)], axis=1)
CODES = (VALUES @ RNG.normal(size=(2, 3)) + RNG.normal(size=(40, 3))).astype(np.float32)
KEY = jax.random.key(0)
SPACE = FactorSpace.of(shape=3, size=4, hue=2)

# What no argument of any function means.
NONSENSE = [object(), Stubborn(), b"bytes", 1j, datetime.date(2020, 1, 1), NotImplemented]
ODD = [
    *NONSENSE,
    io.StringIO(),
    type,
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    0.5,
    1.5,
    -0.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,
    2**31,
    2**32,
    -(2**63),
    2**63,
    10**400,
    fractions.Fraction(1, 3),
    decimal.Decimal("1.5"),
    "",
    "nonsense",
    "a" * 5000,
    "line\nbreak\x1b[31m",
    [],
    (),
    {},
    set(),
    [None],
    [1],
    [1.5, "x"],
    ["mig"],
    ["a", "b"],
    {"a": 1},
    {"beta": {}},
    {"shape": 1},
    {"mig", "med"},
    [[1, 2], [3]],
    range(3),
    lambda *arguments: None,
    np.int64(3),
    np.uint8(2),
    np.float32(0.5),
    np.float32("nan"),
    np.bool_(True),
    np.str_("mig"),
    np.array(3),
    np.array([]),
    np.zeros((0, 3)),
    np.zeros(3),
    np.ones((40, 3)),
    np.full((40, 3), np.nan),
    np.full((40, 2), 0.5),
    np.full((40, 2), 1e300),
    np.full((40, 3), -1),
    np.full((40, 3), 2**40),
    np.ones(40),
    np.zeros(40),
    -np.ones(40),
    np.ones((2, 3, 4, 5)),
    np.array(["a", "b"]),
    np.array([1, None], dtype=object),
    np.array([1j, 2]),
    np.array(["2020-01-01"], dtype="M8[D]"),
    np.ma.masked_less(CODES, 0),
    np.ma.masked_less(VALUES, 1),
    np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    jnp.ones(3),
    jnp.ones((40, 3), jnp.bfloat16),
    jax.random.key(1),
    jax.random.split(jax.random.key(1)),
    jax.random.PRNGKey(0),
    METRICS["mig"],
    RELATIONS["r2"],
    Factors.of(VALUES),
    SPACE,
    jaxdis,
    (CODES, VALUES),
    (CODES, VALUES[:3]),
    [jax.devices()[0]],
    [jax.devices()[0]] * 2,
]
odd = st.one_of(
    st.sampled_from(ODD),
    st.integers(-5, 5),
    st.floats(-3, 3),
    st.text(max_size=5),
    st.lists(st.one_of(st.integers(-3, 3), st.floats(-3, 3), st.text(max_size=3), st.none()), max_size=3),
)


def outcome(call, *names: str, value=None):
    """The result, or None after a refusal that is one; anything else fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
    except ValueError as error:
        kind, message = type(error), str(error)
        assert kind is ValueError, (kind, message)
        assert any(name in message for name in names), (names, message)
        assert len(message) < 3000, message
        assert "\n" not in message, message
        return None
    assert not any(value is thing for thing in NONSENSE), (names, type(value), result)
    return result


# ---- Options


def tables():
    for table in (METRICS, RELATIONS, SCORES):
        for name, row in table.items():
            for option in row.all_options:
                yield name, row, option


@cases(0.3)
@given(st.sampled_from(list(tables())), odd)
def test_options(place, value):
    _, row, option = place
    changed = outcome(lambda: row.with_options(**{option: value}), option, value=value)
    if changed is not None:
        hash(changed)
        repr(changed)
        changed.describe()


@cases(0.03)
@given(st.sampled_from(list(tables())), odd, st.text(max_size=8))
def test_names_of_options(place, value, name):
    _, row, _ = place
    assume(name not in row.all_options)
    assert outcome(lambda: row.with_options(**{name: value}), "has no option") is None


# ---- Public functions: one argument at a time is something else

FUNCTIONS = {
    "Factors.of": (Factors.of, {"values": VALUES, "sizes": (3, 4), "names": ("a", "b")}, ("factors",)),
    "Spec": (Spec, {"function": RELATIONS["r2"].function, "options": ()}, ("r2",)),
    "Blend": (Blend, {"relation": "r2", "score": "gap"}, ()),
    "relate": (jaxdis.relate, {"codes": CODES, "factors": VALUES, "relation": "r2", "key": KEY}, ("relations",)),
    "relate, more": (
        lambda **given: jaxdis.relate(CODES, VALUES, "mutual_information_sampled", **given),
        {"weights": np.ones(40), "variances": np.ones((40, 3)), "active": np.ones(3, bool), "test": None},
        (),
    ),
    "blend_table": (
        lambda **given: jaxdis.blend_table(CODES, VALUES, **given),
        {"relations": ["r2"], "scores": ["gap"], "key": KEY, "batch_size": 1},
        (),
    ),
    "sample_curve": (
        lambda **given: jaxdis.sample_curve(CODES, VALUES, **given),
        {"metric": "mig", "key": KEY, "sizes": (20,), "column": None, "arguments": None},
        ("metrics",),
    ),
    "interval": (
        lambda **given: SCORED.interval("mig", **given),
        {"level": 0.9, "kind": "basic"},
        ("bootstrap",),
    ),
    "FactorSpace.of": (FactorSpace.of, {"shape": 3, "size": (0.5, 1.0)}, ()),
    "position": (SPACE.position, {"factor": "shape"}, ()),
    "index": (SPACE.index, {"factors": np.zeros((2, 3), np.int32)}, ()),
    "factors": (SPACE.factors, {"index": np.zeros(2, np.int32)}, ()),
    "allowed": (SPACE.allowed, {"factors": np.zeros((2, 3), np.int32)}, ()),
    "wrap": (SPACE.wrap, {"factors": np.zeros((2, 3), np.int32)}, ()),
    "without": (SPACE.without, {"combination": {"shape": 1}}, ("factor",)),
    "only": (SPACE.only, {"combination": {"shape": 1}}, ("factor",)),
    "sample": (SPACE.sample, {"key": KEY, "n": 3}, ()),
    "fix": (SPACE.fix, {"key": KEY, "factor": "shape", "n": 3}, ()),
    "given": (SPACE.given, {"key": KEY, "factor": 0, "value": np.zeros(3, np.int32)}, ()),
    "pairs": (SPACE.pairs, {"key": KEY, "factor": 0, "n": 3}, ()),
    "local_group": (SPACE.local_group, {"key": KEY, "n": 3, "radius": {"shape": 1}, "circular": ("hue",)}, ("factor",)),
    "calibration": (synthetic.calibration, {"case": "111", "key": KEY, "num_samples": 5, "copies": 1}, ()),
    "warp": (synthetic.warp, {"alpha": 0.5, "key": KEY, "num_samples": 5, "num_factors": 2}, ()),
    "rotation": (synthetic.rotation, {"alpha": 0.5, "key": KEY, "num_samples": 5, "num_factors": 2}, ()),
    "noise": (synthetic.noise, {"alpha": 0.5, "key": KEY, "num_samples": 5, "num_factors": 2}, ()),
    "toy_model": (synthetic.toy_model, {"name": "M1"}, ()),
    "distributed": (
        synthetic.distributed,
        {"num_factors": 2, "num_values": 2, "key": KEY, "num_samples": 5},
        (),
    ),
    "dsprites": (jaxdis.data.dsprites, {"dtype": "float32"}, ()),
    "render": (jaxdis.data.dsprites()[1], {"factors": np.zeros((2, 5), np.int32), "key": None}, ()),
    "Config": (Config, {"data": "x", "steps": 3, "method": Vae()}, ()),
    "Vae": (
        Vae,
        {"objective": "beta", "batch_size": 4, "estimator": "mss", "precision": "float32", "micro_batch": 2}
        | {"reconstruction": "bernoulli", "subtract_entropy": False, "optimizer": Adam()},
        (),
    ),
    "Pca": (Pca, {"num_codes": 3, "passes": 2, "num_images": None, "batch_size": 4}, ()),
    "Adam": (Adam, {"b1": 0.9, "b2": 0.99, "epsilon": 1e-8}, ()),
    "Mlp": (Mlp, {"hidden": (4,), "num_codes": 2, "image_shape": None, "initialization": "glorot"}, ()),
    "Convolutional": (
        Convolutional,
        {"channels": (4,) * 4, "kernels": (4,) * 4, "num_codes": 2, "compute": "conv"},
        (),
    ),
    "members": (members, {"sweep": {"beta": {"beta": [1, 4]}}, "seeds": 2}, ("sweep", "beta", "members")),
    "members, settings": (lambda beta: members({"beta": {"beta": beta}}), {"beta": 4.0}, ("members",)),
    "train": (
        lambda **given: train(SMALLEST, *SOME, **given),
        dict.fromkeys(("log_every", "checkpoint_every", "members_at_once", "execution"), "nonsense")
        | {"data": np.zeros((4, 8, 8))},
        ("log_every", "checkpoint_every", "members_at_once", "execution", "data"),
    ),
    "codes.of": (jaxdis.codes.of, {"posterior": CODES, "kind": "mean", "key": None}, ("posterior",)),
    "codes.active": (jaxdis.codes.active, {"posterior": CODES, "by": "deviation", "threshold": None}, ()),
    "Structure.of": (Structure.of, {"levels": ("a",), "codes": [("x",)], "factors": [("y",)]}, ()),
    "Structure.slots": (
        Structure.slots,
        {"slots": 2, "dims": 2, "objects": 2, "properties": ("x", "y"), "background": (), "kinds": None},
        ("codes", "factors"),
    ),
    "Structure.flat": (Structure.flat, {"num_codes": 2, "num_factors": 2}, ()),
    "where": (Structure.flat(2, 2).where, {"side": "codes", "level": "dimension", "label": "code 1"}, ("levels",)),
    "groups": (Structure.flat(2, 2).groups, {"side": "codes", "levels": None}, ()),
}
SOME = members({"beta": {}}, 1)[:2]
SMALLEST = Config(method=Vae(network=Mlp(hidden=(4,), num_codes=2), batch_size=2), steps=1)
SCORED = jaxdis.Scores({"mig": np.float32(0.5)}, {}, (), {"mig": np.linspace(0, 1, 20)})


@cases(0.4)
@given(st.sampled_from([(name, argument) for name, row in FUNCTIONS.items() for argument in row[1]]), odd)
def test_public_functions(place, value):
    name, argument = place
    assume(not (name == "blend_table" and value is None))  # all of them: valid, and minutes long
    function, arguments, also = FUNCTIONS[name]
    outcome(lambda: function(**{**arguments, argument: value}), argument, *also, value=value)


EVALUATE = ("metrics", "key", "test", "weights", "variances", "active", "batch_size", "devices", "numbers", "progress")


@cases(0.12)
@given(st.sampled_from(("codes", "factors", "bootstrap", *EVALUATE)), odd)
def test_evaluate(argument, value):
    assume(not (argument == "progress" and callable(value)))  # what it does is its own affair
    given = {"codes": CODES, "factors": VALUES, "metrics": "mig", argument: value}
    result = outcome(lambda: jaxdis.evaluate(**given), argument, "codes", "factors", "metric", value=value)
    if result is not None:
        assert all(np.ndim(column) in (0, 1) for column in result.values())


@cases(0.02)
@given(odd)
def test_columns_and_parts_are_looked_up_by_name(name):
    assume(not isinstance(name, str | list | tuple) or name not in ("mig", "0", ["mig"], ("mig",)))
    for look_up in (SCORED.__getitem__, SCORED.part, SCORED.error):
        place = isinstance(name, int | np.integer) and not isinstance(name, bool) and look_up == SCORED.__getitem__
        if place and -1 <= name < 1:
            continue
        words = "must be a place among 1 members" if place else "the (columns|parts) are"
        with pytest.raises(IndexError if place else KeyError, match=words):
            look_up(name)


# ---- Files


def whole_file(form: str) -> bytes:
    stream = io.BytesIO()
    if form == "npy":
        np.save(stream, CODES)
    else:
        save = np.savez if form == "npz" else np.savez_compressed
        save(stream, codes=CODES, factors=VALUES, sizes=[3, 4], names=["a", "b"], variances=CODES**2)
    return stream.getvalue()


WHOLE = {form: whole_file(form) for form in ("npy", "npz", "compressed")}
HEADERS = [b"'<f4'", b"(40, 3)", b"False", b"descr", b"shape", b"\x93NUMPY", b"codes.npy", b"PK\x01\x02", b"PK\x05\x06"]
REPLACED = [
    b"'|O'",
    b"(-1, 3)",
    b"(2**70,)",
    b"(10**12,)",
    b"True",
    b"((((",
    b"\0" * 7,
    b"'<U9'",
    b"(40, 3.5)",
    b"import",
]
damage = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
    st.tuples(st.just("cut"), st.floats(0, 1), st.just(0)),
    st.tuples(st.just("zero"), st.floats(0, 1), st.integers(1, 200)),
    st.tuples(st.just("insert"), st.floats(0, 1), st.integers(1, 200)),
    st.tuples(st.just("replace"), st.sampled_from(HEADERS), st.sampled_from(REPLACED)),
)


def damaged(content: bytes, hits) -> bytes:
    content = bytearray(content)
    for kind, where, what in hits:
        if kind == "replace":
            content = bytearray(bytes(content).replace(where, what))
            continue
        place = min(int(where * len(content)), len(content) - 1)
        if kind == "flip":
            content[place] ^= what
        elif kind == "cut":
            content = content[: max(place, 1)]
        elif kind == "zero":
            content[place : place + what] = bytes(len(content[place : place + what]))
        else:
            content[place:place] = bytes(range(what))
    return bytes(content)


@cases(0.12)
@given(st.sampled_from(list(WHOLE)), st.lists(damage, min_size=1, max_size=3))
def test_damaged_files(tmp_path_factory, form, hits):
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"damaged.{'npy' if form == 'npy' else 'npz'}"
    path.write_bytes(damaged(WHOLE[form], hits))
    np.save(folder / "factors.npy", VALUES)
    outcome(lambda: load_arrays(path, folder / "factors.npy" if form == "npy" else None), str(path))
