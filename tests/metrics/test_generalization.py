"""New combinations: a code that keeps two factors apart names the pair it never saw; one that mixes them does not."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import Direct, Factors, Spec, evaluate
from jaxdis.metrics._generalization import novel_combination

METRIC = Direct(Spec(novel_combination)).with_options(epochs=100, width=64)
NAMES = ("shape", "size", "side")


def split(encode, num_samples: int = 2000):
    """Shape 2 with size 1 held out; a third factor varies everywhere."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, (3, 3, 4), size=(num_samples, 3))
    novel = (values[:, 0] == 2) & (values[:, 1] == 1)
    codes = (encode(values) + 0.01 * rng.normal(size=(num_samples, 3))).astype(np.float32)
    factors = [Factors.of(values[rows], (3, 3, 4), NAMES) for rows in (~novel, novel)]
    return codes[~novel], factors[0], (codes[novel], factors[1])


def apart(values):
    return values.astype(float)


def together(values):
    """Pairs of shape and size as nine places on a square in no order: what is next to the missing one tells nothing."""
    place = np.array([[0, 5, 2], [7, 3, 8], [6, 4, 1]])[values[:, 0], values[:, 1]]
    return np.stack([place // 3, place % 3, values[:, 2]], axis=1).astype(float)


def scores_of(encode):
    codes, factors, test = split(encode)
    return evaluate(codes, factors, {"novel": METRIC}, jax.random.key(0), test=test)


def test_codes_that_keep_factors_apart_name_the_pair():
    scores = scores_of(apart)
    assert scores["novel"] > 0.9
    assert scores["novel.familiar"] > 0.95
    np.testing.assert_array_less(0.9, scores.part("novel.per_factor"))


def test_codes_that_mix_them_fail_on_the_new_pair_alone():
    scores = scores_of(together)
    assert scores["novel"] < 0.1
    assert scores["novel.familiar"] > 0.9
    assert scores["novel.linear_familiar"] < scores["novel.familiar"]
    # The third factor varies in the test samples: its accuracy is full, and adjusted by chance 1/4 stays full.
    assert scores.part("novel.per_factor")[2] > 0.95


def test_without_one_held_out_pair_it_is_undefined():
    codes, factors, (novel_codes, novel) = split(apart, 900)
    codes, novel_codes = jnp.asarray(codes), jnp.asarray(novel_codes)
    run = jax.jit(lambda key, test: novel_combination(key, codes, factors, test=test, epochs=1, width=8))
    from jaxdis.factors import Sample

    seen = Sample(codes[:100], factors.take(jnp.arange(100)))
    assert np.isnan(run(jax.random.key(0), seen).score)
    bad = Sample(novel_codes.at[0, 0].set(jnp.nan), novel)
    found = run(jax.random.key(0), bad)
    assert np.isnan(found.score)
    assert all(np.isnan(field).all() for field in found)
