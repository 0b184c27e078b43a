"""Wide codes are read in blocks, by relations and evaluations, in memory or on disk, with the numbers of the whole."""

import subprocess
import sys

import jax
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO

from jaxdis import RELATIONS, Factors, evaluate, relate
from jaxdis.evaluation import _inputs, _member
from jaxdis.factors import Sample
from jaxdis.relations import _relation
from tests.metrics.test_contracts import assert_same

SIZES = (3, 4)
METRICS = ("mig", "modularity", "sap_r2", "mcc")


def samples(members=1, n=200, d=40):
    rng = np.random.default_rng(0)
    values = rng.integers(0, SIZES, (n, 2))
    codes = rng.normal(size=(members, n, d)) + 2 * values[:, rng.integers(0, 2, d)]
    return codes.astype(np.float32), Factors.of(values, SIZES)


def in_blocks(monkeypatch, codes, factors, metrics, block=15, **arguments):
    monkeypatch.setattr(_member, "WIDE", 1)
    monkeypatch.setattr(_member, "BLOCK_NUMBERS", block * codes.size // codes.shape[-1])
    return evaluate(codes, factors, metrics, **arguments)


def test_metrics_of_relations(monkeypatch):
    codes, factors = samples(members=2)
    active = np.arange(40) % 7 != 0
    whole = evaluate(codes, factors, METRICS, active=active)
    assert_same(in_blocks(monkeypatch, codes, factors, METRICS, active=active), whole, atol=2e-6)


@pytest.mark.parametrize("held_out", [False, True])
def test_metrics_with_held_out_samples(monkeypatch, held_out):
    codes, factors = samples()
    test = (codes[0] + 0.1, factors) if held_out else None
    metrics = ("sap", "snc", "mig_ksg", "rmig", "jemmig")
    whole = evaluate(codes[0], factors, metrics, test=test)
    assert_same(in_blocks(monkeypatch, codes[0], factors, metrics, test=test), whole, atol=2e-6)


@pytest.mark.parametrize("place", ["train", "test"])
def test_a_code_that_is_not_finite_makes_single_neuron_classification_nan(monkeypatch, place):
    codes, factors = samples()
    held_out = codes[0].copy()
    (codes[0] if place == "train" else held_out)[5, 39] = np.nan
    with pytest.warns(RuntimeWarning, match="in codes 39; "):
        scores = in_blocks(monkeypatch, codes[0], factors, "snc", test=(held_out, factors))
    assert np.isnan(scores["snc"])


def test_one_of_many_codes_that_is_not_finite_is_named_and_touches_no_other_row_or_member():
    rng, names = np.random.default_rng(0), ("mig", "sap_r2", "mcc")
    values = rng.integers(0, 4, (30, 1))
    codes = rng.normal(size=(2, 30, 65_536)).astype(np.float32)
    codes[1, :, -1] = values[:, 0]
    alone = evaluate(codes[1], values, names)
    codes[0, 7, 40_000] = np.nan
    with pytest.warns(RuntimeWarning, match=r"in codes 40000; .* other members are not touched"):
        both = evaluate(codes, values, names)
    for name in names:
        assert np.isnan(both[name][0])
        assert both[name][1] == pytest.approx(alone[name], abs=1e-6)
    strength = relate(codes[0], Factors.of(values), "r2").strength
    assert np.flatnonzero(np.isnan(strength).any(axis=1)).tolist() == [40_000]


def test_codes_on_disk(monkeypatch, tmp_path):
    codes, factors = samples()
    np.save(tmp_path / "codes.npy", codes[0])
    stored = np.load(tmp_path / "codes.npy", mmap_mode="r")
    assert_same(in_blocks(monkeypatch, stored, factors, "mig"), evaluate(codes[0], factors, "mig"), atol=2e-6)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array"])
def test_sparse_codes(monkeypatch, form, stored):
    codes, factors = samples()
    codes = np.where(np.abs(codes[0]) < 1, 0, codes[0])
    sparse = getattr(scipy.sparse, form)(codes)
    monkeypatch.setattr(_inputs, "IN_MEMORY", 0 if stored else 1 << 28)
    monkeypatch.setattr(_inputs, "AT_ONCE", 4 * 40 * 7)
    assert_same(evaluate(sparse, factors, "mig"), evaluate(codes, factors, "mig"), atol=2e-6)


def test_sparse_codes_with_explicit_zeros():
    codes, factors = samples()
    sparse = scipy.sparse.csr_array(codes[0])
    sparse.data[::3] = 0
    assert_same(evaluate(sparse, factors, "mig"), evaluate(sparse.toarray(), factors, "mig"), atol=2e-6)
    with pytest.raises(ValueError, match="codes: must be real numbers, got dtype complex64"):
        evaluate(sparse.astype(np.complex64), factors, "mig")
    with pytest.raises(ValueError, match="codes: must have at least one member and one code"):
        evaluate(sparse[:, :0], factors, "mig")


def test_more_codes_than_can_be_listed():
    values = np.arange(64)[:, None] % 2
    codes = np.zeros((64, (1 << 20) + 1), np.float32)
    assert np.isclose(evaluate(codes, values, "mig")["mig"], 0)  # all constant
    codes[:, -1] = values[:, 0]
    assert np.isclose(evaluate(codes, values, "mig")["mig"], 1)


LIMITED = """
import resource, sys, numpy as np
from jaxdis import evaluate
n, d = 10_000, 16_384
codes = np.load(sys.argv[1], mmap_mode="r")
values = np.random.default_rng(0).integers(0, 4, (n, 2))
resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
scores = evaluate(codes, values, ("mig", "mcc"))
print(*(f"{scores[name]:.3f}" for name in scores))
"""


def test_codes_on_disk_of_which_memory_holds_a_part(tmp_path):
    """655 MB of codes, of which each of two tells its factor."""
    n, d = 10_000, 16_384
    codes = np.lib.format.open_memmap(tmp_path / "codes.npy", "w+", np.float32, (n, d))
    rng = np.random.default_rng(1)
    for start in range(0, n, 1000):
        codes[start : start + 1000] = rng.normal(size=(1000, d))
    values = np.random.default_rng(0).integers(0, 4, (n, 2))
    codes[:, [5, d - 1]] = values
    del codes
    run = [sys.executable, "-c", LIMITED, str(tmp_path / "codes.npy")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    scores = [float(word) for word in done.stdout.split("\n")[0].split()]
    assert scores[0] > 0.95
    assert scores[1] > 0.95


@pytest.mark.parametrize("stored", [False, True])
def test_bcoo_codes(monkeypatch, stored):
    codes, factors = samples()
    codes = np.where(np.abs(codes[0]) < 1, 0, codes[0])
    monkeypatch.setattr(_inputs, "IN_MEMORY", 0 if stored else 1 << 28)
    places = np.argwhere(codes)
    padding = np.tile(codes.shape, (5, 1))
    data = np.concatenate([codes[codes != 0], np.ones(5, np.float32)])
    padded = BCOO((data, np.concatenate([places, padding])), shape=codes.shape)
    assert_same(evaluate(padded, factors, "mig"), evaluate(codes, factors, "mig"), atol=2e-6)
    batched = BCOO((np.ones((200, 1)), np.zeros((200, 1, 1), np.int32)), shape=codes.shape)
    with pytest.raises(ValueError, match=r"codes: must be BCOO \[n, d\] with sparse axes alone, got \(200, 40\) with"):
        evaluate(batched, factors, "mig")


OF_THREE = (3, 4, 10)
ALONE = [name for name, spec in RELATIONS.items() if hasattr(spec.function, "rows_alone")]


def sample_of_three(seed, n, d):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, OF_THREE, (n, len(OF_THREE)))
    codes = rng.normal(size=(n, d)) + values[:, rng.integers(0, len(OF_THREE), d)]
    codes[:, 7] = 0
    return Sample(codes.astype(np.float32), Factors.of(values, OF_THREE))


def related(name, monkeypatch, block_numbers):
    monkeypatch.setattr(_relation, "BLOCK_NUMBERS", block_numbers)
    spec, (codes, factors, *_) = RELATIONS[name], sample_of_three(0, 200, 150)
    arrays = {"test": sample_of_three(1, 100, 150)} if spec.reads.test else {}
    arrays |= {"active": np.arange(150) != 5} if spec.reads.active else {}
    arrays |= {"variances": np.full((200, 150), 0.1, np.float32)} if spec.reads.variances else {}
    return jax.jit(lambda codes, arrays: spec(codes, factors, **arrays))(codes, arrays)


@pytest.mark.parametrize("name", ALONE)
def test_blocks_of_codes_have_the_numbers_of_the_whole(name, monkeypatch):
    whole, blocks = (related(name, monkeypatch, numbers) for numbers in (1 << 23, 64 * 200))
    for field in ("strength", "ceiling", "code_ceiling", "active"):
        # Counts are the same; tables of other shapes may be summed in another order.
        atol = 1e-6 if name.startswith("mutual") else 0
        np.testing.assert_allclose(getattr(blocks, field), getattr(whole, field), rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("sample_of_three", "codes", "width"), [(10_000, 10, 10), (10_000, 1000, 500), (10**7, 100, 50), (10, 16_384, 8192)]
)
def test_width_of_a_block(sample_of_three, codes, width):
    assert _relation.width_of(sample_of_three, codes) == width
