"""Claims of Locatello et al. 2020 about metrics: §6 and §7, and Theorem 1."""

import itertools
from collections.abc import Mapping

import numpy as np

from jaxdis.papers.harness import _readings as r
from jaxdis.papers.harness._verdict import Part, by_member, exact, resampled, share
from jaxdis.papers.locatello2020._run import COLUMNS, MATRICES, SPRITES, UNSUPERVISED
from jaxdis.study.report._seed_statistics import Table, spearman

AGREEING = ["beta_vae", "factor_vae", "mig", "dci.disentanglement", "sap"]


def agreement(table: Table) -> dict[str, list[Part]]:
    """§6.1: how metrics agree."""
    sprites = r.of(table, data=SPRITES)
    names = list(itertools.combinations(COLUMNS, 2))

    def rank_of(pair):
        place = names.index(tuple(sorted(pair, key=COLUMNS.index)))

        def statistic(mine):
            correlations = r.pairs_of(mine, COLUMNS)
            known = np.isfinite(correlations)
            return float(np.mean(correlations[known] > correlations[place])) if known[place] else float("nan")

        return statistic

    def modularity_below(mine):
        with_it = r.mean([spearman(mine["modularity"], mine[name]) for name in AGREEING])
        return with_it - r.median(r.pairs_of(mine, AGREEING))

    def irs_apart(mine):
        with_it = r.mean([spearman(mine["irs"], mine[name]) for name in COLUMNS if name != "irs"])
        return with_it - r.mean(r.pairs_of(mine, COLUMNS))

    def per_data(some, statistic, name="", **expected):
        return [
            Part(f"{data}{', ' + name if name else ''}", by_member(mine, statistic), **expected)
            for data, mine in r.each_data(some)
        ]

    return {
        "metrics_agree": [
            *per_data(sprites, lambda mine: float(r.median(r.pairs_of(mine, AGREEING))), "median ρ", above=0.5),
            *per_data(sprites, modularity_below, "Modularity minus that", below=0),
        ],
        "closest_pairs": [
            part
            for pair, name in (
                (("beta_vae", "factor_vae"), "BetaVAE and FactorVAE"),
                (("mig", "dci.disentanglement"), "MIG and DCI"),
            )
            for part in per_data(table, rank_of(pair), f"share of pairs closer than {name}", below=0.25)
        ],
        "irs_apart": per_data(table, irs_apart, "IRS minus all pairs", below=0),
        "mig_against_dci": per_data(
            table,
            lambda mine: r.discordant(mine["mig"], mine["dci.disentanglement"]),
            "share of pairs of members",
            above=0,
        ),
    }


def matrices(table: Table) -> dict[str, list[Part]]:
    """§6.1.1 and §6.1.2: every relation under every score."""

    def by_matrix(score, other):
        return lambda mine: {s: spearman(mine[f"{s}_{score}"], mine[f"{s}_{other}"]) for s in MATRICES}

    d, c = "entropy.disentanglement", "entropy.completeness"

    def over_matrices(score):
        def statistic(mine):
            return float(
                r.mean(
                    [
                        spearman(mine[f"{a}_{score}"], mine[f"{b}_{score}"])
                        for a, b in itertools.combinations(MATRICES, 2)
                    ]
                )
            )

        return statistic

    parts: dict[str, list[Part]] = {name: [] for name in ("same", "depends", "tail", "ranking", "rare")}
    for data, mine in r.each_data(table):
        for short in MATRICES:
            parts["same"] += [
                Part(
                    f"{data}, {short}: completeness minus disentanglement",
                    by_member(mine, lambda some, s=short: by_matrix("gap", c)(some)[s] - by_matrix("gap", d)(some)[s]),
                    above=0,
                ),
                Part(
                    f"{data}, {short}: ρ with completeness",
                    by_member(mine, lambda some, s=short: by_matrix("gap", c)(some)[s]),
                    above=0.8,
                ),
            ]
        spread = lambda some: float(np.ptp(list(by_matrix("modularity", d)(some).values())))  # noqa: E731
        parts["depends"].append(Part(f"{data}, range over matrices", by_member(mine, spread), above=0.3))
        for other in ("mi", "trees"):
            # The share of the largest entry, rescaled: the tail is what is missing to 1.
            longer = lambda some, o=other: float(r.mean(some[f"{o}_share"] - some["svm_share"]))  # noqa: E731
            parts["tail"].append(Part(f"{data}, SVM minus {other}", by_member(mine, longer), above=0))
        for other in ("entropy.disentanglement", "modularity"):
            lead = lambda some, o=other: over_matrices("gap")(some) - over_matrices(o)(some)  # noqa: E731
            parts["ranking"].append(Part(f"{data}, gap minus {other}", by_member(mine, lead), above=0))
        low = lambda some: float(np.mean(some["dci.completeness"] - some["dci.disentanglement"] < -0.2))  # noqa: E731
        parts["rare"].append(Part(f"{data}, share of members", by_member(mine, low), below=0.1))
    return {
        "same_matrix_gaps_agree": parts["same"],
        "modularity_depends_on_matrix": parts["depends"],
        "svm_long_tail": parts["tail"],
        "matrix_changes_ranking": parts["ranking"],
        "one_to_many_rare": parts["rare"],
    }


