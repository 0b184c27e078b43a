"""The claims of Locatello et al. 2020 as statistics with thresholds, over the table of one zoo."""

import itertools
from collections.abc import Mapping

import numpy as np

from jaxdis._core.finite import finite
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._verdict import Finding, Part, by_member, by_seed, exact, findings, resampled, share
from jaxdis.papers.locatello2020._run import COLUMNS, MATRICES, SPRITES, UNSUPERVISED
from jaxdis.study.report._statistics import Table, across_data, over_seeds, spearman, spearman_of_columns, transfer

SAMPLED, MEAN = "total_correlation_sampled", "total_correlation"
# Replicates of statistics that take seconds each.
FEW = 60


def claims(table: Table, ranked: Mapping, impossible: Mapping, *, small: bool = False) -> list[Finding]:
    """Every claim that the zoo's data sets allow to check. ``small``: with remarks on what fails in the small form."""
    parts_by_claim = {
        **_dependence(table),
        **_importance(table),
        **_transfer(table),
        **agreement(table),
        **matrices(table),
        **stability(ranked),
        **downstream(table),
        "impossibility": impossibility(impossible),
    }
    return findings(__package__, parts_by_claim, "zoo", untrained=["impossibility"], small=small)


def _each(table: Table, models, statistic, name: str = "", **expected) -> list[Part]:
    """A statistic of each of these models on each data set."""
    parts = []
    for data, rows in readings.each_data(table):
        for model in models:
            if model in readings.models_of(rows):
                own = readings.of(rows, model=model)
                parts.append(Part(f"{data}, {model}{', ' + name if name else ''}", by_seed(own, statistic), **expected))
    return parts


def _per_data(table: Table, statistic, name: str = "", **expected) -> list[Part]:
    """A statistic of each data set."""
    return [
        Part(f"{data}{', ' + name if name else ''}", by_seed(rows, statistic), **expected)
        for data, rows in readings.each_data(table)
    ]


def _dependence(table: Table) -> dict[str, list[Part]]:
    """§5.2: total correlation and information of sampled and mean codes."""
    unannealed = readings.of(table, model=tuple(m for m in readings.models_of(table) if m != "annealed"))

    def vae_over_others(rows):
        plain = rows["beta"] == 1
        rivals = [
            readings.median(rows[SAMPLED][(rows["model"] == m) & (rows["regularization"] == s) & ~plain])
            for m, s in {(m, s) for m, s, p in zip(rows["model"], rows["regularization"], plain, strict=True) if not p}
        ]
        return readings.median(rows[SAMPLED][plain]) - max(finite(rivals), default=np.nan)

    def ratio(model):
        return lambda rows: (
            readings.median(readings.of(rows, model=model)[SAMPLED]) / readings.median(rows[SAMPLED][rows["beta"] == 1])
        )

    def flatter(model, column=SAMPLED):
        return lambda rows: (
            abs(readings.slope(readings.of(rows, model=model), column))
            - abs(readings.slope(readings.of(rows, model="beta"), column))
        )

    def logs(rows):
        return readings.median(np.log(rows[MEAN] / np.maximum(rows[SAMPLED], 1e-6)))

    tc = ("beta", "beta_tc")
    dip_low = [
        part
        for model in ("dip_i", "dip_ii")
        for part in (
            *_per_data(table, ratio(model), f"{model} over β = 1", below=1),
            *_per_data(table, flatter(model), f"{model} less steep than β-VAE", below=0),
        )
    ]
    info = "code_information"
    above = lambda rows: float(np.mean(rows[MEAN] > rows[SAMPLED]))  # noqa: E731
    return {
        "tc_sampled_falls": _each(table, tc, lambda rows: readings.trend(rows, SAMPLED), below=-0.8),
        "tc_sampled_vae_highest": _per_data(unannealed, vae_over_others, "β = 1 over the next", above=0),
        "tc_sampled_dip_low": dip_low,
        "tc_sampled_factor_flat": [
            *_per_data(table, ratio("factor"), "factor over β = 1", below=1),
            *_each(table, ("factor",), lambda rows: readings.trend(rows, SAMPLED), above=-0.8),
        ],
        "tc_mean_rises": _each(table, tc, lambda rows: readings.trend(rows, MEAN), above=0.8),
        "tc_mean_dip_i_low": _per_data(
            table,
            lambda rows: readings.lead_of("dip_i", readings.by_model(rows, MEAN), min),
            "dip_i under the next",
            below=0,
        ),
        "tc_mean_dip_ii_mixed": _ratio_between(table, ("dsprites", "shapes3d"), "dip_ii", MEAN),
        "tc_mean_annealed_high": _per_data(
            table,
            lambda rows: readings.lead_of("annealed", readings.by_model(rows, MEAN)),
            "annealed over the next",
            above=0,
        ),
        "tc_mean_above_sampled": [
            Part("share of members", by_member(table, above), above=0.5),
            Part("median log ratio", by_member(table, logs), above=0),
            *_per_data(
                table,
                lambda rows: readings.lead_of(
                    "dip_i", {m: logs(readings.of(rows, model=m)) for m in readings.models_of(rows)}, min
                ),
                "log ratio of dip_i under the next",
                below=0,
            ),
        ],
        "code_information": [
            *_each(table, tc, lambda rows: readings.trend(rows, f"{info}_sampled"), "sampled", below=0),
            *_each(table, tc, lambda rows: readings.trend(rows, info), "mean", above=0),
            *_each(table, ("dip_i",), lambda rows: readings.trend(rows, f"{info}_sampled"), "sampled", above=0),
            *_each(table, ("dip_i",), lambda rows: readings.trend(rows, info), "mean", above=0),
        ],
    }


