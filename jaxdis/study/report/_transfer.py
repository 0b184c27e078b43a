"""How settings transfer from one data set, metric, seed or run to another."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdis._core.finite import median
from jaxdis.study.report._seed_statistics import Table, spearman
from jaxdis.study.report._subject import UNSAID


class Transfer(NamedTuple):
    """Probability that a transferred setting does at least as well as a random one, by what stays the same."""

    same_data_same_metric: float
    other_data_same_metric: float
    same_data_other_metric: float
    other_data_other_metric: float


def transfer(table: Table, metrics: Sequence[str], *, trials: int = 10_000, seed: int = 0) -> Transfer:
    """How often a setting chosen elsewhere is at least as good as a random one (Locatello et al. 2020, Table 1).

    In each trial, a random seed, metric and data set choose the setting (model × regularization) with the highest
    score. It is compared, on the same or another data set and by the same or another metric, with a random setting,
    both under one seed other than the first. Chance is slightly above one half, since ties count.

    Args:
      table: columns ``seed``, ``data`` and those of settings, as in ``results.csv``.
      metrics: columns to choose and to compare by; higher must be better.

    Contract:

    - NaN if there is no other data set or metric, or with one seed.
    - Undefined scores are never chosen, and a comparison with one is not counted.
    - Members that are repeated, as in a bootstrap over seeds, count as often, but not against their own copies.
    """
    draws, rng = _draws(table, metrics), np.random.default_rng(seed)
    return Transfer(
        _share(draws, rng, trials, other_data=False, other_metric=False),
        _share(draws, rng, trials, other_data=True, other_metric=False),
        _share(draws, rng, trials, other_data=False, other_metric=True),
        _share(draws, rng, trials, other_data=True, other_metric=True),
    )


def across_data(table: Table, metric: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rank correlation between data sets: a metric's median over seeds at each setting, ``[data, data]``, and names.

    Locatello et al. 2020, Figure 9.
    """
    cube, names = score_cube(table, [metric])
    medians = np.array([[median(row) for row in rows] for rows in cube[:, :, :, 0]])
    count = len(names)
    pairs = itertools.product(range(count), repeat=2)
    return np.array([spearman(medians[a], medians[b]) for a, b in pairs]).reshape(count, count), names


def agreement(table: Table, other: Table, metrics: Sequence[str]) -> dict[str, float]:
    """Rank correlation between two runs of one study, metric by metric: members are matched by their settings and seed.

    The runs may differ in the samples they score or in anything else that is not the member (Locatello et al. 2020,
    §6.2).

    Raises:
      ValueError: if the runs have no member in common.
    """
    first = {key: row for row, key in enumerate(_labels(table))}
    second = {key: row for row, key in enumerate(_labels(other))}
    common = [key for key in first if key in second]
    if not common:
        raise ValueError(
            "agreement: must have runs with members in common, got none with equal settings, data and seed"
        )
    a, b = [first[key] for key in common], [second[key] for key in common]
    return {name: spearman(table[name][a], other[name][b]) for name in metrics}


def score_cube(table: Table, metrics: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Scores ``[data, settings, seeds, metrics]``, NaN where there is no member, and the data sets' names.

    Members that share a setting and a seed, but not the combination left out of training, have a place each among the
    seeds, and so have members that are repeated.
    """
    draws = _draws(table, metrics)
    return draws.cube, draws.data


class _Draws(NamedTuple):
    """Scores ``[data, settings, seeds, metrics]``, data set names, and which seeds are copies of another."""

    cube: np.ndarray
    data: tuple[str, ...]
    original: np.ndarray


def _draws(table: Table, metrics: Sequence[str]) -> _Draws:
    data, of_data = np.unique(np.asarray(table["data"]).astype(str), return_inverse=True)
    seeds, settings = _seeds_of(table), settings_of(table, without=UNSAID)
    if len(set(zip(of_data, settings, seeds, strict=True))) < len(set(_labels(table))):
        settings = settings_of(table)  # which differ in nothing else
    met: Counter = Counter()
    copies = []
    for key in zip(of_data.tolist(), settings, seeds, strict=True):
        copies.append((key[2], met[key]))
        met[key] += 1
    settings, of_setting = _numbered(settings)
    draws, of_draw = _numbered(copies)
    cube = np.full((len(data), len(settings), len(draws), len(metrics)), math.nan)
    cube[of_data, of_setting, of_draw] = np.stack([np.asarray(table[name], float) for name in metrics], axis=-1)
    return _Draws(cube, tuple(data), _numbered([seed for seed, _ in draws])[1])


def _numbered(values: Sequence) -> tuple[list, np.ndarray]:
    """Distinct values in the order they first occur, and each value's place among them."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), np.array([places[value] for value in values])


def _seeds_of(table: Table) -> list[tuple]:
    """What tells members under one setting apart: the seed and the combination left out of training."""
    held_out = table.get("held_out", np.full(len(table["seed"]), ""))
    return list(zip(map(float, table["seed"]), map(str, held_out), strict=True))


def settings_of(table: Table, without: Sequence[str] = ()) -> list[tuple]:
    """Each member's model and settings: the columns between ``model`` and ``seed``."""
    names = list(table)
    names = names[names.index("model") : names.index("seed")]
    rows = zip(*(table[name] for name in names if name == "model" or name not in without), strict=True)
    return [tuple("" if value != value else str(value) for value in row) for row in rows]


def _labels(table: Table) -> list[tuple]:
    return list(zip(map(str, table["data"]), settings_of(table), _seeds_of(table), strict=True))


def _share(draws: _Draws, rng, trials: int, *, other_data: bool, other_metric: bool) -> float:
    cube = draws.cube
    data, settings, seeds, metrics = cube.shape
    if seeds < 2 or (other_data and data < 2) or (other_metric and metrics < 2):
        return math.nan
    here, there = _pair(rng, data, trials, other_data)
    by, other = _pair(rng, metrics, trials, other_metric)
    chosen_on, fresh = _pair(rng, seeds, trials, True)
    scores = cube[here, :, chosen_on, by]  # [trials, settings]
    possible = np.isfinite(scores).any(axis=1)
    best = np.where(np.isfinite(scores), scores, -np.inf).argmax(axis=1)
    transferred = cube[there, best, fresh, other]
    random = cube[there, rng.integers(settings, size=trials), fresh, other]
    counted = possible & np.isfinite(transferred) & np.isfinite(random)
    counted &= draws.original[chosen_on] != draws.original[fresh]
    return float((transferred >= random)[counted].mean()) if counted.any() else math.nan


def _pair(rng, count: int, trials: int, other: bool) -> tuple[np.ndarray, np.ndarray]:
    """Two draws each, equal or certainly different."""
    first = rng.integers(count, size=trials)
    if not other:
        return first, first
    return first, (first + rng.integers(1, count, size=trials)) % count
