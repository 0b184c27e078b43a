"""evaluate_structured: planted orders, the paper's ablation, zoos, groups, degenerate structures, wrong arguments."""

import functools

import numpy as np
import pytest

import jaxdis
from jaxdis import RELATIONS, Factors, evaluate_structured
from jaxdis.encoders._evaluate_slots import Structured
from jaxdis.relations._learned import PRESETS
from jaxdis.structured import Structure
from tests.structured.planted import DIMS, plant, recovered, shapes

# Small forests: what is tested is the order of slots, not the depth of trees.
FOREST = PRESETS["dangnhu2022"].with_options(trees=4, depth=6)
LINEAR = RELATIONS["r2"]
AS_IT_COMES = {"start": "given", "iterations": 0}


def scores(codes, planted, groups, objects=4, final=FOREST, **options):
    return evaluate_structured(
        codes, planted.factors, planted.structure, groups=groups, categorical=shapes(objects), final=final, **options
    )


@functools.cache
def shuffled(groups=2):
    planted = plant(0, 4, groups=groups, samples=400)
    return planted, scores(planted.codes, planted, groups)


def test_slots_far_from_0_are_shifted_before_they_are_rounded():
    planted, found = shuffled()
    far = scores(planted.codes.astype(np.float64) + 1e6, planted, 2)
    for name in ("object.disentanglement", "object.completeness"):
        assert abs(far[name] - found[name]) < 0.02


def test_scores_return_to_those_of_unshuffled_slots():
    planted, found = shuffled()
    whole = scores(planted.whole, planted, 2, **AS_IT_COMES)
    broken = scores(planted.codes, planted, 2, **AS_IT_COMES)
    for name in ("object.disentanglement", "object.completeness"):
        assert abs(found[name] - whole[name]) < 0.02
        assert broken[name] < whole[name] - 0.3
    for group in (slice(0, 400), slice(400, 800)):
        assert recovered(found.part("probing.orders")[group], planted.held[group]) >= 0.99
    assert found["informativeness"] == pytest.approx(float(whole["informativeness"]), abs=0.03)
    assert broken["informativeness"] > whole["informativeness"] + 0.1


def test_columns_and_parts():
    _, found = shuffled()
    assert set(found) == {
        *(
            f"{level}.{name}"
            for level in ("object", "property", "identity")
            for name in ("disentanglement", "completeness")
        ),
        "informativeness",
    }
    for values in found.values():
        assert values.shape == ()
        assert 0 <= values <= 1
    assert found.part("importance").shape == (4 * DIMS, 32)
    assert found.part("probing.orders").shape == (800, 4)


def test_averages_are_over_groups():
    """One group alone, and groups by number in any order of samples, give the same."""
    planted = plant(5, 3, groups=2, samples=200)
    both = scores(planted.codes, planted, 2, 3, LINEAR)
    order = np.random.default_rng(0).permutation(400)
    mixed = evaluate_structured(
        planted.codes[order],
        Factors.of(np.asarray(planted.factors.values)[order], planted.factors.sizes),
        planted.structure,
        groups=np.repeat([7, 3], 200)[order],
        categorical=shapes(3),
        final=LINEAR,
    )
    # Other samples are held out, so it is equal but for sampling.
    assert mixed["object.completeness"] == pytest.approx(float(both["object.completeness"]), abs=0.05)
    assert "informativeness" not in both  # correlations predict nothing


def test_a_zoo_is_its_members_and_nan_stays_at_home():
    planted = plant(6, 3, samples=200)
    broken = planted.codes.copy()
    broken[3, 1, 2] = np.nan
    with pytest.warns(RuntimeWarning, match=r"codes: 1 non-finite values in 1 of 3 members \(1\)"):
        zoo = scores(np.stack([planted.codes, broken, planted.whole]), planted, 1, 3, LINEAR)
    alone = scores(planted.codes, planted, 1, 3, LINEAR)
    for name in alone:
        assert zoo[name].shape == (3,)
        np.testing.assert_allclose(zoo[name][0], alone[name], atol=1e-5)
        assert np.isnan(zoo[name][1])
        assert np.isfinite(zoo[name][2])


def test_ablation_of_both_algorithms():
    """Table 4: without 2 > both > without 1 > neither, the order of its MONet (Att.).

    A model that looks from left to right, a little uncertainly: similar scenes have similar orders. All models of the
    table have "both" and "without 2" above "neither", and "both" above "without 1"; which of the first two is higher
    differs between them. Here it is "without 2": factors vary more over the whole space than noise does, and planted
    orders are recovered in both.
    """
    local = plant(1, 4, groups=2, samples=800, order="salient", noise=0.1)
    anywhere = plant(1, 4, groups=2, samples=800, order="salient", noise=0.1, local=False)
    given = {"start": "given"}  # Algorithm 1 as printed
    names = "object.disentanglement", "object.completeness"
    ablation = [
        scores(planted.codes, planted, 2, **options)
        for planted, options in ((local, given), (anywhere, given), (local, AS_IT_COMES), (anywhere, AS_IT_COMES))
    ]
    for name in names:
        both, without_2, without_1, neither = (float(found[name]) for found in ablation)
        assert without_2 > both > without_1 > neither
        assert both > neither + 0.3