def _ratio_between(table: Table, data: tuple[str, str], model: str, column: str) -> list[Part]:
    if not set(data).issubset(readings.data_of(table)):
        return []

    def ratio(rows):
        first, second = (readings.median(readings.of(rows, data=name, model=model)[column]) for name in data)
        return first / second

    return [Part(f"{model}, {data[0]} over {data[1]}", by_seed(table, ratio), above=1)]


def _importance(table: Table) -> dict[str, list[Part]]:
    """§5.3 and §5.4.1, §5.4.2: what matters for a score."""
    cells = [(rows, column) for _, rows in readings.each_data(table) for column in COLUMNS]
    of_models = [
        readings.beats(readings.of(rows, model=model), column)
        for rows, column in cells
        for model in readings.models_of(rows)
    ]
    of_models = finite(of_models).tolist()

    def winners(sample):
        best = []
        for _, rows in readings.each_data(sample):
            for column in COLUMNS:
                medians = readings.by_model(rows, column)
                best.append(max(medians, key=medians.get))
        return float(len(set(best)))

    def mean_explained(regularization):
        return lambda sample: float(
            readings.mean(
                [
                    readings.explained(rows, c, regularization=regularization)
                    for _, rows in readings.each_data(sample)
                    for c in COLUMNS
                ]
            )
        )

    def irs_lead(sample):
        explained = {
            c: readings.mean(
                [readings.explained(rows, c, regularization=False) for _, rows in readings.each_data(sample)]
            )
            for c in COLUMNS
        }
        return readings.lead_of("irs", explained)

    def both_signs(sample):
        kinds = []
        for model in readings.models_of(sample):
            trends = [
                readings.trend(readings.of(rows, model=model), c)
                for _, rows in readings.each_data(sample)
                for c in COLUMNS
            ]
            defined = finite(trends)
            kinds.append(min(defined) < 0 < max(defined) if len(defined) else float("nan"))
        return readings.mean(kinds)

    def consistent(sample):
        worst = []
        for name in UNSUPERVISED:
            rho = [spearman_of_columns(rows, [name], COLUMNS)[0] for _, rows in readings.each_data(sample)]
            defined = finite(np.concatenate(rho))
            if len(defined):
                worst.append(max(defined.min(), -defined.max()))
        return float(max(worst, default=np.nan))

    overlapping = [value >= 0.5 for rows, column in cells for value in readings.overlaps(rows, column)]
    means = {regularization: by_seed(table, mean_explained(regularization)) for regularization in (False, True)}
    gain = by_seed(table, lambda sample: mean_explained(True)(sample) - mean_explained(False)(sample))
    return {
        "ranges_overlap": [Part("share of pairs of methods", share(sum(overlapping), len(overlapping)), above=0.8)],
        "no_best_method": [Part("methods that win a cell", by_seed(table, winners), above=1.5)],
        "dip_i_lowest_irs": _per_data(
            table,
            lambda rows: readings.lead_of("dip_i", readings.by_model(rows, "irs"), min),
            "dip_i under the next",
            below=0,
        ),
        "seed_beats_strength": [
            Part("share of cells above .1", share(sum(v > 0.1 for v in of_models), len(of_models)), above=0.5)
        ],
        "variance_explained": [
            Part("objective", means[False], above=0.1, below=0.7),
            Part("objective × regularization strength minus objective", gain, above=0),
            Part("objective × regularization strength", means[True], below=1),
        ],
        "irs_explained_most": [Part("IRS over the next metric", by_seed(table, irs_lead), above=0)],
        "no_rule_for_strength": [Part("share of methods with both signs", by_seed(table, both_signs), above=0.5)],
        "unsupervised_scores_useless": [
            Part("largest |ρ| that keeps its sign over metrics and data", by_member(table, consistent), below=0.5)
        ],
    }


def _transfer(table: Table) -> dict[str, list[Part]]:
    """§5.4.3, §5.4.4: what carries over."""
    data = readings.data_of(table)
    if len(data) < 2:
        return {}

    def by_seed_few(statistic):
        return over_seeds(table, statistic, replicates=FEW, level=0.9)

    def differences(first: str, second: str | None):
        def statistic(sample):
            probabilities = transfer(sample, COLUMNS, trials=2000)._asdict()
            return probabilities[first] - (0.5 if second is None else probabilities[second])

        return by_seed_few(statistic)

    steps = (
        ("same_data_same_metric", "same_data_other_metric"),
        ("same_data_other_metric", "other_data_same_metric"),
        ("other_data_same_metric", "other_data_other_metric"),
        ("other_data_other_metric", None),
    )
    order = [
        Part(
            f"{a.replace('_', ' ')} minus {'chance' if b is None else b.replace('_', ' ')}", differences(a, b), above=0
        )
        for a, b in steps
    ]

    def between(sample, column):
        matrix, names = across_data(sample, column)
        return {
            frozenset(pair): matrix[names.index(pair[0]), names.index(pair[1])]
            for pair in itertools.combinations(names, 2)
        }

    def color(sample):
        pair = frozenset(("dsprites", "color_dsprites"))
        leads = [
            correlations[pair] - max(value for key, value in correlations.items() if key != pair)
            for correlations in (between(sample, column) for column in COLUMNS)
        ]
        return float(readings.median(leads))

    def irs(sample):
        means = {column: readings.mean(list(between(sample, column).values())) for column in COLUMNS}
        return means["irs"] - readings.mean([value for name, value in means.items() if name != "irs"])

    comparable = {"dsprites", "color_dsprites"}.issubset(data) and len(data) > 2
    return {
        "transfer_order": order,
        "transfer_color": [Part("median over metrics", by_seed_few(color), above=0)] if comparable else [],
        "irs_transfers": [Part("IRS minus the mean of others", by_seed_few(irs), above=0)],
    }


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
