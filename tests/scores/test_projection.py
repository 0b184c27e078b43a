"""Structures and their projections: recorded values, DCI as the identity, theorems 2 to 4 on ragged structures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis.relations._relation import Relation
from jaxdis.scores import SCORES
from jaxdis.structured import (
    Structure,
    background,
    completeness,
    disentanglement,
    drop_small,
    informativeness,
    lower_bound,
    project,
    score_of,
    structured_score,
    two_levels,
    upper_bound,
)
from tests.golden_values import numbers
from tests.programs import compiled_whole

background, drop_small, informativeness, score_of, structured_score = map(
    compiled_whole, (background, drop_small, informativeness, score_of, structured_score)
)
completeness, disentanglement, project = map(compiled_whole, (completeness, disentanglement, project))
lower_bound, two_levels, upper_bound = map(compiled_whole, (lower_bound, two_levels, upper_bound))
entropy_score = compiled_whole(SCORES["entropy"])
relation_of = compiled_whole(Relation.of)


@compiled_whole
def both(strength, structure, levels=None):
    return disentanglement(strength, structure, levels), completeness(strength, structure, levels)


# float32 sums of some hundred terms of order 1.
ROUNDING = 2e-6


@pytest.fixture(scope="module")
def recorded():
    return numbers("structured")


@pytest.mark.parametrize("threshold", [0.0, 0.03])
@pytest.mark.parametrize("levels", [None, "object", "property"])
def test_recorded_values(recorded, threshold, levels):
    structure = Structure.slots(4, 3, objects=4, properties=("first", "second"))
    strength = drop_small(np.array(recorded["R"], np.float32), threshold)
    expected = recorded[f"thr{threshold or 0}"][levels or "identity"]
    assert both(strength, structure, levels) == pytest.approx((expected["D"], expected["C"]), abs=1e-6)
    np.testing.assert_allclose(project(strength, structure, levels), expected["projected"], atol=1e-6)


def test_recorded_bounds_and_reference_identity(recorded):
    structure = Structure.slots(4, 3, objects=4, properties=("first", "second"))
    strength = np.array(recorded["R"], np.float32)
    for of, letter in (("completeness", "C"), ("disentanglement", "D")):
        bound = lower_bound(strength, structure, ("object", "property"), of=of)
        assert bound.tight == pytest.approx(recorded[f"theorem2_lower_bound_{letter}"], abs=1e-6)
    whole = score_of(strength, structure)
    assert whole.disentanglement == pytest.approx(recorded["dlib_identity_no_threshold"]["D"], abs=1e-6)
    assert whole.completeness == pytest.approx(recorded["dlib_identity_no_threshold"]["C"], abs=1e-6)


def ragged(rng) -> Structure:
    """A structure of 2 to 4 levels whose groups differ in size."""

    def side(num_levels):
        sizes = rng.integers(1, 5, num_levels)
        every = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(-1, num_levels)
        kept = rng.permutation(len(every))[: rng.integers(1, min(len(every), 24) + 1)]
        return every[np.sort(kept)].astype(str).tolist()

    num_levels = int(rng.integers(2, 5))
    return Structure.of([f"level {i}" for i in range(num_levels)], side(num_levels), side(num_levels))


def matrices(rng, structure: Structure, count: int) -> np.ndarray:
    """Affinities that are even or peaked, full or sparse, ``[count, d, k]``."""
    shape = count, len(structure.codes), len(structure.factors)
    peaked, full = rng.choice([1, 3], (count, 1, 1)), rng.uniform(0.3, 1, (count, 1, 1))
    strength = rng.exponential(size=shape) ** peaked * (rng.random(shape) < full)
    strength[:, 0, 0] += 0.1  # some strength at all
    return strength.astype(np.float32)


def plain_score(strength, structure, levels, of):
    """The definition, by loops in float64: conditional entropy of one projected side given the other."""
    strength = np.asarray(strength, float)
    joint, total = {}, strength.sum()
    places = [structure.levels.index(level) for level in levels]
    for i, code in enumerate(structure.codes):
        for j, factor in enumerate(structure.factors):
            pair = tuple(code[p] for p in places), tuple(factor[p] for p in places)
            pair = pair if of == "completeness" else pair[::-1]
            joint[pair] = joint.get(pair, 0.0) + float(strength[i, j]) / total
    given = {}
    for (_, condition), p in joint.items():
        given[condition] = given.get(condition, 0.0) + p
    base = len({own for own, _ in joint})
    entropy = -sum(p * np.log(p / given[condition]) for (_, condition), p in joint.items() if p > 0)
    return 1 - entropy / np.log(base) if base > 1 else 1.0


@pytest.mark.parametrize("seed", range(8))
def test_theorems_on_ragged_structures(seed):
    """25 matrices on each of 8 structures: every score by its definition, and theorems 2, 3 and 4.

    The union of all levels is decomposed at random into two or more parts.
    """
    rng = np.random.default_rng(seed)
    structure = ragged(rng)
    strengths = matrices(rng, structure, 25)
    levels = [str(level) for level in rng.permutation(structure.levels)]
    cuts = np.sort(rng.choice(np.arange(1, len(levels)), rng.integers(1, len(levels)), replace=False))
    parts = [tuple(map(str, part)) for part in np.split(np.array(levels), cuts)]
    rest = [level for part in parts[1:] for level in part]

    def everything(strength):
        return {
            of: (
                [measure(strength, structure, part) for part in [None, *parts]],
                lower_bound(strength, structure, parts, of=of),
                upper_bound(strength, structure, parts, of=of),
                two_levels(strength, structure, parts[0], rest, of=of),
            )
            for of, measure in (("completeness", completeness), ("disentanglement", disentanglement))
        }

    for of, (scores, lower, upper, two) in jax.jit(jax.vmap(everything))(strengths).items():
        for number, part in enumerate([structure.levels, *parts]):
            expected = [plain_score(strength, structure, structure.chosen(part), of) for strength in strengths]
            np.testing.assert_allclose(scores[number], expected, atol=ROUNDING)
        assert (lower.simple <= lower.tight + ROUNDING).all()
        assert (lower.tight <= scores[0] + ROUNDING).all()
        assert (scores[0] <= upper + ROUNDING).all()
        np.testing.assert_allclose(two.score, scores[0], atol=2 * ROUNDING)
        assert min(part.min() for part in (two.first, two.second, two.between)) >= -ROUNDING


def test_theorem_4_as_printed_does_not_hold():
    """With I(X₁; Y₁ | Y₂) in place of I(X₁; Y₂ | Y₁) it fails on a perfect representation of two objects."""
    structure = Structure.slots(2, 2, objects=2, properties=("a", "b"))
    two = two_levels(np.eye(4, dtype=np.float32), structure, "object", "property")
    assert two.score == pytest.approx(1.0, abs=1e-6)
    assert two.first == pytest.approx(0.0, abs=1e-6)
    # Given the property, the object of the factor is still one bit that the slot tells: half of log₂ 4.
    printed = 2 * (np.log(2) / np.log(4))
    assert two.tight + printed + two.between == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 6), (7, 1), (3, 8), (8, 5)])
def test_identity_is_dci(d, k):
    rng = np.random.default_rng(d)
    strength = rng.exponential(size=(10, d, k)) * (rng.random((10, d, k)) < 0.6)

    @jax.jit
    @jax.vmap
    def both(strength):
        relation = Relation.of(strength, jnp.ones(k))
        return SCORES["entropy"](relation), structured_score(relation, threshold=0.0)

    dci, ours = both(np.asarray(strength, np.float32))
    np.testing.assert_allclose(ours.disentanglement, dci.disentanglement, atol=1e-6)
    np.testing.assert_allclose(ours.completeness, dci.completeness, atol=1e-6)
    np.testing.assert_allclose(ours.per_code_group, dci.per_code, atol=1e-6)
    np.testing.assert_allclose(ours.per_factor_group, dci.per_factor, atol=1e-6)


def test_identity_is_dci_with_a_one_valued_factor_an_inactive_and_a_broken_code():
    strength = np.array([[3.0, 1, 2], [1, 4, 1], [0, 1, 5], [2, 2, 2]], np.float32)
    active = np.array([True, True, True, False])
    relation = relation_of(strength, np.array([1.0, 0, 1], np.float32), active=active)
    dci, ours = entropy_score(relation), structured_score(relation, threshold=0.0)
    assert ours.disentanglement == pytest.approx(float(dci.disentanglement), abs=1e-6)
    assert ours.completeness == pytest.approx(float(dci.completeness), abs=1e-6)
    broken = relation_of(strength, np.ones(3, np.float32), finite=np.array([True, False, True, True]))
    assert np.isnan(structured_score(broken).disentanglement)


def test_information_spread_over_two_of_six_slots():
    """Dang-Nhu 2022, §5.3: each object equally influenced by 2 slots among 6 scores 1 − log₆ 2.

    The paper gives 57 %, which is 1 − log₅ 2, of five slots; of six it is 61.3 %.
    """
    for slots, expected in ((6, 0.6131), (5, 0.5693)):
        structure = Structure.slots(slots, 2, objects=slots, properties=("x", "y"))
        slot, thing = np.arange(2 * slots)[:, None] // 2, np.arange(2 * slots)[None] // 2
        strength = np.asarray((slot == thing) | (slot == (thing + 1) % slots), np.float32)
        assert both(strength, structure, "object") == pytest.approx((expected, expected), abs=1e-4)


def test_background_goes():
    """The slot that speaks most of the background's color is left out with the background's factors."""
    structure = Structure.slots(3, 1, objects=2, properties=("x",), background=("red", "green"))
    strength = np.array([[0.1, 0.0, 1.0, 0.0], [0.9, 1.0, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]], np.float32)
    codes, factors = background(strength, structure)
    np.testing.assert_array_equal(codes, [True, False, True])
    np.testing.assert_array_equal(factors, [False, False, True, True])
    score = score_of(strength, structure, "object", codes=codes, factors=factors)
    assert score.disentanglement == pytest.approx(1.0, abs=1e-6)
    assert score.completeness == pytest.approx(1.0, abs=1e-6)  # to the base of the two slots that are left
    assert completeness(strength, structure, "object") < 0.8


def test_small_strengths_are_dropped_by_column():
    strength = np.array([[1.0, 0.02], [0.029, 0.0006], [0.031, 0.0005]], np.float32)
    np.testing.assert_array_equal(drop_small(strength) > 0, [[True, True], [False, True], [True, False]])


def test_informativeness_is_the_error_over_the_deviation():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5000, 3)) + np.array([[0, 10, 0]])
    values[:, 2] = 4  # does not vary: left out
    predicted = values + 0.3 * rng.normal(size=values.shape)
    found = informativeness(np.asarray(predicted, np.float32), np.asarray(values, np.float32))
    assert found == pytest.approx(0.3, abs=0.01)


def test_three_levels_and_ragged_groups():
    """Intrinsic and extrinsic properties in two parts of a slot: the paper's third level (table 2)."""
    kinds = {"color": "intrinsic", "x": "extrinsic", "y": "extrinsic"}
    structure = Structure.slots(2, ["mask", "mask", "content"], 2, ("color", "x", "y"), kinds=kinds)
    assert structure.levels == ("object", "kind", "property")
    assert structure.groups("factors", "kind").names == (("intrinsic",), ("extrinsic",))
    assert structure.groups("codes", ("object", "kind")).number.tolist() == [0, 0, 1, 2, 2, 3]
    own = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)  # dims × properties
    strength = np.kron(np.eye(2, dtype=np.float32), own)
    for levels in (None, "object", "kind", ("object", "kind")):
        assert disentanglement(strength, structure, levels) == pytest.approx(1.0, abs=1e-6)
    uneven = Structure.of(("object", "kind", "dim"), [("s1",), ("s2", "a", "i"), ("s2", "b")], [("o1",), ("o2", "p")])
    assert uneven.groups("codes", "kind").names == (("",), ("a",), ("b",))


