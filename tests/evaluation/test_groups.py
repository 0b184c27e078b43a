"""Samples that belong together: split, drawn and permuted as wholes, and noticed where no groups are named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis import METRICS, RELATIONS, Factors, evaluate
from jaxdis._core import random
from jaxdis._learners.logistic import fit_logistic_validated
from jaxdis.evaluation._groups import as_groups, signs_of
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._request import Null
from jaxdis.factors import Sample
from jaxdis.metrics._metric import apply, divided
from tests.metrics.test_contracts import quick_if
from tests.programs import compiled_whole

# Functions that read samples, by name; networks estimate only where an option asks for them.
SPECS = {name: metric.source for name, metric in METRICS.items()} | RELATIONS
SPECS |= {"edi": RELATIONS["impact_intensity"].with_options(pairwise="neural", joint="neural")}
SPECS = {name: spec for name, spec in SPECS.items() if name != "impact_intensity"}
EPISODES, LENGTH = 20, 12
EPISODE = np.repeat(np.arange(EPISODES), LENGTH)
UNEQUAL = np.repeat(np.arange(EPISODES), [*range(1, EPISODES), 50])
SMALL = {"num_train": 100, "num_eval": 50, "batch": 16, "stages": 5, "trees": 3, "epochs": 3, "sizes": (10, 50)}


def episodes(seed=0, codes=4):
    """Codes that know the episode and nothing of the factor, which is drawn once for each."""
    rng = np.random.default_rng(seed)
    goal = rng.permutation(np.arange(EPISODES) % 2)[EPISODE]
    own = rng.normal(size=(EPISODES, codes))[EPISODE]
    return (own + 0.05 * rng.normal(size=(len(EPISODE), codes))).astype(np.float32), goal


def drifting(rng, n, columns, kept=0.99):
    steps = rng.normal(size=(n, columns))
    for place in range(1, n):
        steps[place] += kept * steps[place - 1]
    return steps


def as_runs(rows, groups):
    """The groups of consecutive samples, and how many of each are taken."""
    cuts = np.flatnonzero(np.diff(groups[rows])) + 1
    return [(groups[run[0]], len(run)) for run in np.split(rows, cuts)]


@pytest.mark.parametrize("groups", [EPISODE, UNEQUAL], ids=["equal", "unequal"])
def test_a_split_keeps_groups_whole_and_is_the_same_in_any_order(groups):
    for key in map(jax.random.key, range(5)):
        train, test = divided(key, groups, len(groups))
        assert not set(groups[train]) & set(groups[test])
        assert sorted([*train, *test]) == list(range(len(groups)))
        order = np.random.default_rng(0).permutation(len(groups))
        moved, _ = divided(key, groups[order], len(groups))
        assert set(groups[order][moved]) == set(groups[train])
        assert (np.diff(train) < 0).any()  # in random order, since learning curves take the first
    if groups is EPISODE:
        assert len(train) == round(EPISODES * 2 / 3) * LENGTH


drawn_rows, shuffled_rows, divided_rows = map(
    compiled_whole, (random.drawn_rows, random.shuffled_rows, random.divided_rows)
)


@pytest.mark.parametrize("groups", [EPISODE, UNEQUAL], ids=["equal", "unequal"])
def test_replicates_draw_whole_groups(groups):
    n, sizes = len(groups), np.bincount(groups)
    counts = []
    for key in jax.random.split(jax.random.key(0), 200):
        rows = np.asarray(drawn_rows(key, jnp.asarray(groups, jnp.int32), n))
        times = np.bincount(rows, minlength=n)
        counts.append(np.bincount(groups[rows], minlength=len(sizes)))
        cut = groups[rows[-1]]
        assert all(len(set(times[groups == group])) == 1 for group in range(len(sizes)) if group != cut)
    assert len(rows) == n
    if groups is EPISODE:  # nothing is cut: as many of each as of independent draws
        assert all(not (count % LENGTH).any() for count in counts)
        of_one = np.array(counts)[:, 0] / LENGTH
        assert of_one.mean() == pytest.approx(1, abs=0.25)
        assert of_one.var() == pytest.approx(1 - 1 / EPISODES, rel=0.35)
    plain = random.drawn_rows(jax.random.key(3), None, n)
    np.testing.assert_array_equal(plain, random.randint(jax.random.key(3), (n,), 0, n))


@pytest.mark.parametrize("groups", [EPISODE, UNEQUAL], ids=["equal", "unequal"])
def test_folds_inside_metrics_keep_groups_whole(groups):
    n = len(groups)
    for key in jax.random.split(jax.random.key(1), 5):
        rows = np.asarray(shuffled_rows(key, jnp.asarray(groups, jnp.int32), n))
        assert sorted(rows) == list(range(n))
        assert len(as_runs(rows, groups)) == groups.max() + 1
        kept, others = map(np.asarray, divided_rows(key, jnp.asarray(groups, jnp.int32), n, n // 3))
        assert (len(kept), len(others)) == (n // 3, n - n // 3)
        assert not set(groups[kept]) & set(groups[others])
    one = jnp.zeros(n, jnp.int32)
    kept, others = divided_rows(key, one, n, 3)  # a single group has to be divided
    assert sorted([*kept.tolist(), *others.tolist()]) == list(range(n))


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.reads.groups])
def test_every_function_with_folds_keeps_groups_whole(name, monkeypatch):
    """Traced alone: the rows that it divides are those of its groups, and no divided rows are asked for without any."""
    asked, inner = [], random.divided_rows
    monkeypatch.setattr(random, "divided_rows", lambda *given: asked.append(given) or inner(*given))
    codes, goal = episodes()
    for groups in (None, jnp.asarray(EPISODE, jnp.int32)):
        given = Sample(jnp.asarray(codes), Factors.of(goal), groups=groups)
        jax.eval_shape(lambda given: jax.tree.leaves(apply(SPECS[name], jax.random.key(0), given, given)), given)
        assert bool(asked) == (groups is not None)


def test_permuted_groups_exchange_their_samples_in_order():
    key = jax.random.key(0)
    rows = Null(1).rows(key, EPISODE, len(EPISODE)).reshape(EPISODES, LENGTH)
    assert (rows % LENGTH == np.arange(LENGTH)).all()
    assert sorted(rows[:, 0] // LENGTH) == list(range(EPISODES))
    order = np.random.default_rng(0).permutation(len(EPISODE))  # groups need not be in one piece
    moved = Null(1).rows(key, EPISODE[order], len(EPISODE))
    pairs = set(zip(EPISODE[order], EPISODE[order][moved], strict=True))
    assert len(pairs) == EPISODES
    unequal = Null(1).rows(key, UNEQUAL, len(UNEQUAL))
    assert len(set(zip(UNEQUAL, UNEQUAL[unequal], strict=True))) == UNEQUAL.max() + 1  # from one group alone


def test_shifts_turn_each_series_around():
    shifts = set()
    for key in jax.random.split(jax.random.key(0), 30):
        rows = Null(1, "shift").rows(key, EPISODE, len(EPISODE)).reshape(EPISODES, LENGTH)
        start = np.arange(EPISODES)[:, None] * LENGTH
        turned = (rows - start - np.arange(LENGTH)) % LENGTH
        assert (rows // LENGTH == np.arange(EPISODES)[:, None]).all()
        assert (turned == turned[:, :1]).all()
        shifts |= set(turned[:, 0].tolist())
    assert shifts == set(range(1, LENGTH))  # of 12 samples, a tenth is one: never as they were
    long = Null(1, "shift").rows(jax.random.key(1), None, 1000)
    assert 100 <= long[0] <= 900
    np.testing.assert_array_equal(np.sort(long), np.arange(1000))


def test_nulls_are_written_in_several_ways():
    for null, wanted in (
        (20, (20, "permutation")),
        (np.int64(3), (3, "permutation")),
        ("20", (20, "permutation")),
        ("shift", (100, "shift")),
        ("shift:7", (7, "shift")),
        (("shift", 7), (7, "shift")),
        (0, (0, "permutation")),
    ):
        assert Null.of(null, weights=None) == wanted
    for null in (-1, 2.0, True, "rotation:3", "shift3", ":3", ("shift", -1), None, "", 10**6):
        with pytest.raises(ValueError, match="null: must be a number of permutations"):
            Null.of(null, weights=None)


def test_drifting_signals_are_significant_by_permutations_and_not_by_shifts_or_sessions():
    """Six pairs of independent signals: 6 of 6 by permutations of samples."""
    found = {"permuted": [], "shifted": [], "sessions": []}
    sessions = np.repeat(np.arange(20), 30)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        codes, values = drifting(rng, 600, 3), Factors.of(drifting(rng, 600, 1), (None,))
        found["permuted"].append(evaluate(codes, values, "sap_r2", seed, null=9))
        found["shifted"].append(evaluate(codes, values, "sap_r2", seed, null=("shift", 9)))
        codes, values = (np.concatenate([drifting(rng, 30, width) for _ in range(20)]) for width in (3, 1))
        values = Factors.of(values, (None,))
        found["sessions"].append(evaluate(codes, values, "sap_r2", seed, null=9, groups=sessions))
    p = {name: np.array([scores.p_value("sap_r2") for scores in tables]) for name, tables in found.items()}
    assert (p["permuted"] <= 0.1).mean() > 0.8
    assert (p["shifted"] <= 0.1).mean() < 0.4
    assert (p["sessions"] <= 0.1).mean() < 0.4
    assert all("null=('shift', 100)" in tables.notes[-1][1] for tables in found["permuted"])
    assert found["shifted"][0].evaluation["null"] == {"shift": 9}


def test_frames_of_an_episode_leak_unless_they_are_held_out_together():
    codes, goal = episodes()
    metrics = {"explicitness": METRICS["explicitness"], "forest": METRICS["dci_forest"].with_options(trees=5)}
    leaked = evaluate(codes, goal, metrics, 0)
    apart = evaluate(codes, goal, metrics, 0, groups=EPISODE)
    assert leaked["forest.informativeness"] > 0.8 > 0.4 > apart["forest.informativeness"]
    assert leaked["explicitness"] > apart["explicitness"]
    assert [name for name, text in leaked.notes if "groups=" in text] == ["explicitness", "forest"]
    assert not [text for _, text in apart.notes if "groups=" in text]
    assert apart.evaluation["groups"]["count"] == EPISODES
    relation = jaxdis.relate(codes, goal, metrics["forest"].source, 0, groups=EPISODE)
    assert relation.fit[0] == pytest.approx(apart["forest.informativeness"], abs=1e-6)


HOLD_OUT = [name for name, metric in METRICS.items() if metric.source.reads.test]


@pytest.mark.parametrize("name", quick_if(HOLD_OUT, {"r2_linear", "mcc_test", "mlp_probe"}.__contains__))
def test_metrics_hold_out_whole_groups(name):
    """The score is that with the held-out groups given as test samples."""
    codes, goal = episodes()
    values = np.stack([goal, np.random.default_rng(2).integers(0, 3, EPISODES)[EPISODE]], axis=1)
    metric = METRICS[name]
    metric = metric.with_options(**{option: SMALL[option] for option in SMALL if option in metric.all_options})
    _, shared, _ = bind(codes, values, 0, groups=EPISODE, split=True)
    train, test = np.asarray(shared.train_rows), np.asarray(shared.test_rows)
    assert not set(EPISODE[train]) & set(EPISODE[test])
    whole = evaluate(codes, values, {"x": metric}, 0, groups=EPISODE)
    given = evaluate(
        codes[train],
        Factors.of(values[train], (2, 3)),
        {"x": metric},
        0,
        test=(codes[test], Factors.of(values[test], (2, 3))),
        groups=EPISODE[train],
    )
    for column in whole:
        np.testing.assert_allclose(whole[column], given[column], atol=1e-6, equal_nan=True)


def test_errors_of_grouped_samples_are_those_of_groups():
    """They fall with the number of episodes, not of frames."""
    codes, goal = episodes(codes=2)
    single = evaluate(codes, goal, "sap_r2", 0, bootstrap=100).error("sap_r2")
    grouped = evaluate(codes, goal, "sap_r2", 0, bootstrap=100, groups=EPISODE).error("sap_r2")
    assert 2 < grouped / single < 12
    distinct = {"x": METRICS["mig_ksg"]}
    single = evaluate(codes, goal, distinct, 0, bootstrap=30).error("x")
    grouped = evaluate(codes, goal, distinct, 0, bootstrap=30, groups=EPISODE).error("x")
    assert grouped > 1.5 * single


def test_every_caller_passes_groups_on():
    codes, goal = episodes()
    metric = {"x": METRICS["r2_linear"]}
    wanted = evaluate(codes, goal, metric, 0, groups=EPISODE)["x"]
    monitor = jaxdis.Monitor(goal, metric, 0, groups=EPISODE)
    monitor.update(codes)
    assert monitor.compute()["x"] == wanted


def test_rankings_are_asked_of_whole_groups():
    codes, goal = episodes()
    zoo = np.stack([codes, -codes[:, ::-1], codes**2])
    curve = jaxdis.sample_curve(zoo, goal, "r2_linear", 0, sizes=(96, 120, 180), groups=EPISODE)
    np.testing.assert_allclose(curve.overlap, [0, 0, 2 / 3], atol=0.01)  # in groups: 15 of 20, twice
    found = jaxdis.sensitivity(zoo, goal, "r2_linear", 0, samples=(120, 240), groups=EPISODE)
    plain = jaxdis.sensitivity(zoo, goal, "r2_linear", 0, samples=(120, 240))
    assert (found.scores["r2_linear"] < plain.scores["r2_linear"]).mean() > 0.6
    with pytest.raises(ValueError, match="arguments: must have no `groups`"):
        jaxdis.sensitivity(zoo, goal, "r2_linear", samples=(120, 240), arguments={"groups": EPISODE})


def test_groups_are_numbers_text_or_columns():
    pandas = pytest.importorskip("pandas")
    codes, goal = episodes()
    factors, names = Factors.of(goal), [f"{number:02}" for number in EPISODE]
    for given in (EPISODE, jnp.asarray(EPISODE), EPISODE * 7 - 3, names, np.array(names), pandas.Series(names)):
        np.testing.assert_array_equal(as_groups(given, factors), EPISODE)
    category = pandas.Series(names, dtype="category")
    np.testing.assert_array_equal(as_groups(category, factors), EPISODE)
    table = pandas.DataFrame({"goal": [None, *goal[1:]], "episode": names})
    kept = Factors.from_table(table, ["goal"], missing="drop")
    np.testing.assert_array_equal(as_groups(table["episode"], kept), EPISODE[1:])
    gaps = Factors.from_table(table, ["goal"], missing="each")
    assert np.isfinite(evaluate(codes, gaps, "explicitness", 0, groups=table["episode"])["explicitness"])
    for groups, words in (
        (
            "episode",
            r"groups: must have one entry per sample, got 'episode'; of a table, give its column: groups=table",
        ),
        (EPISODE[:-1], "groups: must have one entry for each of 240 samples, got 239"),
        (EPISODE + 0.5, "groups: must be whole numbers or text, one entry per sample, got 0.5"),
        ([None, *names[1:]], "groups: must be whole numbers or text, one entry per sample, got none for some"),
        (codes, "groups: must be whole numbers or text, one entry per sample; .*shape"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(codes, goal, "sap_r2", groups=groups)


def test_refusals():
    codes, goal = episodes()
    one, test = np.zeros(len(goal), int), (codes, goal)
    with pytest.raises(ValueError, match="groups: must be at least two for a split, got one"):
        evaluate(codes, goal, "r2_linear", groups=one)
    for purpose, count in (("bootstrap", 2), ("null", 2)):
        with pytest.raises(ValueError, match="groups: must be at least two for"):
            evaluate(codes, goal, "sap_r2", groups=one, **{purpose: count})
        with pytest.raises(ValueError, match="groups: must be of all samples for .*, got test or validation samples"):
            evaluate(codes, goal, "r2_linear", groups=EPISODE, test=test, **{purpose: count})
    assert evaluate(codes, goal, "sap_r2", groups=one, null="shift:2").null("sap_r2") >= 0


def independent():
    """Samples that do not depend on each other, by name: codes, values and sizes."""
    rng = np.random.default_rng(0)
    n, sizes = 1200, (3, 5, 8)
    values = rng.integers(0, sizes, (n, 3))
    mixed = values @ rng.normal(size=(3, 4))
    yield "noisy", mixed + rng.normal(size=(n, 4)), values, sizes
    yield "of a population in which images repeat", np.sin(mixed), values, sizes
    hidden = np.concatenate([values, rng.integers(0, 6, (n, 1))], axis=1)
    yield "of images with an unknown factor", np.sin(hidden @ rng.normal(size=(4, 4))), values, sizes
    yield "few values", np.round(mixed), values, sizes
    yield "binary", rng.integers(0, 2, (n, 4)), values, sizes
    yield "sparse", np.maximum(rng.normal(size=(n, 30)) - 1.5, 0), values, sizes
    yield "half precision", rng.normal(size=(n, 2)).astype(np.float16), values, sizes
    yield "long tails", rng.standard_cauchy((n, 4)), values, sizes
    order = np.argsort(values[:, 1], kind="stable")
    yield "sorted by a class", (mixed + rng.normal(size=(n, 4)))[order], values[order], sizes
    place = np.sort(rng.uniform(size=n))
    along = np.stack([np.sin(3 * place), place**2, rng.normal(size=n)], axis=1)
    yield "sorted by a continuous factor", along + 0.1 * rng.normal(size=along.shape), place[:, None], (None,)
    grid = np.stack(np.meshgrid(*map(np.arange, (4, 5, 6, 10)), indexing="ij"), axis=-1).reshape(-1, 4)
    yield "all images in order", np.sin(grid @ rng.normal(size=(4, 4))), grid, (4, 5, 6, 10)
    yield "all images in order, noisy", grid + rng.normal(size=grid.shape), grid, (4, 5, 6, 10)
    drift = drifting(rng, n, 4)
    yield "drifting codes beside independent factors", drift, values, sizes
    yield "independent codes beside drifting factors", rng.normal(size=(n, 4)), drift[:, :1], (None,)
    yield "sixty samples", rng.normal(size=(60, 4)), values[:60], sizes
    yield "angles", rng.normal(size=(n, 4)), rng.uniform(0, 360, (n, 1)), (None,)


@pytest.mark.parametrize(("codes", "values", "sizes"), [pytest.param(*case[1:], id=case[0]) for case in independent()])
def test_independent_samples_are_not_suspected(codes, values, sizes):
    assert signs_of(codes, Factors.of(values, sizes)) == (None, None)


def test_members_of_the_example_are_not_suspected():
    codes, factors, _ = jaxdis.data.example()
    assert all(signs_of(member, factors) == (None, None) for member in codes)
    order = np.random.default_rng(0).permutation(factors.num_samples)
    assert all(signs_of(member[order], factors.take(order)) == (None, None) for member in codes[:5])


def test_series_and_copies_are_noticed():
    codes, goal = episodes()
    rng = np.random.default_rng(1)
    assert signs_of(codes, Factors.of(goal)).series > 0.9
    angle = Factors.from_table({"a": np.cumsum(rng.normal(size=800)) * 10 % 360}, kinds={"a": ("circular", 360.0)})
    assert signs_of(drifting(rng, 800, 3), angle).series > 0.9
    rare = (rng.random(1500) < 0.1).astype(int)
    noise = rng.normal(size=(1500, 4))
    common, seldom = np.flatnonzero(rare == 0), np.flatnonzero(rare)
    for rows in (
        np.concatenate([common, np.repeat(seldom, 5)]),
        np.concatenate([common, seldom, rng.choice(seldom, 900)]),  # drawn with replacement until classes are balanced
        np.tile(np.arange(700), 2),
    ):
        rows = rng.permutation(rows)
        copies = np.mean(np.bincount(rows)[rows] > 1)
        assert signs_of(noise[rows], Factors.of(rare[rows])).copies == pytest.approx(copies)
    measured = rng.permutation(np.tile(np.arange(700), 2))
    assert signs_of(noise[measured], Factors.of(noise[measured, :1], (None,))).copies == 1
    again = np.repeat(np.arange(700), 3)
    table = evaluate(noise[again], rare[again], {"x": METRICS["r2_linear"], "mig": METRICS["mig"]}, 0)
    copied = [(name, text) for name, text in table.notes if "copies" in text]
    assert [name for name, _ in copied] == ["x"]  # MIG splits nothing
    assert "100% of the samples are exact copies of others" in copied[0][1]


def test_cross_validation_judges_whole_groups():
    """Ten groups, each with its own class and place: a weak penalty remembers the groups, and is not chosen."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 12)
    codes = jnp.asarray(rng.normal(size=(10, 6))[groups] + 0.01 * rng.normal(size=(120, 6)), jnp.float32)
    classes = jnp.asarray((np.arange(10) % 2)[groups][:, None], jnp.int32)
    order = rng.permutation(120)
    leaked = fit_logistic_validated(codes[order], classes[order], (2,)).accuracy
    numbers = jnp.asarray(groups[order], jnp.int32)
    apart = fit_logistic_validated(codes[order], classes[order], (2,), groups=numbers).accuracy
    assert leaked.max() > 0.95 > 0.7 > apart.max()
