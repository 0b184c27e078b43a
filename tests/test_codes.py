import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis import codes, models
from jaxdis.models._evidence import evidence
from jaxdis.models.objectives import _losses as distributions
from tests.models.conftest import untrained


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).random((30, 8, 8, 1), np.float32)


@pytest.fixture(scope="module")
def zoo(images):
    config = models.Config(data="noise", method=models.Vae(network=models.Mlp((16,), 3), batch_size=8), steps=5)
    return untrained(config, models.members({"beta": {"beta": [1.0, 4.0]}}, seeds=2), images)


def test_codes_are_means_or_samples(zoo, images):
    posterior = zoo.encode(images)
    np.testing.assert_array_equal(codes.of(posterior), posterior.mean)
    draws = np.stack([codes.of(posterior, "sample", jax.random.key(i)) for i in range(200)])
    np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=6 * np.sqrt(posterior.variance.max() / 200))
    np.testing.assert_allclose((draws.var(0) / posterior.variance).mean(), 1, atol=0.02)
    np.testing.assert_array_equal(draws[3], codes.of(posterior, "sample", jax.random.key(3)))


def test_the_kind_of_code_is_checked(zoo, images):
    posterior = zoo.encode(images)
    with pytest.raises(ValueError, match="key: must be a typed key to sample codes"):
        codes.of(posterior, "sample")
    with pytest.raises(ValueError, match="kind: must be 'mean' or 'sample'"):
        codes.of(posterior, "mode")
    with pytest.raises(ValueError, match="by: must"):
        codes.active(posterior, by="size")


def test_active_codes_by_hand():
    rng = np.random.default_rng(0)
    mean = np.stack([rng.normal(size=1000), 0.01 * rng.normal(size=1000), np.full(1000, 3.0)], 1)[None]
    variance = np.broadcast_to([0.1, 1.0, 1.0], mean.shape)
    posterior = models.Posterior(mean, variance)
    assert codes.active(posterior).tolist() == [[True, False, False]]
    # A code that is constant but far from the prior costs nats all the same.
    assert codes.active(posterior, by="divergence").tolist() == [[True, False, True]]
    wanted = 0.5 * ((mean**2).mean(1) + variance[:, 0] - np.log(variance[:, 0]) - 1)
    np.testing.assert_allclose(codes.divergence(posterior), wanted, rtol=1e-6)


def test_active_codes_of_plain_arrays():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=1000)
    rare = np.where(np.arange(1000) < 20, 5.0, 0.0)  # a code that a few outliers move
    array = np.stack([normal, rare, np.full(1000, 3.0)], 1).astype(np.float32)
    assert codes.active(array).tolist() == [True, True, False]
    assert codes.active(array, by="interquartile").tolist() == [True, False, False]
    assert codes.active(array, by="interquartile", threshold=1.4).tolist() == [False, False, False]  # 1.35 of a normal
    posterior = models.Posterior(array[None], np.ones_like(array)[None])
    assert codes.active(posterior, by="interquartile").tolist() == [[True, False, False]]
    with pytest.raises(ValueError, match="by: a divergence needs a posterior"):
        codes.active(array, by="divergence")


def test_a_variance_that_underflowed_is_huge_not_infinite():
    assert np.isfinite(codes.divergence(models.Posterior(np.zeros((4, 2)), np.zeros((4, 2), np.float32)))).all()


def test_the_evidence_is_the_mean_over_images_of_its_definition(zoo, images):
    key = jax.random.key(1)
    got = evidence(zoo, images, key)
    network = zoo.config.method.network
    encode, decode = (jax.jit(functools.partial(network.apply, method=name)) for name in ("encode", "decode"))
    likelihood = jax.jit(distributions.negative_log_likelihood)
    draws = jax.jit(jax.vmap(lambda key, i: jax.random.normal(jax.random.fold_in(key, i), (3,)), (None, 0)))
    for j in range(len(zoo)):
        mean, log_variance = encode(zoo.export(j), jnp.asarray(images))
        noise = np.asarray(draws(key, jnp.arange(len(images))))
        logits = decode(zoo.export(j), np.asarray(mean) + np.exp(np.asarray(log_variance) / 2) * noise)
        reconstruction = likelihood(logits, jnp.asarray(images)) / len(images)
        mean, log_variance = np.asarray(mean), np.asarray(log_variance)
        kl = 0.5 * (mean**2 + np.exp(log_variance) - log_variance - 1).sum(1).mean()
        np.testing.assert_allclose([got.reconstruction[j], got.kl[j]], [reconstruction, kl], rtol=1e-5)
    np.testing.assert_allclose(got.elbo, -got.reconstruction - got.kl)


def test_the_evidence_does_not_depend_on_batches_or_other_members(zoo, images):
    left, right = (evidence(zoo, images, jax.random.key(0), batch_size=size) for size in (7, 30))
    np.testing.assert_allclose(left.elbo, right.elbo, rtol=1e-5)
    alone = evidence(zoo[-1], images, jax.random.key(0))
    np.testing.assert_allclose(alone.reconstruction, left.reconstruction[-1:], rtol=1e-5)


RNG = np.random.default_rng(0)
WIDE, NARROW = (RNG.normal(size=(60, width)).astype(np.float32) for width in (4, 2))


def test_members_of_different_width_are_stacked_with_what_they_have():
    stacked, active = jaxdis.stack([WIDE, NARROW])
    assert stacked.shape == (2, 60, 4)
    np.testing.assert_array_equal(stacked[1], np.pad(NARROW, ((0, 0), (0, 2))))
    np.testing.assert_array_equal(active, [[True] * 4, [True, True, False, False]])
    for odd, words in (
        (WIDE, "codes: must be a list of arrays"),
        ([], "codes: must be a list of arrays"),
        ([WIDE, NARROW[:5]], r"codes: must be arrays \[n, d\] of the same samples, got shapes \(60, 4\), \(5, 2\)"),
    ):
        with pytest.raises(ValueError, match=words):
            jaxdis.stack(odd)


def test_a_ragged_zoo_scores_each_member_as_if_it_were_alone():
    factors = np.arange(60)[:, None] % [2, 3]
    names = ("mig", "modularity", "mcc", "sap")
    pair = {"test": ([WIDE, NARROW], factors)}
    scores = jaxdis.evaluate([WIDE, NARROW], factors, names, 0, ragged=True, **pair)
    for member, given in enumerate((WIDE, NARROW)):
        alone = jaxdis.evaluate(given, factors, names, 0, test=(given, factors))
        for name in names:
            np.testing.assert_allclose(scores[name][member], alone[name], rtol=1e-5)
    blind = {"blind": jaxdis.Direct(jaxdis.metrics.Spec(lambda codes, factors: None))}  # takes padding for codes
    with pytest.raises(ValueError, match="active: needs metrics that read it, got 1 of 1"):
        jaxdis.evaluate([WIDE, NARROW], factors, blind, ragged=True)
    with pytest.raises(ValueError, match="active: must be left to ragged=True"):
        jaxdis.evaluate([WIDE, NARROW], factors, "mig", ragged=True, active=[True] * 4)
    with pytest.raises(ValueError, match="codes: must be one array.*jaxdis.stack"):
        jaxdis.evaluate([WIDE, NARROW], factors, "mig")