def test_degenerate_matrices_are_defined():
    one_slot = Structure.slots(1, 3, objects=2, properties=("x",))
    strength = np.ones((3, 2), np.float32)
    # One group of codes.
    assert both(strength, one_slot, "object") == pytest.approx((0.0, 1.0), abs=1e-6)
    assert disentanglement(strength, one_slot, "property") == 1.0  # one property
    more_objects = Structure.slots(2, 1, objects=3, properties=("x",))
    strength = np.array([[1.0, 0, 1], [0, 1, 0]], np.float32)
    # Of slot 1's strength, 2 of 3 go evenly to two of three objects.
    expected = 1 - 2 / 3 * np.log(2) / np.log(3)
    assert both(strength, more_objects, "object") == pytest.approx((expected, 1.0), abs=1e-6)
    assert both(np.zeros((2, 3), np.float32), more_objects) == (0.0, 0.0)
    # A slot that says nothing still counts in the base; a slot masked out does not.
    lonely = np.array([[1.0, 1, 1], [0, 0, 0]], np.float32)
    assert completeness(lonely, more_objects, "object") == 1.0
    three = Structure.slots(3, 1, objects=2, properties=("x",))
    spread = np.array([[1.0, 1], [1, 1], [0, 0]], np.float32)
    assert completeness(spread, three, "object") == pytest.approx(1 - np.log(2) / np.log(3), abs=1e-6)
    masked = score_of(spread, three, "object", codes=np.array([True, True, False]))
    assert masked.completeness == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Structure.of((), [("a",)], [("b",)]), "at least one name"),
        (lambda: Structure.of(("l",), [], [("b",)]), "codes: must have at least one"),
        (lambda: Structure.of(("l",), [("a", "b")], [("b",)]), "1 to 1 labels"),
        (lambda: Structure.of(("l",), ["a", "a"], ["b"]), "distinct tuples"),
        (lambda: Structure.slots(2, ["a"], 2, ("x",)), "kinds: needs"),
        (lambda: Structure.slots(2, ["a"], 2, ("x",), kinds={"y": "a"}), "needs a kind for every property"),
        (lambda: Structure.flat(2, 2).groups("codes", "object"), "levels: must have names among"),
        (lambda: Structure.flat(2, 2).where("codes", "dimension", "z"), "no codes are 'z'"),
        (lambda: project(np.ones((3, 2), np.float32), Structure.flat(2, 2)), "must have the shape of the structure"),
        (
            lambda: lower_bound(np.ones((2, 2), np.float32), Structure.flat(2, 2), ("dimension",) * 2),
            "without a level in common",
        ),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()