def test_background_slot_is_left_out_at_object_level():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, (600, 5))
    codes = np.zeros((600, 3, 2), np.float32)
    codes[:, 0, 0], codes[:, 1], codes[:, 2] = values[:, 0], values[:, 1:3], values[:, 3:5]
    codes[:, 0, 1] = values[:, 1] + values[:, 3]  # the background slot knows of the objects too
    codes += 0.05 * rng.normal(size=codes.shape)
    structure = Structure.slots(3, 2, 2, ("x", "y"), background=("red",))
    options = {"final": LINEAR, **AS_IT_COMES}
    found = evaluate_structured(codes, values, structure, background="background", **options)
    kept = evaluate_structured(codes, values, structure, **options)
    assert found["object.disentanglement"] == pytest.approx(1, abs=0.02)
    assert kept["object.disentanglement"] < 0.9
    assert found["identity.disentanglement"] == kept["identity.disentanglement"]


@pytest.mark.parametrize(("slots", "objects", "properties"), [(1, 2, 2), (3, 2, 1), (2, 3, 1), (1, 1, 1)])
def test_degenerate_structures(slots, objects, properties):
    """One slot, one property, more objects than slots; a factor that stands still and a collapsed dim."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, (100, objects * properties))
    values[:, -1] = 0 if values.shape[1] > 1 else values[:, -1]
    codes = rng.normal(size=(100, slots, 2)).astype(np.float32)
    codes[:, :, 0] += values[:, :1]
    codes[:, 0, 1] = 1.0
    structure = Structure.slots(slots, 2, objects, [f"property {i}" for i in range(properties)])
    found = evaluate_structured(codes, Factors.of(values, (4,) * values.shape[1]), structure, final="lasso_importance")
    for name, value in found.items():
        assert np.isfinite(value), name
    if slots == 1:
        assert found["object.completeness"] == pytest.approx(1, abs=1e-6)


def test_wrong_arguments_are_named():
    codes, values = np.zeros((20, 2, 3), np.float32), np.tile(np.arange(4)[:, None], (5, 2))
    structure = Structure.slots(2, 3, 2, ("x",))
    for arguments, options, message in (
        ((codes[:, 0], values, structure), {}, r"codes: must have shape \[n, s, p\]"),
        ((codes[:10], values, structure), {}, "as many samples as factors"),
        ((codes, values, Structure.slots(2, 2, 2, ("x",))), {}, "structure: must have 2 × 3 codes and 2 factors"),
        ((codes, values, structure), {"groups": 3}, "divides the 20 samples"),
        ((codes, values, structure), {"groups": np.r_[0, np.ones(19)]}, "equal length"),
        ((codes, values, structure), {"groups": 10}, "at least 5 samples"),
        ((codes, values, structure), {"categorical": ("shape",)}, "categorical: must have names among"),
        ((codes, values, structure), {"projections": ("slot",)}, "levels: must have names among"),
        ((codes, values, structure), {"background": "sky"}, "no factors are 'sky'"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate_structured(*arguments, **options)


def test_structured_row_with_a_structure():
    """A structured metric without shuffled slots is a row of METRICS with options."""
    planted = plant(8, 2, samples=300)
    flat = planted.whole.reshape(300, -1)
    metric = jaxdis.METRICS["structured"].with_options(structure=planted.structure, levels=("object",), depth=6)
    found = jaxdis.evaluate(flat, planted.factors, {"object": metric})
    assert found["object.completeness"] > 0.5
    assert found.part("object.joint").shape == (2, 2)


def test_the_depth_of_the_final_forest_is_chosen_on_a_share_of_its_own():
    """Each factor takes the depth that suits it: no worse than the better single depth, up to other random trees."""
    planted, _ = shuffled()
    codes, groups = planted.codes, 2
    chosen, deep, shallow = (
        scores(
            codes, planted, groups, final=FOREST.with_options(depth=depth), validation_share=0.1, projections=["object"]
        )
        for depth in ((1, 2, 6), 6, 1)
    )
    assert chosen["informativeness"] < deep["informativeness"] + 0.02
    assert deep["informativeness"] < shallow["informativeness"] - 0.05
    both = {"final": FOREST.with_options(depth=(1, 6))}
    for call in (lambda: scores(codes, planted, groups, **both), lambda: Structured(**both)):
        with pytest.raises(ValueError, match="validation_share: must be a share on which random_forest can choose an"):
            call()
    with pytest.raises(ValueError, match="validation_share: must"):
        scores(codes, planted, groups, validation_share=0.3)
