"""Do good settings carry over: tables in which the answer is known."""

import itertools

import numpy as np
import pytest

from jaxdis.study.report._statistics import across_data, score_cube, transfer

DATA, STRENGTHS, SEEDS = ("a", "b", "c"), (1.0, 2.0, 4.0, 8.0), range(6)


def table(score):
    """Two objectives × four settings × six seeds × three data sets; ``score(data, setting, seed) → (mig, sap)``."""
    rows = list(itertools.product(DATA, ("beta", "dip_ii"), STRENGTHS, SEEDS))
    found = {
        "id": np.array([str(i) for i in range(len(rows))]),
        "data": np.array([row[0] for row in rows]),
        "model": np.array([row[1] for row in rows]),
        "beta": np.array([row[2] if row[1] == "beta" else np.nan for row in rows]),
        "lambda_off_diagonal": np.array([row[2] if row[1] == "dip_ii" else np.nan for row in rows]),
        "seed": np.array([float(row[3]) for row in rows]),
    }
    scores = np.array([score(row[0], row[1:3], row[3]) for row in rows])
    return {**found, "mig": scores[:, 0], "sap": scores[:, 1]}


def test_noise_transfers_nothing():
    """Independent scores: the transferred setting wins in one half of the trials, and ties with itself in 1 of 8."""
    rng = np.random.default_rng(0)
    found = [transfer(table(lambda *_: rng.normal(size=2)), ["mig", "sap"]) for _ in range(20)]
    chance = (1 + 1 / 8) / 2
    # One table of 6 seeds × 3 data sets × 2 metrics spreads by .05; the mean of 20 by .01.
    np.testing.assert_allclose(np.mean(found, axis=0), chance, atol=0.04)


def test_each_probability_sees_its_own_change():
    """Scores that turn over from one data set to another transfer within a data set and not across."""
    sign = {"a": 1, "b": -1, "c": 1}
    within = transfer(
        table(lambda data, setting, seed: (sign[data] * setting[1], sign[data] * setting[1])), ["mig", "sap"]
    )
    assert within.same_data_same_metric == within.same_data_other_metric == 1
    assert within.other_data_same_metric < 0.8
    apart = transfer(table(lambda data, setting, seed: (setting[1], -setting[1])), ["mig", "sap"])
    assert apart.same_data_same_metric == apart.other_data_same_metric == 1
    # The worst setting is as good as a random one only when that is one of the two worst: 2 of 8.
    assert apart.same_data_other_metric == pytest.approx(0.25, abs=0.02)


def test_the_seed_that_chooses_does_not_judge():
    """Only luck of the seed: a choice by seed 0 says nothing of seed 1."""
    rng = np.random.default_rng(1)
    luck = {
        (setting, seed): rng.normal() for setting in itertools.product(("beta", "dip_ii"), STRENGTHS) for seed in SEEDS
    }
    found = transfer(table(lambda data, setting, seed: (luck[setting, seed],) * 2), ["mig"])
    assert found.same_data_same_metric < 0.75
    assert np.isnan(found.same_data_other_metric)


def test_the_cube_has_every_member_once():
    scores = table(lambda data, setting, seed: (DATA.index(data) * 100 + setting[1] * 10 + seed, 0))
    cube, names, _ = score_cube(scores, ["mig"])
    assert names == DATA
    assert cube.shape == (3, 8, 6, 1)
    assert sorted(cube.ravel()) == sorted(scores["mig"])
    np.testing.assert_array_equal(cube[2, 0, :, 0], 210 + np.arange(6))


def test_members_that_differ_in_what_is_left_out_are_all_there():
    """Two members of each setting and seed, which differ in the combination left out; ``held_out`` follows the seed."""
    first, second = (table(lambda data, setting, seed, up=up: (setting[1] + up, 0)) for up in (0, 0.5))
    both = {name: np.concatenate([first[name], second[name]]) for name in first}
    both["held_out"] = np.repeat(["", "shape 0"], len(first["id"]))
    cube, _, _ = score_cube(both, ["mig"])
    assert cube.shape == (3, 8, 12, 1)
    assert sorted(cube.ravel()) == sorted(both["mig"])


def test_settings_of_two_data_sets_match_whatever_their_schedules():
    rising = table(lambda data, setting, seed: (setting[1], 0))
    schedule = np.where(rising["data"] == "a", 100.0, 300.0)
    names = list(rising)
    rising = {n: schedule if n == "warmup_steps" else rising[n] for n in [*names[:3], "warmup_steps", *names[3:]]}
    matrix, _ = across_data(rising, "mig")
    np.testing.assert_allclose(matrix, 1)


def test_repeated_members_count_as_often_but_not_against_themselves():
    rng = np.random.default_rng(4)
    noise = table(lambda *_: rng.normal(size=2))
    twice = {name: np.concatenate([column, column]) for name, column in noise.items()}
    cube, _, _ = score_cube(twice, ["mig"])
    assert cube.shape == (3, 8, 12, 1)
    once, again = (transfer(some, ["mig"], trials=100_000).same_data_same_metric for some in (noise, twice))
    assert again == pytest.approx(once, abs=0.01)  # 100,000 trials err by .0016
    one_seed = np.tile(np.flatnonzero(noise["seed"] == 0), 2)
    assert np.isnan(transfer({name: column[one_seed] for name, column in noise.items()}, ["mig"])[0])
