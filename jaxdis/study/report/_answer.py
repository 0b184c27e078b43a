"""The answer that a report begins with: settings by one score per aspect, which is best, and how certain that is."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from jaxdis._core.finite import finite
from jaxdis._core.finite import mean as finite_mean
from jaxdis.evaluation import compare
from jaxdis.evaluation._comparison import MOST_MEMBERS, p_in_words
from jaxdis.study._run_study import Digest
from jaxdis.study.report._html import Html, table
from jaxdis.study.report._subject import Subject

# A difference counts as more than noise below this p-value.
LEVEL = 0.05
MEANING = {
    "modularity": ("each code encodes one factor", "Modularity"),
    "compactness": ("each factor is encoded by one code", "Compactness"),
    "explicitness": ("factors can be predicted from the codes simply", "Explicitness"),
}


class Ranking(NamedTuple):
    """Settings ``[s]`` under headline columns ``[c]``, over seeds.

    ``mean``, ``spread`` (standard deviation over seeds, NaN for one seed) and ``rank`` (1 is best) are ``[s, c]``;
    ``overall [s]`` is the mean rank, and ``order [s]`` sorts settings by it. Of settings with the same mean rank, that
    with larger ``ahead [s]`` comes first: how many standard deviations over settings its means are better, on average.
    """

    settings: tuple[str, ...]
    columns: tuple[str, ...]
    mean: np.ndarray
    spread: np.ndarray
    rank: np.ndarray
    overall: np.ndarray
    ahead: np.ndarray
    order: np.ndarray


class Lead(NamedTuple):
    """The best setting's lead over the second best in one column, Welch's two-sided p-value (NaN for fewer than three
    seeds), and the seeds with which a difference of this size would mostly be found; the worst setting, and the p-value
    for the lead over it, corrected for how many pairs of settings there are."""

    best: int
    second: int
    difference: float
    p: float
    seeds: float
    worst: int
    worst_p: float


def ranking(subject: Subject, columns: Sequence[str]) -> Ranking:
    """Settings by score columns. Settings with equal means share a rank; undefined ones come last."""
    settings = tuple(dict.fromkeys(subject.settings))
    scores = _by_setting(subject, settings, columns)
    mean = np.array([[finite_mean(rows) for rows in column] for column in scores]).T
    spread = np.array(
        [[finite(rows).std() if len(finite(rows)) > 1 else np.nan for rows in column] for column in scores]
    ).T
    sign = np.array([1.0 if subject.lower_is_better(name) else -1.0 for name in columns])
    keys = np.where(np.isfinite(mean), sign * mean, np.inf)
    rank = np.stack([stats.rankdata(column) for column in keys.T], axis=1)
    overall = rank.mean(axis=1)
    middle, deviation = np.nanmean(mean, axis=0), np.nanstd(mean, axis=0)
    better = -sign * (mean - middle) / np.where(deviation > 0, deviation, 1)
    ahead = np.nan_to_num(better).mean(axis=1).round(6)  # sums in another order tie as well
    order = np.lexsort([-ahead, overall])
    return Ranking(settings, tuple(columns), mean, spread, rank, overall, ahead, order)


def lead(subject: Subject, ranked: Ranking, column: str) -> Lead | None:
    """By how much the best setting leads in a column; None with fewer than two settings.

    Welch's test takes seeds as independent and, as there are few, scores as Gaussian. The best setting is chosen after
    the fact, so that ``p`` is too small where many settings are alike; ``worst_p`` allows for that (Bonferroni).
    """
    place = ranked.columns.index(column)
    defined = np.flatnonzero(np.isfinite(ranked.mean[:, place]))
    if len(defined) < 2:
        return None
    order = sorted(defined.tolist(), key=lambda row: ranked.rank[row, place])
    best, second, worst = order[0], order[1], order[-1]
    (scores,) = _by_setting(subject, ranked.settings, [column])
    (first,), (last,) = (compare({column: scores[best]}, {column: scores[row]}).rows for row in (second, worst))
    pairs = math.comb(len(defined), 2)
    return Lead(best, second, abs(first.difference), first.p, first.members, worst, min(1.0, last.p * pairs))


def best_member(subject: Subject, names: Sequence[str]) -> int:
    """Of the members with the best setting by these columns, the row with the best mean rank."""
    ranked = ranking(subject, names)
    columns = [(1 if subject.lower_is_better(name) else -1) * subject.table[name] for name in ranked.columns]
    rank = np.mean([stats.rankdata(np.nan_to_num(column, nan=np.inf)) for column in columns], axis=0)
    rows = np.array(subject.settings) == ranked.settings[ranked.order[0]]
    return int(np.flatnonzero(rows)[np.argmin(rank[rows])])


def answer(subject: Subject) -> str:
    """The table of settings and what it says; "" if no column claims a single aspect or there is one setting."""
    chosen = subject.headlines()
    if not chosen or len(set(subject.settings)) < 2:
        return ""
    ranked = ranking(subject, list(chosen.values()))
    seeds = len(np.unique(subject.table["seed"]))
    return _verdict(subject, ranked, chosen) + _table(subject, ranked, chosen) + _legend(subject, chosen, seeds)


def digest(subject: Subject) -> Digest | None:
    """The table of settings for a terminal, best first; on several data sets, that of each."""
    rows, heads = [], None
    several = len(np.unique(subject.table["data"])) > 1
    for data, of_data in subject.each():
        chosen = of_data.headlines()
        if not chosen or len(set(of_data.settings)) < 2:
            continue
        ranked = ranking(of_data, list(chosen.values()))
        heads = heads or ["setting", *(f"{aspect}: {of_data.titles[name]}" for aspect, name in chosen.items())]
        for row in ranked.order:
            name = f"{data}: {ranked.settings[row]}" if several else ranked.settings[row]
            rows.append([name, *(f"{mean:.2f}" if math.isfinite(mean) else "" for mean in ranked.mean[row])])
    if heads is None:
        return None
    return Digest("Which setting disentangles best?", heads, rows, "means over seeds, best average rank first")


def _verdict(subject: Subject, ranked: Ranking, chosen: Mapping[str, str]) -> str:
    best = [row for row in ranked.order if ranked.overall[row] == ranked.overall[ranked.order[0]]]
    names = [f"<strong>{html.escape(ranked.settings[row])}</strong>" for row in best]
    verb = "has" if len(best) == 1 else "share"
    said = f"{' and '.join(names)} {verb} the best average rank of {len(ranked.settings)} settings"
    if len(best) > 1 and ranked.ahead[best[0]] > ranked.ahead[best[1]]:
        said += f"; {names[0]} is ahead by the size of the differences"
    parts = [f"<p>{said}. ", _stopped(subject)]
    for aspect, column in chosen.items():
        gap = lead(subject, ranked, column)
        if gap is not None:
            parts.append(_lead_in_words(aspect, gap, ranked.settings))
    return "".join(parts).rstrip() + "</p>"


def _stopped(subject: Subject) -> str:
    """Members whose training was not finite to its end, if any: they are scored as they were before."""
    stopped = np.asarray(subject.table.get("stopped", np.full(len(subject), -1)), float) >= 0
    if not stopped.any():
        return ""
    stopped_settings = list(dict.fromkeys(np.array(subject.settings)[stopped].tolist()))
    return (
        f"<strong>Training of {stopped.sum()} of {len(subject)} members stopped early</strong>, at an update that was "
        f"not finite ({html.escape('; '.join(stopped_settings))}): their scores are those of the parameters before it. "
    )


def _lead_in_words(aspect: str, gap: Lead, settings: Sequence[str]) -> str:
    first, second = (html.escape(settings[row]) for row in (gap.best, gap.second))
    if gap.difference == 0:
        return f"{MEANING[aspect][1]}: {first} and {second} tie. "
    if math.isnan(gap.p):
        certainty = "three seeds or more could tell this from noise"
    elif gap.p < LEVEL:
        certainty = f"significant, {p_in_words(gap.p)}"
    else:
        more = f"about {gap.seeds:.0f}" if gap.seeds < MOST_MEMBERS else f"{MOST_MEMBERS:,} or more"
        certainty = f"not significant, {p_in_words(gap.p)}; {more} seeds would show a difference of this size"
    said = f"{MEANING[aspect][1]}: {first} leads {second} by {gap.difference:.2g} ({certainty})"
    if gap.worst_p < LEVEL and gap.worst != gap.second:
        pairs = f"{p_in_words(gap.worst_p)}, corrected for all pairs of settings"
        said += f", and surely leads {html.escape(settings[gap.worst])} ({pairs})"
    return f"{said}. "


def _table(subject: Subject, ranked: Ranking, chosen: Mapping[str, str]) -> str:
    columns = {"setting": np.array(ranked.settings, object)[ranked.order]}
    for place, (aspect, name) in enumerate(chosen.items()):
        head = f"{MEANING[aspect][1]}: {subject.titles[name]}"
        columns[head] = [_entry(*row) for row in zip(*(a[ranked.order, place] for a in ranked[2:5]), strict=True)]
    columns["average rank"] = [f"{rank:.3g}" for rank in ranked.overall[ranked.order]]
    return table(list(columns), columns)


def _entry(mean: float, spread: float, rank: float) -> Html:
    if not math.isfinite(mean):
        return Html("")
    beside = f" ± {spread:.2f}" if math.isfinite(spread) else ""
    text = f"{mean:.2f}{beside} <small>({rank:g})</small>"
    return Html(f"<strong>{text}</strong>" if rank == 1 else text)


def _legend(subject: Subject, chosen: Mapping[str, str], seeds: int) -> str:
    over = "seeds and held-out combinations" if "held_out" in subject.table else f"{seeds} seeds"
    several = max(map(subject.settings.count, set(subject.settings))) > 1
    spread = f"Mean ± standard deviation over {over} (rank)." if several else "One seed (rank)."
    asked = "".join(
        f"<li><em>{MEANING[aspect][1]}</em>: {MEANING[aspect][0]}; measured by {subject.link_to(name)}.</li>"
        for aspect, name in chosen.items()
    )
    words = "A representation is disentangled if its codes encode the factors of the images one by one:"
    return f"<p>{spread}</p><p>{words}</p><ul>{asked}</ul>"


def _by_setting(subject: Subject, settings: Sequence[str], columns: Sequence[str]) -> list[list[np.ndarray]]:
    """Scores in every column, for every setting: ``[c][s]`` arrays over seeds."""
    rows_of_setting = [np.array(subject.settings) == setting for setting in settings]
    return [[np.asarray(subject.table[name], float)[rows] for rows in rows_of_setting] for name in columns]
