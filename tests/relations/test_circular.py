"""Circular factors: an angle means the same wherever it is cut, and metrics that cannot know this say so."""

import numpy as np
import pytest
from scipy.special import digamma

import jaxdis
from jaxdis import RELATIONS, Factors, evaluate
from jaxdis._learners.neighbors import joint_continuous_information

N = 600
RNG = np.random.default_rng(0)
ANGLE, SHAPE = RNG.uniform(0, 360, N), RNG.integers(0, 3, N)
PHASE = 2 * np.pi * ANGLE / 360
CODES = np.stack([np.sin(PHASE), np.cos(PHASE), SHAPE, RNG.normal(size=N)], axis=1)
CODES = (CODES + 0.1 * RNG.normal(size=CODES.shape)).astype(np.float32)
KINDS = {"angle": ("circular", 360.0)}


def table(angle, kinds=None):
    return Factors.from_table({"angle": angle, "shape": SHAPE}, kinds=kinds or KINDS)


@pytest.mark.parametrize(
    "names",
    [["mcc"], ["sap_r2"], ["mig", "mig_sup", "dcimig"], ["rmig"], pytest.param(["mig_ksg"], marks=pytest.mark.slow)],
    ids=",".join,
)
def test_an_angle_is_the_same_from_wherever_it_is_measured(names):
    there, moved = (evaluate(CODES, table(angle), names, 0) for angle in (ANGLE, (ANGLE + 180) % 360))
    linear = [evaluate(CODES, table(angle, {"angle": "continuous"}), names, 0) for angle in (ANGLE, (ANGLE + 90) % 360)]
    for name in names:
        # Angles are rounded, after which distances that were equal may differ: neighbors change places.
        assert moved[name] == pytest.approx(float(there[name]), abs=1e-4 if name == "mig_ksg" else 1e-5)
        assert abs(linear[1][name] - linear[0][name]) > 1e-3  # which the test would not see otherwise


def test_the_correlation_with_an_angle_is_that_with_its_sine_and_cosine():
    """Against the share of a code's variance that least squares explain."""
    for given in (np.ones(N), RNG.integers(0, 3, N).astype(float)):
        relation = jaxdis.relate(CODES, table(ANGLE), "r2", weights=given)
        root = np.sqrt(given)[:, None]
        inputs = root * np.stack([np.ones(N), np.sin(PHASE), np.cos(PHASE)], axis=1)
        for code, strength in zip(CODES.T.astype(float), np.asarray(relation.strength)[:, 0], strict=True):
            target = root[:, 0] * code
            left = ((target - inputs @ np.linalg.lstsq(inputs, target, rcond=None)[0]) ** 2).sum()
            mean = (root[:, 0] * target).sum() / (root**2).sum()
            assert strength == pytest.approx(1 - left / ((root[:, 0] * (code - mean)) ** 2).sum(), abs=1e-4)
        squared = np.asarray(jaxdis.relate(CODES, table(ANGLE), "correlation", weights=given).strength) ** 2
        np.testing.assert_allclose(squared, np.asarray(relation.strength), atol=1e-5)


@pytest.mark.parametrize("step", [9.0, 0.1, 7.2])
def test_bins_of_an_angle_go_around_from_0(step):
    """20 bins over the period: by hand, in whole numbers of tenths of a degree."""
    period = 40 * step
    angles = np.arange(40) * step
    classes = np.arange(40) // 2
    factors = Factors.from_table({"angle": np.tile(angles, 5) - 3 * period}, kinds={"angle": "circular"})
    assert factors.periods[0] == pytest.approx(period)
    relation = jaxdis.relate(np.tile(classes, 5)[:, None].astype(float), factors, "mutual_information")
    assert float(relation.ceiling[0]) == pytest.approx(np.log(20), rel=1e-5)
    assert float(relation.strength[0, 0]) == pytest.approx(np.log(20), rel=1e-5)


def test_two_opposite_angles_are_a_factor_of_two_values():
    factors = Factors.from_table({"angle": [0.0, 180.0] * 30}, kinds=KINDS)
    codes = np.tile([[0.0, 1.0], [1.0, 1.0]], (30, 1))
    np.testing.assert_allclose(np.asarray(jaxdis.relate(codes, factors, "r2").strength)[:, 0], [1, 0], atol=1e-5)


def test_metrics_that_read_an_angle_as_a_number_are_refused_by_name():
    for name in ("dci", "dci_lasso", "dci_forest", "structured"):
        with pytest.raises(ValueError, match=f"factors: must not be circular for {name}, got angle; .*'continuous'"):
            evaluate(CODES, table(ANGLE), name)
    for name, options in {"random_forest": {}, "impact_intensity": {"joint": "neural"}}.items():
        with pytest.raises(ValueError, match=f"must not be circular for {name}, got angle"):
            jaxdis.relate(CODES, table(ANGLE), RELATIONS[name].with_options(**options), 0)


