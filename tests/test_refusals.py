"""What cannot be is refused at the door, by name, without compiling anything."""

import inspect
import os
import subprocess
import sys
import zipfile

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import jaxdis
from jaxdis import METRICS, Factors, Spec, blend_table, evaluate, relate, sample_curve, structured
from jaxdis._core import files
from jaxdis.cli import main
from jaxdis.data import FactorSpace, synthetic
from jaxdis.metrics import metric
from jaxdis.study import STUDIES, Store, Study, Training
from jaxdis.study.certificate import Calibration


@pytest.fixture(autouse=True)
def as_users_run_it():
    """Without the type checker that tests may run with, which would refuse first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


UNKNOWN = Training.of(jaxdis.models.Config("nothing"), {"beta": {}}, 1)
RNG = np.random.default_rng(0)
VALUES = np.stack([RNG.integers(0, 3, 60), RNG.integers(0, 4, 60)], axis=1)
CODES = (VALUES @ RNG.normal(size=(2, 3)) + RNG.normal(size=(60, 3))).astype(np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": -1}, r"key: must be a typed key such as jax.random.key\(0\), got -1"),
        ({"key": jax.random.split(jax.random.key(0))}, "key: must be a typed key"),
        ({"metrics": 3}, "metrics: must be names, got 3"),
        ({"metrics": "migg"}, r"metrics: unknown metric 'migg'; did you mean 'mig'\?$"),
        ({"metrics": "beauty"}, "metrics: unknown metric 'beauty'; the metrics are mig, "),
        ({"codes": CODES.T}, r"got 3 \(axis 1 .* against 60; did you mean codes.swapaxes"),
        (
            {"metrics": "mig:bins=30"},
            r"unknown metric 'mig:bins=30'; give options by METRICS\['mig'\].with_options\(bins=30\), in a mapping",
        ),
        ({"metrics": {"a": 3}}, "metrics: must be a Blend, a Direct or a name for 'a', got 3"),
        ({"metrics": {"member": METRICS["mig"]}}, "metrics: must have column names that are text other than 'member'"),
        (
            {"metrics": {"a": METRICS["med"], "a.disentanglement": METRICS["mig"]}},
            "metrics: must have names whose columns",
        ),
        ({"metrics": [METRICS["mig"]]}, r"metrics: must be names, got Blend\(mutual_information, gap\); give"),
        (
            {"metrics": "mig_ksg", "codes": CODES[:3], "factors": VALUES[:3]},
            "neighbors: must have fewer than the 3",
        ),
        ({"devices": ["cpu"]}, "devices: must have at least one device"),
        ({"batch_size": 0}, "batch_size: must be a whole number of at least 1 or None, got 0"),
        ({"bootstrap": "x"}, "bootstrap: must be a whole number, got 'x'"),
        ({"bootstrap": -2}, "bootstrap: must be a whole number of replicates, at least 2, got -2"),
        ({"progress": 3}, "progress: must be a function or True or False or None, got 3"),
        ({"arrived": 3}, "arrived: must be a function or None, got 3"),
        ({"weights": "x"}, "weights: must be an array of numbers, got 'x'"),
        (
            {"weights": np.ones(60), "metrics": ("mig", "snc")},
            r"weights: needs metrics that .*\(snc\); evaluate",
        ),
        ({"variances": -np.ones((60, 3))}, "variances: must be numbers of at least 0, got -1"),
        ({"active": [True]}, r"active: must have shape \[3\] or \[1, 3\]"),
        ({"active": ["yes", "no", "no"]}, "active: must be real numbers, got dtype <U3"),
        ({"active": [0.5, 1, 1]}, "active: must be truth values"),
        ({"numbers": [0.5]}, "numbers: must be whole numbers from 0"),
        ({"numbers": [2**32]}, "numbers: must be whole numbers from 0"),
        ({"codes": np.ma.masked_less(CODES, 0)}, "codes: must be an array without a mask"),
        ({"codes": None}, "codes: must be an array of numbers, got None"),
        ({"factors": np.ma.masked_less(VALUES, 1)}, "factors: must be an array without a mask"),
        (
            {"factors": VALUES * 2**32},
            r"factors: must have at most 65,536 classes, got .*np.unique\(column",
        ),
        (
            {"factors": np.where(VALUES == 1, 50_000_000, VALUES)},
            "factors: must have at most 65,536 classes",
        ),
        (
            {"factors": Factors(jnp.asarray(VALUES), (2, 2), ("a", "b"))},
            "factor 'a' of size 2 must have values",
        ),
        ({"test": "ab"}, r"test: must be a pair \(codes, factors\), got str"),
        ({"test": (CODES, "ab")}, "test factors: must be an array of numbers"),
        ({"test": (CODES, VALUES[:, :1])}, "test factors: must have 2 columns, got 1"),
        ({"test": (CODES, VALUES + 9)}, "test factors: factor 'factor_0' of size 3 must have values from 0 to 2"),
    ],
)
def test_evaluate_names_what_it_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**{"codes": CODES, "factors": VALUES, "metrics": "mig", **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relate(CODES, VALUES, "r2", "0"), "key: must be a typed key"),
        (lambda: relate(CODES, VALUES, METRICS["mig"]), "relations: must be names, got Blend"),
        (lambda: relate(CODES, VALUES, "r2", variances=CODES), "variances: needs a relation that reads it, got r2"),
        (lambda: relate(CODES, VALUES, "svm_accuracy", weights=np.ones(60)), "weights: needs a relation that reads it"),
        (
            lambda: relate(CODES[:3], VALUES[:3], "mutual_information_neighbors"),
            "neighbors: must have fewer than the 3",
        ),
        (lambda: blend_table(CODES, VALUES, ["r2"], ["gap"], "0"), "key: must be a typed key"),
        (lambda: blend_table(CODES, VALUES, 3), "relations: must be names, got 3"),
        (
            lambda: blend_table(CODES, VALUES, ["r2"], nonsense=3),
            "arguments: must have names among test, validation, weights",
        ),
        (lambda: sample_curve(CODES, VALUES, "mig", sizes=[20], arguments=3), "arguments: must be a mapping"),
        (lambda: sample_curve(CODES, VALUES, "mig", sizes=5), "sizes: must be a sequence of values to try, got 5"),
        (lambda: sample_curve(CODES, VALUES, "mig", "0", sizes=[20]), "key: must be a typed key"),
        (lambda: Spec(3), "function: must be a function"),
        (lambda: jaxdis.Blend("r2", 3), "score: must be a name or a Spec, got 3"),
        (lambda: METRICS["mig"].with_options(bin=3), "mutual_information × gap: has no option 'bin'; its options are"),
        (lambda: jaxdis.Direct(len), "function: must be a Spec"),
        (lambda: Factors.of(VALUES, 3), "sizes: must have 2 entries"),
        (lambda: Factors.of(VALUES, names="ab"), "names: must have 2 entries"),
        (lambda: Factors.of(VALUES, (3, np.nan)), "sizes: must be whole numbers"),
        (lambda: Factors.of([[1.0], [1e300]], (None,)), "factors: must be values that float32 can hold"),
        (lambda: jax.jit(evaluate)(CODES, VALUES), "codes: must be concrete numbers, got a traced array"),
        (lambda: synthetic.calibration("000", 0), "key: must be a typed key"),
        (lambda: synthetic.calibration(0, jax.random.key(0)), "case: must be text, got 0"),
        (lambda: synthetic.warp("x", jax.random.key(0)), "alpha: must be a number from 0 to 1"),
        (lambda: synthetic.noise(1.5, jax.random.key(0)), "alpha: must be a number from 0 to 1"),
        (lambda: synthetic.rotation(0.5, jax.random.key(0), 0), "num_samples: must be a whole number of at least 1"),
        (lambda: FactorSpace.of(), "factors: must have at least one factor"),
        (lambda: FactorSpace.of(a=10**10), "a: must be a whole number from 1 to 1,048,576"),
        (lambda: FactorSpace.of(a=3).sample(0, 4), "key: must be a typed key"),
        (lambda: FactorSpace.of(a=3).sample(jax.random.key(0), 1.5), "n: must be a whole number"),
        (lambda: FactorSpace.of(a=3, b=2).position(0.5), "factor: must be a whole number or text, got 0.5"),
        (lambda: FactorSpace.of(a=3, b=2).without({"a": 1.5}), "combination: must be a whole number, got 1.5"),
        (lambda: FactorSpace.of(a=3, b=2).without("a"), "combination: must be a mapping, got 'a'"),
        (
            lambda: FactorSpace.of(a=3, b=2).index(np.zeros((4, 3), int)),
            r"factors: must have shape \[..., 2\]",
        ),
        (lambda: FactorSpace.of(a=3, b=2).index([[0, 1]]), "factors: must be an array"),
        (lambda: jaxdis.data.dsprites(3), "source: must be text or a path or None, got 3"),
        (lambda: jaxdis.data.dsprites(dtype=object()), "dtype: must be one of float32, uint8"),
        (lambda: jaxdis.data.mpi3d(), "source: must be the file of mpi3d"),
        (lambda: jaxdis.models.Config(method=3), "method: must be a Method, got 3"),
        (lambda: jaxdis.models.Discriminator(layers=0), "layers: must be a whole number of at least 1, got 0"),
        (lambda: jaxdis.models.Own(3, len, len), "init: must be a function, got 3"),
        (
            lambda: jaxdis.models.Vae(objective=3),
            r"objective: must be names of OBJECTIVES, got 3; pass an objective of your own as a function",
        ),
        (lambda: jaxdis.models.Vae(precision="x"), "precision: must be 'float32', 'tensorfloat32' or 'bfloat16'"),
        (lambda: jaxdis.models.Mlp(hidden="abc"), "hidden: must be a tuple of a whole number"),
        (lambda: jaxdis.models.members({"beta": {"beta": -4}}), "beta, beta: must be a finite number of at least 0"),
        (lambda: jaxdis.models.members({"beta": {}}, 10**9), "seeds: must be a whole number from 0 to 1,000,000"),
        (lambda: jaxdis.models.members({"beta": {}}, [2**32]), "seeds: must be a tuple of a whole number of at"),
        (lambda: jaxdis.models.members("beta"), "sweep: must be a mapping"),
        (lambda: jaxdis.models.train(3, 0, 0), "config: must be a Config, got 3"),
        (
            lambda: jaxdis.models.train(jaxdis.models.Config(), 0, 0, data=np.zeros((4, 8, 8))),
            "keys: must be typed keys",
        ),
        (lambda: jaxdis.models.train(jaxdis.models.Config(), 0, 0, log_every=1.5), "log_every: must be a whole number"),
        (lambda: jaxdis.models.concatenate([]), "zoos: must have at least one zoo"),
        (lambda: jaxdis.codes.of(CODES), "posterior: must be a Posterior"),
        (lambda: jaxdis.codes.active("x"), "posterior: must be an array of numbers"),
        (lambda: files.packed({}, {"a": np.array([None])}), "arrays: must hold numbers or text"),
        (lambda: Study.of("x", [UNKNOWN], "mig"), "data: must be one of dsprites, .*got 'nothing'"),
        (lambda: jaxdis.structured.Structure.flat(0, 1), "num_codes: must be a whole number from 1"),
        (lambda: jaxdis.structured.Structure.slots(2, 2, 2, "xy"), "properties: must be a sequence of names, got 'xy'"),
        (lambda: jaxdis.structured.Structure.of("abc", ["a"], ["b"]), "levels: must be a sequence of names"),
        (lambda: jaxdis.evaluate_structured(CODES, VALUES, 3), "structure: must be a Structure, got 3"),
        (
            lambda: Factors.of(VALUES).take([60]),
            "rows: must be numbers of samples from 0 to 59, or 60 truth values, got",
        ),
        (lambda: jaxdis.data.scream_dsprites(painting=np.array([["a"]])), "painting: must be numbers"),
    ],
)
def test_public_functions_name_what_they_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


MATRIX = np.eye(4, dtype=np.float32)
HIERARCHY = structured.Structure.slots(2, 2, 2, ["x", "y"])
SLOTS = CODES[:, :1, None] * np.ones((1, 2, 2), np.float32)
ORDERS = np.zeros((60, 2), np.int32)
MASK = np.zeros((2, 4, 4), np.int32)
PARTS = (HIERARCHY, ["object", "property"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: structured.lower_bound(MATRIX, *PARTS, of="x"),
            "of: must be 'completeness' or 'disentanglement', got 'x'",
        ),
        (lambda: structured.upper_bound(MATRIX, *PARTS, of="x"), "of: must be 'completeness' or 'disentanglement'"),
        (lambda: structured.two_levels(MATRIX, HIERARCHY, *PARTS[1], of=3), "of: must be 'completeness' or"),
        (lambda: structured.lower_bound(MATRIX, HIERARCHY, 3), "parts: must be a sequence of projections"),
        (lambda: structured.lower_bound("x", *PARTS), r"strength: must be an array \[d, k\] of numbers, got 'x'"),
        (lambda: structured.score_of(MATRIX, 3), "structure: must be a Structure, got 3"),
        (lambda: structured.project(MATRIX, HIERARCHY, codes="x"), "codes: must be an array"),
        (
            lambda: structured.project(MATRIX, HIERARCHY, codes=np.ones(3, bool)),
            r"codes: must have shape \[4\], got",
        ),
        (lambda: structured.project(MATRIX, HIERARCHY, factors=np.ones(1, bool)), r"factors: must have shape \[4\]"),
        (lambda: structured.score_of(MATRIX, HIERARCHY, codes=np.ones(3, bool)), r"codes: must have shape \[4\]"),
        (lambda: structured.score_of(MATRIX, HIERARCHY, factors=np.ones(5, bool)), r"factors: must have shape \[4\]"),
        (lambda: structured.score_of(MATRIX[:2], HIERARCHY), "strength: must have the shape of the structure"),
        (
            lambda: structured.background(MATRIX[:2], HIERARCHY, "object 1"),
            "strength: must have the shape of the struct",
        ),
        (lambda: structured.informativeness(MATRIX, MATRIX, np.ones(3, bool)), r"factors: must have shape \[4\], got"),
        (lambda: structured.informativeness(MATRIX[:0], MATRIX[:0]), "values: must have at least one sample and one"),
        (lambda: structured.structured_score(3), "relation: must be a Relation, got 3"),
        (lambda: structured.drop_small(MATRIX, float("nan")), "share: must be a number from 0 to 1, got nan"),
        (lambda: structured.background(MATRIX, HIERARCHY, 3), "label: must be text, got 3"),
        (lambda: structured.informativeness(MATRIX, MATRIX[:2]), r"predicted: must have the shape of values, \(2, 4\)"),
        (lambda: structured.probe(SLOTS, Factors.of(VALUES), start="x"), "start: must be 'given' or 'best', got 'x'"),
        (lambda: structured.probe(SLOTS, VALUES), "factors: must be a Factors, got an array"),
        (lambda: structured.probe(SLOTS[:5], Factors.of(VALUES)), "codes: must have as many samples as factors"),
        (
            lambda: structured.probe(SLOTS, Factors.of(VALUES), objects=((0, 9),)),
            "objects: must be columns from 0 to 1, got 9",
        ),
        (lambda: structured.probe(SLOTS, Factors.of(VALUES), objects=((0, 1), (1,))), "objects: must be equally many"),
        (
            lambda: structured.probe(SLOTS, Factors.of(VALUES), categorical=(7,)),
            "categorical: must be columns from 0 to 1",
        ),
        (lambda: structured.take_slots(SLOTS, ORDERS + 9), "orders: must be slots from 0 to 1, got 9 to 9"),
        (lambda: structured.take_slots(SLOTS, ORDERS[:3]), "orders: must have the 60 samples of codes, got 3"),
        (lambda: structured.best_orders(SLOTS, MATRIX, MATRIX[None], ORDERS), r"targets: must have shape \(60,\)"),
        (
            lambda: structured.ari(MASK, MASK[:1], true_segments=2, predicted_segments=2),
            "predicted: must have the shape",
        ),
        (lambda: structured.order_agreement(ORDERS, ORDERS[:3]), "reference: must have the shape of orders"),
        (
            lambda: jaxdis.evaluate_structured(SLOTS, np.tile(VALUES, 2), HIERARCHY, projections=[]),
            r"projections: must be a sequence of levels, or of several levels each, got \[\]",
        ),
    ],
)
def test_functions_of_structures_name_what_they_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


TRAINING = {"config": jaxdis.models.Config(), "sweep": {"beta": {"beta": 1}}, "seeds": 1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda pool=pool: Training.of(**TRAINING, pool=pool), "pool: must be a whole number")
            for pool in (0, -1, 1.5, "x")
        ),
        (lambda: Training.of(**TRAINING | {"sweep": None}), "sweep: must be a mapping, got None"),
        (lambda: Training.of(**TRAINING | {"config": None}), "config: must be a Config, got None"),
        (lambda: Training.of(**TRAINING | {"seeds": 1.5}), "seeds: must be a tuple of a whole number"),
        (
            lambda: Training.of(**TRAINING | {"sweep": {"beta": {"beta": "x"}}}),
            "beta, beta: must be an array of numbers",
        ),
        (lambda: Training.of(**TRAINING, labels={"a": 3}), "labels: must be a tuple"),
        (lambda: Training(jaxdis.models.Config(), (), (0,), pool=0), "pool: must be a whole number"),
        (lambda: Study.of("a", 3), "trainings: must be a tuple of a Training, got 3"),
        (lambda: Study.of("a", [Training.of(**TRAINING)], "mig", sampling=3), "sampling: must be a Sampling, got 3"),
        (lambda: Study.of(3, [Training.of(**TRAINING)], "mig"), "name: must be text, got 3"),
        (lambda: STUDIES["locatello2020"](data="dsprites"), "data: must be a tuple of text, got 'dsprites'"),
        (lambda: STUDIES["calibration"](parts="cases"), "parts: must be a tuple of text, got 'cases'"),
        (lambda: Calibration.of("mig", warp=(3.0,)), "warp: must be a tuple of a number from 0 to 1"),
        (lambda: Calibration.of("mig", num_factors=0), "num_factors: must be a whole number of at least 1"),
        (lambda: Store(3), "root: must be text or a path, got 3"),
        (lambda: Store("none").ids("x"), "kind: must be one of train, encode, score, got 'x'"),
        (lambda: Store("none").record("train", 3), "cell: must be one of"),
        (lambda: Store("none").publish("train", 3, {}), "spec: must be a mapping, got 3"),
        (lambda: Store("none").publish("train", {"a": object()}, {}), "spec: must hold numbers, text, lists and mapp"),
        (lambda: Store("none").publish("train", {}, {"a": {1j}}), "result: must hold numbers, text, lists and mapp"),
        (
            lambda: jaxdis.study.run(STUDIES["quickstart"](), "none", executor=3),
            "executor: must be a concurrent.futures.Executor or None, got 3",
        ),
    ],
)
def test_studies_name_what_they_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_study_refuses_counts_below_one(name):
    parameters = inspect.signature(STUDIES[name]).parameters
    for option in parameters.keys() & {"steps", "combinations", "train_samples", "test_samples"}:
        for count in (0, -1, 1.5, "x"):
            with pytest.raises(ValueError, match=rf"^{option}: must"):
                STUDIES[name](**{option: count})


# ---- What goes right


def test_rows_may_be_truth_values():
    factors = Factors.of(VALUES)
    assert factors.take(VALUES[:, 0] == 1).values.tolist() == VALUES[VALUES[:, 0] == 1].tolist()
    assert factors.take([3, 3, 0]).values.tolist() == VALUES[[3, 3, 0]].tolist()


def test_columns_come_in_the_order_asked():
    assert list(evaluate(CODES, VALUES, ("sap_r2", "mig"))) == ["sap_r2", "mig"]
    assert list(evaluate(CODES, VALUES, {"z": "mig", "a": METRICS["mig"]})) == ["z", "a"]


def test_relate_takes_variances_and_active():
    variances = np.full(CODES.shape, 0.5, np.float32)
    means = relate(CODES, VALUES, "mutual_information_sampled").strength
    sampled = relate(CODES, VALUES, "mutual_information_sampled", variances=variances)
    assert (sampled.strength < means).any()
    score = evaluate(CODES, VALUES, "rmig", variances=variances)["rmig"]
    np.testing.assert_allclose(jax.jit(jaxdis.SCORES["gap"])(sampled).score, score, atol=1e-6)
    masked = relate(CODES, VALUES, "mutual_information", active=[True, False, True])
    assert (np.asarray(masked.strength)[1] == 0).all()


def test_which_way_is_better_follows_the_options():
    assert not METRICS["jemmig"].errors
    assert METRICS["jemmig"].with_options(normalize=False).errors == ("score",)
    assert not METRICS["jemmig"].with_options(normalize=False).with_options(normalize=True).errors
    assert jaxdis.Blend("r2", "amari").errors == ("score",)
    assert [name for name, score in jaxdis.SCORES.items() if score.errors] == ["amari"]
    low = {name for name, metric in METRICS.items() if metric.errors}
    assert low == {"amari", "total_correlation", "code_information"}


def test_traits_are_about_arguments_that_the_function_has():
    with pytest.raises(ValueError, match="score: must have an argument 'prepared' for these traits, got none"):

        @metric(prepare=len)
        def score(codes, factors): ...

    with pytest.raises(ValueError, match="score: must have an argument 'bins' for these traits"):

        @metric(errors=("score",), unless="bins")
        def score(codes, factors): ...


def test_a_part_is_pointed_out_where_a_column_was_asked_for():
    scores = evaluate(CODES, VALUES, "mig")
    with pytest.raises(KeyError, match=r"part\('mig.per_factor'\)"):
        scores["mig.per_factor"]
    with pytest.raises(KeyError, match="the columns are"):
        scores[["mgi"]]


# ---- Files


def damaged_files(folder):
    """Each a file and what is said of it."""

    def archive(name, compression=zipfile.ZIP_DEFLATED, **arrays):
        path = folder / f"{name}.npz"
        with zipfile.ZipFile(path, "w", compression) as file:
            for member, content in arrays.items():
                file.writestr(f"{member}.npy", content)
        return path

    def npy(array):
        path = folder / "array.npy"
        np.save(path, array)
        return path.read_bytes()

    def header(shape, descr="'<f8'", rest=b"\0" * 64):
        text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rest

    values = npy(VALUES)
    flipped = archive("flipped", codes=npy(RNG.normal(size=(60, 30))), factors=values)
    content = bytearray(flipped.read_bytes())
    content[2000] ^= 255
    flipped.write_bytes(bytes(content))
    yield flipped, "is damaged"
    encrypted = archive("encrypted", zipfile.ZIP_STORED, codes=npy(CODES), factors=values)
    content = encrypted.read_bytes().replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01")
    encrypted.write_bytes(content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"))
    yield encrypted, "is damaged"
    method = archive("method", zipfile.ZIP_STORED, codes=npy(CODES), factors=values)
    content = method.read_bytes().replace(b"PK\x03\x04\x14\x00\x00\x00\x00", b"PK\x03\x04\x14\x00\x00\x00\x63")
    method.write_bytes(
        content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x63")
    )
    yield method, "is damaged"
    for name, shape in (
        ("huge", "(10**15, 3)"),
        ("large", "(1000000000000, 3)"),
        ("bool", "(True, 8)"),
        ("minus", "(-1, 8)"),
    ):
        yield archive(name, codes=header(shape), factors=values), "is damaged"
    yield archive("syntax", codes=header("(", rest=b""), factors=values), "is damaged"
    yield archive("bomb", codes=npy(np.zeros((9000, 1000))), factors=values), "is damaged"
    for name, sizes in (("inf", [np.inf, 3]), ("axes", [[3, 4]]), ("half", [2.7, 4]), ("less", [-3, 4])):
        yield archive(f"sizes_{name}", codes=npy(CODES), factors=values, sizes=npy(np.array(sizes))), "sizes: must"
    yield archive("names", codes=npy(CODES), factors=values, names=npy(np.array([1, 2]))), "names: must have one text"
    yield archive("halves", codes=npy(CODES), factors=npy(VALUES + 0.5)), "not whole numbers"
    yield archive("objects", codes=npy(np.array([{}])), factors=values), "pickled Python objects, which are never"
    yield archive("without", codes=npy(CODES)), "must have an array 'factors', got ['codes']"
    cut = archive("cut", codes=npy(CODES), factors=values)
    cut.write_bytes(cut.read_bytes()[:-200])
    yield cut, "cut short"
    yield folder / "none.npz", "no such file"
    for name, content, message in (
        ("big", header("(1000000000000, 3)"), "claims the shape"),
        ("head", npy(CODES)[:60], "head.npy: must be a plain .npy array, got another file or one that is cut short"),
        ("numbers", npy(CODES)[:500], "numbers.npy: must be a plain .npy array"),
        ("alone", npy(CODES), "--factors factors.npy"),
    ):
        path = folder / f"{name}.npy"
        path.write_bytes(content)
        yield path, message


def test_damaged_files_end_in_one_line(tmp_path, capsys):
    np.save(tmp_path / "factors.npy", VALUES)
    for path, message in damaged_files(tmp_path):
        codes_alone = path.suffix == ".npy" and path.stem != "alone"
        extra = ["--factors", str(tmp_path / "factors.npy")] if codes_alone else []
        assert main(["score", str(path), *extra, "--metrics", "mig"]) == 2, path
        error = capsys.readouterr().err.strip()
        assert message in error, (path, error)
        assert len(error.splitlines()) == 1


@pytest.fixture
def codes_file(tmp_path):
    np.savez(tmp_path / "codes.npz", codes=CODES, factors=VALUES)
    return tmp_path / "codes.npz"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--csv", "{folder}"], "--csv: must be a file, got the folder"),
        (["--csv", "{folder}/a", "--json", "{folder}/a"], "--json: must be another file than --csv"),
        (["--factors", "{folder}/factors.npy"], "--factors: goes with an .npy of codes"),
        (["--seed", "9223372036854775808"], "--seed: must be a whole number of at least 0"),
        (["--batch-size", "0"], "batch_size: must be a whole number"),
    ],
)
def test_score_refuses_before_it_computes(codes_file, tmp_path, capsys, options, message):
    before = codes_file.read_bytes()
    given = [option.format(file=codes_file, folder=tmp_path) for option in options]
    assert main(["score", str(codes_file), "--metrics", "mig", *given]) == 2
    assert message in capsys.readouterr().err
    assert codes_file.read_bytes() == before


@pytest.mark.parametrize("where", ["ascii", "full", "closed"])
def test_results_are_written_whatever_becomes_of_the_terminal(codes_file, tmp_path, where):
    out = tmp_path / "a.csv"
    command = [sys.executable, "-m", "jaxdis", "score", str(codes_file), "--metrics", "mig", "--csv", str(out)]
    environment = {**os.environ, "JAXDIS_CACHE": str(tmp_path)}
    if where == "ascii":
        environment["PYTHONIOENCODING"] = "ascii"
    read, closed = os.pipe()
    os.close(read)
    with open("/dev/full", "w") as full, os.fdopen(closed, "w") as pipe:
        target = {"ascii": subprocess.PIPE, "full": full, "closed": pipe}[where]
        done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    heads, row = out.read_text().splitlines()
    assert heads.startswith("member,mig,mig.per_factor[factor_0],")
    assert row.startswith("0,")
    assert "Traceback" not in done.stderr
    assert done.returncode == {"ascii": 0, "full": 2, "closed": 141}[where]
    assert ("standard output: cannot be written" in done.stderr) == (where == "full")


def test_continuous_factors_that_float32_would_merge_are_refused():
    seconds = 1.7e9 + np.linspace(0, 60, 500)
    with pytest.raises(ValueError, match="factors: must be values that float32 tells apart, got 'time'.*subtract"):
        Factors.of(seconds, (None,), ("time",))
    assert Factors.of(seconds - 1.7e9, (None,)).num_samples == 500


def test_capitals_and_dashes_of_names_do_not_matter():
    assert list(jaxdis.evaluate(CODES, VALUES, ["MIG", "sap-r2"])) == ["mig", "sap_r2"]
