"""Relations of many codes, computed in blocks: the numbers of all codes at once."""

import jax
import numpy as np
import pytest

from jaxdis import RELATIONS, Factors, evaluate
from jaxdis.factors import Sample
from jaxdis.relations import _relation

SIZES = (3, 4, 10)
ALONE = [name for name, spec in RELATIONS.items() if hasattr(spec.function, "rows_alone")]


def samples(seed, n, d):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, SIZES, (n, len(SIZES)))
    codes = rng.normal(size=(n, d)) + values[:, rng.integers(0, len(SIZES), d)]
    codes[:, 7] = 0
    return Sample(codes.astype(np.float32), Factors.of(values, SIZES))


def related(name, monkeypatch, block_numbers):
    monkeypatch.setattr(_relation, "BLOCK_NUMBERS", block_numbers)
    spec, (codes, factors, *_) = RELATIONS[name], samples(0, 200, 150)
    arrays = {"test": samples(1, 100, 150)} if spec.reads.test else {}
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
    ("samples", "codes", "width"), [(10_000, 10, 10), (10_000, 1000, 500), (10**7, 100, 50), (10, 16_384, 8192)]
)
def test_width_of_a_block(samples, codes, width):
    assert _relation.width_of(samples, codes) == width


def test_single_neuron_classification_finds_codes_in_any_block(monkeypatch):
    monkeypatch.setattr(_relation, "BLOCK_NUMBERS", 64 * 200)
    (codes, factors, *_), held_out = samples(0, 200, 150), samples(1, 100, 150)
    for place, column in ((3, 0), (149, 1), (80, 2)):
        codes[:, place], held_out.codes[:, place] = factors.values[:, column], held_out.factors.values[:, column]
    scores = evaluate(codes, factors, "snc", test=held_out[:2])
    assert scores["snc"] == pytest.approx(1)
    np.testing.assert_array_equal(scores.part("snc.code"), [3, 149, 80])
