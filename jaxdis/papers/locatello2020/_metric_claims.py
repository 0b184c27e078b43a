"""Claims of Locatello et al. 2020 about metrics: §6 and §7, and Theorem 1."""

import itertools
from collections.abc import Mapping

import numpy as np

from jaxdis._core.finite import finite
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._verdict import Part, by_member, exact, resampled, share
from jaxdis.papers.locatello2020._run import COLUMNS, MATRICES, SPRITES, UNSUPERVISED
from jaxdis.study.report._seed_statistics import Table, spearman

AGREEING = ["beta_vae", "factor_vae", "mig", "dci.disentanglement", "sap"]


def agreement(table: Table) -> dict[str, list[Part]]:
    """§6.1: how metrics agree."""
    sprites = readings.of(table, data=SPRITES)
    names = list(itertools.combinations(COLUMNS, 2))

    def rank_of(pair):
        place = names.index(tuple(sorted(pair, key=COLUMNS.index)))

        def statistic(rows):
            correlations = readings.pairs_of(rows, COLUMNS)
            defined = np.isfinite(correlations)
            return float(np.mean(correlations[defined] > correlations[place])) if defined[place] else float("nan")

        return statistic

    def modularity_below(rows):
        with_it = readings.mean([spearman(rows["modularity"], rows[name]) for name in AGREEING])
        return with_it - readings.median(readings.pairs_of(rows, AGREEING))

    def irs_apart(rows):
        with_it = readings.mean([spearman(rows["irs"], rows[name]) for name in COLUMNS if name != "irs"])
        return with_it - readings.mean(readings.pairs_of(rows, COLUMNS))

    def per_data(sample, statistic, name="", **expected):
        return [
            Part(f"{data}{', ' + name if name else ''}", by_member(rows, statistic), **expected)
            for data, rows in readings.each_data(sample)
        ]

    return {
        "metrics_agree": [
            *per_data(
                sprites, lambda rows: float(readings.median(readings.pairs_of(rows, AGREEING))), "median ρ", above=0.5
            ),
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
            lambda rows: readings.discordant(rows["mig"], rows["dci.disentanglement"]),
            "share of pairs of members",
            above=0,
        ),
    }


def matrices(table: Table) -> dict[str, list[Part]]:
    """§6.1.1 and §6.1.2: every relation under every score."""

    def by_matrix(score, other):
        return lambda rows: {s: spearman(rows[f"{s}_{score}"], rows[f"{s}_{other}"]) for s in MATRICES}

    d, c = "entropy.disentanglement", "entropy.completeness"

    def over_matrices(score):
        def statistic(rows):
            return float(
                readings.mean(
                    [
                        spearman(rows[f"{a}_{score}"], rows[f"{b}_{score}"])
                        for a, b in itertools.combinations(MATRICES, 2)
                    ]
                )
            )

        return statistic

    parts: dict[str, list[Part]] = {name: [] for name in ("same", "depends", "tail", "ranking", "rare")}
    for data, rows in readings.each_data(table):
        for short in MATRICES:
            parts["same"] += [
                Part(
                    f"{data}, {short}: completeness minus disentanglement",
                    by_member(
                        rows, lambda sample, s=short: by_matrix("gap", c)(sample)[s] - by_matrix("gap", d)(sample)[s]
                    ),
                    above=0,
                ),
                Part(
                    f"{data}, {short}: ρ with completeness",
                    by_member(rows, lambda sample, s=short: by_matrix("gap", c)(sample)[s]),
                    above=0.8,
                ),
            ]
        spread = lambda sample: float(np.ptp(list(by_matrix("modularity", d)(sample).values())))  # noqa: E731
        parts["depends"].append(Part(f"{data}, range over matrices", by_member(rows, spread), above=0.3))
        for other in ("mi", "trees"):
            # The share of the largest entry, rescaled: the tail is what is missing to 1.
            longer = lambda sample, o=other: float(readings.mean(sample[f"{o}_share"] - sample["svm_share"]))  # noqa: E731
            parts["tail"].append(Part(f"{data}, SVM minus {other}", by_member(rows, longer), above=0))
        for other in ("entropy.disentanglement", "modularity"):
            lead = lambda sample, o=other: over_matrices("gap")(sample) - over_matrices(o)(sample)  # noqa: E731
            parts["ranking"].append(Part(f"{data}, gap minus {other}", by_member(rows, lead), above=0))
        low = lambda sample: float(np.mean(sample["dci.completeness"] - sample["dci.disentanglement"] < -0.2))  # noqa: E731
        parts["rare"].append(Part(f"{data}, share of members", by_member(rows, low), below=0.1))
    return {
        "same_matrix_gaps_agree": parts["same"],
        "modularity_depends_on_matrix": parts["depends"],
        "svm_long_tail": parts["tail"],
        "matrix_changes_ranking": parts["ranking"],
        "one_to_many_rare": parts["rare"],
    }