def information_around(codes, turns, neighbors=3):
    """Kraskov et al. (2004), first estimator, over all pairs; distances of angles are arcs of a turn of length 4."""
    arcs = np.abs(turns[:, None] - turns)
    arcs = 4 * np.minimum(arcs, 1 - arcs)
    others = ~np.eye(len(turns), dtype=bool)
    codes = codes / codes.std(axis=0)
    apart = np.abs(codes[:, None] - codes).max(axis=2)
    radius = np.sort(np.maximum(apart, arcs), axis=1)[:, neighbors, None]
    near = [digamma(((distance < radius) & others).sum(axis=1) + 1) for distance in (apart, arcs)]
    return max(0.0, digamma(len(turns)) + digamma(neighbors) - np.mean(near[0] + near[1]))


def test_nearest_neighbors_of_an_angle_are_found_around_the_circle():
    unbounded = RELATIONS["mutual_information_neighbors"].with_options(bounded=False)
    relation = jaxdis.relate(CODES, table(ANGLE), unbounded)
    by_pairs = [information_around(CODES[:, [i]].astype(float), ANGLE / 360) for i in range(CODES.shape[1])]
    np.testing.assert_allclose(np.asarray(relation.strength)[:, 0], by_pairs, atol=2e-3)


def test_all_codes_together_are_compared_around_the_circle():
    together = joint_continuous_information(CODES, np.asarray(ANGLE[:, None], np.float32), (360.0,))
    assert float(together[0]) == pytest.approx(information_around(CODES.astype(float), ANGLE / 360), abs=2e-3)


def test_a_constant_code_knows_nothing_of_an_angle_on_a_grid_and_a_copy_what_its_bins_hold():
    angles = np.tile(np.arange(40) * 9.0, 10)
    codes = np.stack([np.ones(400), angles], axis=1).astype(np.float32)
    factors = Factors.from_table({"angle": angles}, kinds=KINDS)
    relation = jaxdis.relate(codes, factors, "mutual_information_neighbors")
    assert np.asarray(relation.strength)[:, 0] == pytest.approx([0, np.asarray(relation.ceiling)[0]], abs=1e-5)
    # Of 30 bins, 10 hold two of the 40 angles.
    assert np.asarray(relation.ceiling)[0] == pytest.approx(np.log(40) - np.log(2) / 2, rel=1e-5)


def test_metrics_of_classes_leave_an_angle_out_and_sap_reads_its_sine_and_cosine():
    explicit = evaluate(CODES, table(ANGLE), "explicitness", 0)
    assert np.isnan(explicit.part("explicitness.per_factor")[0])
    pair = {"test": (CODES, table(ANGLE))}
    accuracy = jaxdis.relate(CODES, table(ANGLE), "svm_accuracy", **pair)
    explained = jaxdis.relate(CODES, table(ANGLE), "r2")
    np.testing.assert_allclose(accuracy.strength[:, 0], explained.strength[:, 0], rtol=1e-6)


def test_data_sets_mark_their_angles_on_request():
    space, render = jaxdis.data.dsprites(circular=True)
    plain, _ = jaxdis.data.dsprites()
    rows = np.array([[0, 1, 39, 3, 4], [0, 1, 0, 3, 4]], np.int32)
    factors = space.wrap(rows)
    assert factors.kinds == ("classes", "classes", "circular", "classes", "classes")
    assert factors.periods[2] == 39  # the last orientation is the first
    np.testing.assert_array_equal(np.asarray(render(rows))[0], np.asarray(render(rows))[1])
    assert plain.wrap(rows).kinds == ("classes",) * 5
    teapots, _ = jaxdis.data.teapots(circular=True)
    assert teapots.wrap(np.zeros((2, 5), np.float32)).kinds[:2] == ("circular", "continuous")
    with pytest.raises(ValueError, match="factor: must be one of shape, scale"):
        space.circling({"angle": 40})


def test_slots_are_refused_an_angle_that_a_forest_would_read_as_a_number():
    structure = jaxdis.structured.Structure.slots(2, 1, objects=2, properties=("angle",))
    table = {"first": ANGLE, "second": ANGLE[::-1].copy()}
    factors = Factors.from_table(table, kinds={"first": "circular", "second": "circular"})
    with pytest.raises(ValueError, match="must not be circular for random_forest, got first, second"):
        jaxdis.evaluate_structured(CODES[:, :2, None], factors, structure)