def stability(runs_by_data: Mapping) -> dict[str, list[Part]]:
    """§6.2: rankings of members by two runs of each metric, ``[2, m]``; members are resampled."""
    stable, efficient = [], []
    for data, runs in runs_by_data.items():
        scores = {name: {size: np.asarray(pair) for size, pair in row.items()} for name, row in runs.items()}
        few, many = ([spearman(*row[size]) for row in scores.values()] for size in ("smaller", "larger"))
        good, falls = np.greater(many, 0.9), np.less(few, many)
        stable += [
            Part(f"{data}, share of metrics above .9", share(good.sum(), len(good)), above=0.5),
            Part(f"{data}, share of metrics that fall with few samples", share(falls.sum(), len(falls)), above=0.5),
        ]

        def lead(rows, first, then, scores=scores):
            """By how much two runs with few samples agree more by the first metrics than by the others."""
            rho = lambda names: np.mean([spearman(*scores[name]["smaller"][:, rows]) for name in names])  # noqa: E731
            return rho(first) - rho(then)

        count = next(iter(scores.values()))["smaller"].shape[1]
        for name, *groups in (
            ("FactorVAE and IRS minus DCI and MIG", ("factor_vae", "irs"), ("dci", "mig")),
            ("DCI and MIG minus the others", ("dci", "mig"), ("beta_vae", "modularity", "sap")),
        ):
            found_lead = resampled(count, lambda rows, lead=lead, groups=groups: lead(rows, *groups))
            efficient.append(Part(f"{data}, {name}", found_lead, above=0))
    return {"stable_at_10000": stable, "efficient_scores": efficient}


def downstream(table: Table) -> dict[str, list[Part]]:
    """§7: do scores go with accuracy and efficiency of classifiers on the codes?"""
    tasks = ("downstream_logistic", "downstream_trees")
    others = [name for name in COLUMNS if name != "modularity"]

    def mean_rho(names, column):
        return lambda mine: float(r.mean([spearman(mine[name], mine[column]) for name in names]))

    def strongest_on_all(some):
        rho = [
            [spearman(mine[name], mine[f"{tasks[0]}.efficiency"]) for name in COLUMNS] for _, mine in r.each_data(some)
        ]
        return float(np.nanmax(np.nanmin(rho, axis=0)))

    parts: dict[str, list[Part]] = {name: [] for name in ("with", "less", "groups", "trees", "signs")}
    for data, mine in r.each_data(table):
        if data in SPRITES:
            parts["with"] += [
                Part(
                    f"{data}, {name}, {task.split('_')[1]}",
                    by_member(mine, lambda s, n=name, t=task: spearman(s[n], s[t])),
                    above=0,
                )
                for name in others
                for task in tasks
            ]
        apart = lambda s: mean_rho(COLUMNS, f"{tasks[0]}.efficiency")(s) - mean_rho(COLUMNS, tasks[0])(s)  # noqa: E731
        parts["less"].append(Part(f"{data}, efficiency minus accuracy", by_member(mine, apart), below=0))
        for name in ("dci.disentanglement", "mig"):
            gap = lambda s, n=name: _thirds(s[n], s["downstream_trees.100"])  # noqa: E731
            parts["groups"].append(Part(f"{data}, highest minus lowest third of {name}", by_member(mine, gap), above=0))
            if data == "shapes3d":
                rho = lambda s, n=name: spearman(s[n], s["downstream_trees.efficiency"])  # noqa: E731
                parts["trees"].append(Part(name, by_member(mine, rho), above=0))
    both = []
    for name in UNSUPERVISED:
        rho = [spearman(mine[name], mine[task]) for _, mine in r.each_data(table) for task in tasks]
        both.append(min(rho) < 0 < max(rho))
    return {
        "downstream_correlates": parts["with"],
        "no_efficiency": [
            Part("largest ρ that a metric keeps on every data set", by_member(table, strongest_on_all), below=0.3),
            *parts["less"],
        ],
        "efficiency_trees_shapes3d": parts["trees"],
        "groups_by_score": parts["groups"],
        "unsupervised_downstream": [Part("share of scores with both signs", share(sum(both), len(both)), above=0.5)],
    }


def _thirds(score: np.ndarray, accuracy: np.ndarray) -> float:
    """Mean accuracy of the third of members with the highest score minus that of the lowest third."""
    order = np.argsort(score)
    third = len(order) // 3
    return float(r.mean(accuracy[order[-third:]]) - r.mean(accuracy[order[:third]])) if third else float("nan")


def impossibility(found: Mapping) -> list[Part]:
    """Theorem 1: the first entry of each score is of the factors themselves, the second of the entangled codes."""
    parts = []
    for k, scores in found.items():
        for name in ("mig", "dci.disentanglement"):
            right, wrong = scores[name]
            parts.append(Part(f"{k} factors, {name} of f(z) over that of z", exact(wrong / right), below=0.25))
        change = abs(scores["total_correlation"][1] - scores["total_correlation"][0])
        parts.append(Part(f"{k} factors, change of total correlation, nats", exact(change), below=0.01))
    return parts