def stability(runs_by_data: Mapping) -> dict[str, list[Part]]:
    """§6.2: members ranked by two runs of each metric, ``[2, m]``; members are resampled."""
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
    rivals = [name for name in COLUMNS if name != "modularity"]

    def mean_rho(names, column):
        return lambda rows: float(readings.mean([spearman(rows[name], rows[column]) for name in names]))

    def strongest_on_all(sample):
        rho = [
            [spearman(rows[name], rows[f"{tasks[0]}.efficiency"]) for name in COLUMNS]
            for _, rows in readings.each_data(sample)
        ]
        kept = [min(finite(column), default=np.nan) for column in np.transpose(rho)]
        return float(max(finite(kept), default=np.nan))

    parts: dict[str, list[Part]] = {name: [] for name in ("with", "less", "groups", "trees", "bad")}
    for data, rows in readings.each_data(table):
        if data == "scream_dsprites" and "annealed" in readings.models_of(rows):
            rho = by_member(
                readings.of(rows, model="annealed"), lambda s: spearman(s[f"{tasks[0]}.efficiency"], s[tasks[0]])
            )
            parts["bad"].append(Part("ρ of efficiency with accuracy, annealed", rho, below=0))
        if data in SPRITES:
            parts["with"] += [
                Part(
                    f"{data}, {name}, {task.split('_')[1]}",
                    by_member(rows, lambda s, n=name, t=task: spearman(s[n], s[t])),
                    above=0,
                )
                for name in rivals
                for task in tasks
            ]
        loss = lambda s: mean_rho(COLUMNS, f"{tasks[0]}.efficiency")(s) - mean_rho(COLUMNS, tasks[0])(s)  # noqa: E731
        parts["less"].append(Part(f"{data}, efficiency minus accuracy", by_member(rows, loss), below=0))
        for name in ("dci.disentanglement", "mig"):
            gap = lambda s, n=name: _thirds(s[n], s["downstream_trees.100"])  # noqa: E731
            parts["groups"].append(Part(f"{data}, highest minus lowest third of {name}", by_member(rows, gap), above=0))
            if data == "shapes3d":
                rho = lambda s, n=name: spearman(s[n], s["downstream_trees.efficiency"])  # noqa: E731
                parts["trees"].append(Part(name, by_member(rows, rho), above=0))
    both = []
    for name in UNSUPERVISED:
        rho = [spearman(rows[name], rows[task]) for _, rows in readings.each_data(table) for task in tasks]
        both.append(min(rho) < 0 < max(rho))
    return {
        "downstream_correlates": parts["with"],
        "no_efficiency": [
            Part("largest ρ that a metric keeps on every data set", by_member(table, strongest_on_all), below=0.3),
            *parts["less"],
        ],
        "efficiency_trees_shapes3d": parts["trees"],
        "efficient_because_bad": parts["bad"],
        "groups_by_score": parts["groups"],
        "unsupervised_downstream": [Part("share of scores with both signs", share(sum(both), len(both)), above=0.5)],
    }


def _thirds(score: np.ndarray, accuracy: np.ndarray) -> float:
    """Mean accuracy in the third of members with the highest score minus that in the lowest third."""
    order = np.argsort(score)
    third = len(order) // 3
    return (
        float(readings.mean(accuracy[order[-third:]]) - readings.mean(accuracy[order[:third]]))
        if third
        else float("nan")
    )


def impossibility(scores_by_size: Mapping) -> list[Part]:
    """Theorem 1: each score's first entry is for the factors themselves, the second for the entangled codes."""
    parts = []
    for k, scores in scores_by_size.items():
        for name in ("mig", "dci.disentanglement"):
            right, wrong = scores[name]
            parts.append(Part(f"{k} factors, {name} of f(z) over that of z", exact(wrong / right), below=0.25))
        change = abs(scores["total_correlation"][1] - scores["total_correlation"][0])
        parts.append(Part(f"{k} factors, change of total correlation, nats", exact(change), below=0.01))
    return parts
