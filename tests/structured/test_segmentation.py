"""ARI and segmentation covering against released evaluations; slots matched to objects."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from jaxdis.structured import ari, contingency, match_slots, mean_segmentation_covering, order_agreement
from tests.golden_values import arrays, numbers, undefined
from tests.programs import compiled_whole

ari, mean_segmentation_covering, order_agreement = map(
    compiled_whole, (ari, mean_segmentation_covering, order_agreement)
)


@pytest.fixture(scope="module")
def masks():
    stored = arrays("segmentation")
    segments = {
        f"{side}_segments": int(stored[name].max()) + 1 for side, name in (("true", "true"), ("predicted", "pred"))
    }
    return stored["true"], stored["pred"], segments


@pytest.fixture(scope="module")
def recorded():
    return numbers("segmentation")


@pytest.mark.parametrize("method", ["scatter", "one_hot"])
@pytest.mark.parametrize(
    ("foreground", "name"), [(False, "multi_object_datasets_all"), (True, "multi_object_datasets_fg")]
)
def test_ari_is_the_recorded_one(masks, recorded, method, foreground, name):
    true, predicted, segments = masks
    found = ari(true, predicted, **segments, foreground=foreground, method=method)
    np.testing.assert_allclose(found, undefined(recorded[name]), atol=1e-6)


@pytest.mark.parametrize("side", [1, 8])
@pytest.mark.parametrize("shape", [(64, 64), (1024, 1024)])
def test_ari_of_tiny_objects_in_large_images_equals_scikit_learn(shape, side):
    """To float32: pairs that are apart are counted, of which there are few, and no large numbers are subtracted."""
    true, predicted = np.zeros((2, *shape), np.int32)
    true[:side, :side] = 1
    predicted[:side, : 2 * side] = 1
    found = ari(true, predicted, true_segments=2, predicted_segments=2)
    assert found == pytest.approx(adjusted_rand_score(true.ravel(), predicted.ravel()), rel=1e-6)


@pytest.mark.parametrize("foreground", [False, True])
def test_covering_is_the_recorded_one(masks, recorded, foreground):
    true, predicted, segments = masks
    found = mean_segmentation_covering(true, predicted, **segments, foreground=foreground)
    np.testing.assert_allclose(found.mean, recorded[f"ocl_mean_sc_ignore{int(foreground)}"], atol=1e-6)
    np.testing.assert_allclose(found.scaled, recorded[f"ocl_scaled_sc_ignore{int(foreground)}"], atol=1e-6)


def test_any_leading_axes_under_one_program(masks):
    true, predicted, segments = masks
    many = jax.jit(lambda a, b: ari(a, b, **segments))
    flat = many(true, predicted)
    np.testing.assert_array_equal(many(true.reshape(2, 4, 24, 24), predicted.reshape(2, 4, 24, 24)), flat.reshape(2, 4))
    np.testing.assert_allclose(jax.vmap(many)(true[:, None], predicted[:, None])[:, 0], flat, atol=1e-6)


def test_random_masks_against_scikit_learn():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 5, (20, 16, 16))
    predicted = np.where(rng.random(true.shape) < rng.random((20, 1, 1)), true, rng.integers(0, 6, true.shape))
    given = np.asarray(true, np.int32), np.asarray(predicted, np.int32)
    sizes = {"true_segments": 5, "predicted_segments": 6}
    for foreground in (False, True):
        expected = [
            adjusted_rand_score(t[keep], p[keep])
            for t, p in zip(true, predicted, strict=True)
            for keep in [t > 0 if foreground else t >= 0]
        ]
        np.testing.assert_allclose(ari(*given, **sizes, foreground=foreground), expected, atol=1e-6)
    tables = contingency(*given, 5, 6)
    assert tables.sum() == true.size
    np.testing.assert_array_equal(tables, contingency(*given, 5, 6, method="one_hot"))


def test_partitions_into_single_pixels_or_one_segment():
    one, each = jnp.zeros((2, 2), jnp.int32), jnp.arange(4, dtype=jnp.int32).reshape(2, 2)
    sizes = {"true_segments": 4, "predicted_segments": 4}
    for true, predicted, expected in ((one, one, 1.0), (each, each, 1.0), (one, each, 0.0), (each, one, 0.0)):
        assert ari(true, predicted, **sizes) == expected
    assert np.isnan(ari(one, each, **sizes, foreground=True))
    assert mean_segmentation_covering(one, each, **sizes, foreground=True).mean == 0


def test_slots_are_matched_to_the_objects_they_cover():
    rng = np.random.default_rng(1)
    true = rng.integers(0, 5, (50, 12, 12))
    orders = np.array([rng.permutation(5) for _ in range(50)])  # object o is painted by slot orders[:, o]
    predicted = np.take_along_axis(orders, true.reshape(50, -1), axis=1).reshape(true.shape)
    noisy = np.where(rng.random(true.shape) < 0.2, rng.integers(0, 5, true.shape), predicted)
    found = match_slots(true, noisy, true_segments=5, predicted_segments=5)
    np.testing.assert_array_equal(found, orders)
    sizes = {"true_segments": 5, "predicted_segments": 5}
    on_host = match_slots(true, noisy, **sizes, assignment="scipy")
    np.testing.assert_array_equal(on_host, found)
    fewer = match_slots(true, noisy, true_segments=5, predicted_segments=3)
    assert ((np.asarray(fewer) == -1).sum(axis=1) == 2).all()


def test_agreement_of_orders_and_its_chance_level():
    """Table 1: chance is 1 in 120 exactly and 4 of 5 mismatches; the best is 100 % and 0."""
    rng = np.random.default_rng(2)
    reference, other = rng.permuted(np.tile(np.arange(5, dtype=np.int32), (2, 20_000, 1)), axis=2)
    renamed = order_agreement(reference[:, np.array([3, 1, 4, 0, 2])], reference)
    assert renamed.exact == 1
    assert renamed.mismatch == 0
    chance = order_agreement(other, reference, align=False)
    assert chance.exact == pytest.approx(1 / 120, abs=0.002)  # 3 standard deviations
    assert chance.mismatch == pytest.approx(4, abs=0.025)
    partly = reference.copy()
    partly[:5000, :2] = partly[:5000, 1::-1]
    swapped = order_agreement(partly, reference)
    assert swapped.exact == pytest.approx(0.75)
    assert swapped.mismatch == pytest.approx(0.5)
