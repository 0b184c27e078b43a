"""The page of Locatello et al. 2020: Tables 1 and 5, and the figures whose numbers are not printed, drawn again."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from jaxdis import plots
from jaxdis._core.finite import finite
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness import _verdict as verdicts
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, differences_in
from jaxdis.papers.harness._paper import Finished, Reproduction
from jaxdis.papers.harness._printed import printed_in
from jaxdis.papers.harness._verdict import Finding, Part, by_member, by_seed, exact, findings, per_data
from jaxdis.papers.locatello2020._run import COLUMNS, MATRICES, SEVEN, SPRITES, UNSUPERVISED
from jaxdis.study.report._figures import blends, dependence, learning, merges, one_against_others, structure
from jaxdis.study.report._html import Picture
from jaxdis.study.report._html import table as html_table
from jaxdis.study.report._statistics import (
    Table,
    across_data,
    explained,
    over_seeds,
    spearman,
    spearman_of_columns,
    transfer,
)
from jaxdis.study.report._subject import Subject

SAMPLED, MEAN = "total_correlation_sampled", "total_correlation"
# Replicates of statistics that take seconds each.
FEW = 60


def claims(table: Table, ranked: Mapping, impossible: Mapping, *, small: bool = False) -> list[Finding]:
    """Every claim that the zoo's data sets allow to check. ``small``: with remarks on what fails in the small form."""
    parts = _dependence(table) | _importance(table) | _transfer(table) | agreement(table) | matrices(table)
    parts |= stability(ranked) | downstream(table) | {"impossibility": impossibility(impossible)}
    return findings(__package__, parts, "zoo", untrained=["impossibility"], small=small)


def _cells(table: Table) -> list[tuple[Table, str]]:
    return [(rows, column) for _, rows in readings.each_data(table) for column in COLUMNS]


def _trend(column: str):
    return lambda rows: readings.trend(rows, column)


def _lead(model: str, column: str, best=max):
    return lambda rows: readings.lead_of(model, readings.by_model(rows, column), best)


def _rho(first: str, second: str):
    return lambda rows: spearman(rows[first], rows[second])


def _explained(rows: Table, column: str, by: str | None = None, *, adjust: bool = True) -> float:
    return explained(rows, column, None if by is None else rows[by], adjust=adjust)


def _dependence(table: Table) -> dict[str, list[Part]]:
    """§5.2: total correlation and information of sampled and mean codes."""
    unannealed = readings.of(table, model=tuple(m for m in readings.models_of(table) if m != "annealed"))

    def vae_over_others(rows):
        plain = rows["beta"] == 1
        settings = set(zip(rows["model"][~plain], rows["regularization"][~plain], strict=True))
        rivals = [
            readings.median(rows[SAMPLED][(rows["model"] == m) & (rows["regularization"] == s) & ~plain])
            for m, s in settings
        ]
        return readings.median(rows[SAMPLED][plain]) - max(finite(rivals), default=np.nan)

    def ratio(model):
        return lambda rows: (
            readings.median(readings.of(rows, model=model)[SAMPLED]) / readings.median(rows[SAMPLED][rows["beta"] == 1])
        )

    def flatter(model):
        slope = lambda rows, of: abs(readings.slope(readings.of(rows, model=of), SAMPLED))  # noqa: E731
        return lambda rows: slope(rows, model) - slope(rows, "beta")

    def logs(rows):
        return readings.median(np.log(rows[MEAN] / np.maximum(rows[SAMPLED], 1e-6)))

    def dip_under_others(rows):
        by_model = {model: logs(readings.of(rows, model=model)) for model in readings.models_of(rows)}
        return readings.lead_of("dip_i", by_model, min)

    def first_over_second(rows):
        medians = [readings.median(readings.of(rows, data=name, model="dip_ii")[MEAN]) for name in sizes]
        return medians[0] / medians[1]

    tc, sizes, info = ("beta", "beta_tc"), ("dsprites", "shapes3d"), "code_information"
    dip_low = []
    for model in ("dip_i", "dip_ii"):
        dip_low += per_data(table, ratio(model), f"{model} over β = 1", below=1)
        dip_low += per_data(table, flatter(model), f"{model} less steep than β-VAE", below=0)
    mixed = set(sizes).issubset(readings.data_of(table))
    return {
        "tc_sampled_falls": per_data(table, _trend(SAMPLED), models=tc, below=-0.8),
        "tc_sampled_vae_highest": per_data(unannealed, vae_over_others, "β = 1 over the next", above=0),
        "tc_sampled_dip_low": dip_low,
        "tc_sampled_factor_flat": [
            *per_data(table, ratio("factor"), "factor over β = 1", below=1),
            *per_data(table, _trend(SAMPLED), models=("factor",), above=-0.8),
        ],
        "tc_mean_rises": per_data(table, _trend(MEAN), models=tc, above=0.8),
        "tc_mean_dip_i_low": per_data(table, _lead("dip_i", MEAN, min), "dip_i under the next", below=0),
        "tc_mean_dip_ii_mixed": (
            [Part("dip_ii, dsprites over shapes3d", by_seed(table, first_over_second), above=1)] if mixed else []
        ),
        "tc_mean_annealed_high": per_data(table, _lead("annealed", MEAN), "annealed over the next", above=0),
        "tc_mean_above_sampled": [
            Part(
                "share of members", by_member(table, lambda rows: float(np.mean(rows[MEAN] > rows[SAMPLED]))), above=0.5
            ),
            Part("median log ratio", by_member(table, logs), above=0),
            *per_data(table, dip_under_others, "log ratio of dip_i under the next", below=0),
        ],
        "code_information": [
            *per_data(table, _trend(f"{info}_sampled"), "sampled", models=tc, below=0),
            *per_data(table, _trend(info), "mean", models=tc, above=0),
            *per_data(table, _trend(f"{info}_sampled"), "sampled", models=("dip_i",), above=0),
            *per_data(table, _trend(info), "mean", models=("dip_i",), above=0),
        ],
    }


def _importance(table: Table) -> dict[str, list[Part]]:
    """§5.3 and §5.4.1, §5.4.2: what matters for a score."""
    cells = _cells(table)
    reversals = finite(
        [readings.beats(readings.of(rows, model=m), column) for rows, column in cells for m in readings.models_of(rows)]
    )
    overlapping = [value >= 0.5 for rows, column in cells for value in readings.overlaps(rows, column)]

    def winners(sample):
        medians = [readings.by_model(rows, column) for rows, column in _cells(sample)]
        return float(len({max(scores, key=scores.get) for scores in medians}))

    def shares(sample, *by):
        return float(readings.mean([_explained(rows, column, *by) for rows, column in _cells(sample)]))

    def irs_lead(sample):
        data = [rows for _, rows in readings.each_data(sample)]
        shares = {c: readings.mean([_explained(d, c) for d in data]) for c in COLUMNS}
        return readings.lead_of("irs", shares)

    def both_signs(sample):
        kinds = []
        for model in readings.models_of(sample):
            trends = finite([readings.trend(readings.of(rows, model=model), c) for rows, c in _cells(sample)])
            kinds.append(min(trends) < 0 < max(trends) if len(trends) else float("nan"))
        return readings.mean(kinds)

    def consistent(sample):
        worst = []
        for name in UNSUPERVISED:
            rho = [spearman_of_columns(rows, [name], COLUMNS)[0] for _, rows in readings.each_data(sample)]
            defined = finite(np.concatenate(rho))
            if len(defined):
                worst.append(max(defined.min(), -defined.max()))
        return float(max(worst, default=np.nan))

    strength = "regularization"
    model, setting = (by_seed(table, lambda sample, by=by: shares(sample, *by)) for by in ((), (strength,)))
    gain = by_seed(table, lambda sample: shares(sample, strength) - shares(sample))
    return {
        "ranges_overlap": [Part("share of pairs of methods", verdicts.share(overlapping), above=0.8)],
        "no_best_method": [Part("methods that win a cell", by_seed(table, winners), above=1.5)],
        "dip_i_lowest_irs": per_data(table, _lead("dip_i", "irs", min), "dip_i under the next", below=0),
        "seed_beats_strength": [Part("share of cells above .1", verdicts.share(reversals > 0.1), above=0.5)],
        "variance_explained": [
            Part("objective", model, above=0.1, below=0.7),
            Part("objective × regularization strength minus objective", gain, above=0),
            Part("objective × regularization strength", setting, below=1),
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

    def fall(first, second):
        """By how much the probability of one transfer exceeds that of another, or chance."""

        def statistic(sample):
            probabilities = transfer(sample, COLUMNS, trials=2000)._asdict()
            return probabilities[first] - probabilities.get(second, 0.5)

        interval = by_seed_few(statistic)
        return Part(f"{first.replace('_', ' ')} minus {second.replace('_', ' ')}", interval, above=0)

    kinds = itertools.product(("same", "other"), ("same", "other"))
    steps = [*(f"{data}_data_{metric}_metric" for data, metric in kinds), "chance"]

    def between(sample, column):
        matrix, names = across_data(sample, column)
        return {frozenset((a, b)): matrix[names.index(a), names.index(b)] for a, b in itertools.combinations(names, 2)}

    def color(sample):
        pair = frozenset(("dsprites", "color_dsprites"))
        correlations = [between(sample, column) for column in COLUMNS]
        return float(readings.median([c[pair] - max(v for key, v in c.items() if key != pair) for c in correlations]))

    def irs(sample):
        means = {column: readings.mean(list(between(sample, column).values())) for column in COLUMNS}
        return means["irs"] - readings.mean([value for name, value in means.items() if name != "irs"])

    comparable = {"dsprites", "color_dsprites"}.issubset(data) and len(data) > 2
    return {
        "transfer_order": [fall(first, second) for first, second in itertools.pairwise(steps)],
        "transfer_color": [Part("median over metrics", by_seed_few(color), above=0)] if comparable else [],
        "irs_transfers": [Part("IRS minus the mean of others", by_seed_few(irs), above=0)],
    }


AGREEING = ["beta_vae", "factor_vae", "mig", "dci.disentanglement", "sap"]


def agreement(table: Table) -> dict[str, list[Part]]:
    """§6.1: how metrics agree."""
    sprites = readings.of(table, data=SPRITES)
    names = list(itertools.combinations(COLUMNS, 2))

    def median_of_agreeing(rows):
        return float(readings.median(readings.pairs_of(rows, AGREEING)))

    def mean_with(name, columns, rows):
        return readings.mean([spearman(rows[name], rows[column]) for column in columns if column != name])

    def modularity_below(rows):
        return mean_with("modularity", AGREEING, rows) - median_of_agreeing(rows)

    def irs_apart(rows):
        return mean_with("irs", COLUMNS, rows) - readings.mean(readings.pairs_of(rows, COLUMNS))

    def rank_of(pair, rows):
        place = names.index(tuple(sorted(pair, key=COLUMNS.index)))
        correlations = readings.pairs_of(rows, COLUMNS)
        defined = np.isfinite(correlations)
        return float(np.mean(correlations[defined] > correlations[place])) if defined[place] else float("nan")

    def discordant(rows):
        return readings.discordant(rows["mig"], rows["dci.disentanglement"])

    pairs = {"BetaVAE and FactorVAE": ("beta_vae", "factor_vae"), "MIG and DCI": ("mig", "dci.disentanglement")}
    closest = []
    for title, pair in pairs.items():
        words = f"share of pairs closer than {title}"
        closest += per_data(table, functools.partial(rank_of, pair), words, by=by_member, below=0.25)
    return {
        "metrics_agree": [
            *per_data(sprites, median_of_agreeing, "median ρ", by=by_member, above=0.5),
            *per_data(sprites, modularity_below, "Modularity minus that", by=by_member, below=0),
        ],
        "closest_pairs": closest,
        "irs_apart": per_data(table, irs_apart, "IRS minus all pairs", by=by_member, below=0),
        "mig_against_dci": per_data(table, discordant, "share of pairs of members", by=by_member, above=0),
    }


def matrices(table: Table) -> dict[str, list[Part]]:
    """§6.1.1 and §6.1.2: every relation under every score."""
    d, c = "entropy.disentanglement", "entropy.completeness"

    def between_matrices(score, rows):
        pairs = itertools.combinations(MATRICES, 2)
        return float(readings.mean([spearman(rows[f"{a}_{score}"], rows[f"{b}_{score}"]) for a, b in pairs]))

    def spread(rows):
        return float(np.ptp([spearman(rows[f"{s}_modularity"], rows[f"{s}_{d}"]) for s in MATRICES]))

    def low(rows):
        return float(np.mean(rows["dci.completeness"] - rows["dci.disentanglement"] < -0.2))

    same = []
    for data, rows in readings.each_data(table):
        for short in MATRICES:
            complete, other = (_rho(f"{short}_gap", f"{short}_{score}") for score in (c, d))
            lead = by_member(rows, lambda sample, one=complete, other=other: one(sample) - other(sample))
            same += [
                Part(f"{data}, {short}: completeness minus disentanglement", lead, above=0),
                Part(f"{data}, {short}: ρ with completeness", by_member(rows, complete), above=0.8),
            ]
    # The share of the largest entry, rescaled: the tail is what is missing to 1.
    tails = {
        f"SVM minus {other}": lambda rows, other=other: float(readings.mean(rows[f"{other}_share"] - rows["svm_share"]))
        for other in ("mi", "trees")
    }
    rankings = {
        f"gap minus {other}": lambda rows, other=other: between_matrices("gap", rows) - between_matrices(other, rows)
        for other in (d, "modularity")
    }
    return {
        "same_matrix_gaps_agree": same,
        "modularity_depends_on_matrix": per_data(table, spread, "range over matrices", by=by_member, above=0.3),
        "svm_long_tail": per_data(table, tails, by=by_member, above=0),
        "matrix_changes_ranking": per_data(table, rankings, by=by_member, above=0),
        "one_to_many_rare": per_data(table, low, "share of members", by=by_member, below=0.1),
    }


def stability(runs_by_data: Mapping) -> dict[str, list[Part]]:
    """§6.2: members ranked by two runs of each metric, ``[2, m]``; members are resampled."""
    stable, efficient = [], []
    for data, runs in runs_by_data.items():
        scores = {name: {size: np.asarray(pair) for size, pair in row.items()} for name, row in runs.items()}
        few, many = ([spearman(*row[size]) for row in scores.values()] for size in ("smaller", "larger"))
        good, falls = np.greater(many, 0.9), np.less(few, many)
        stable += [
            Part(f"{data}, share of metrics above .9", verdicts.share(good), above=0.5),
            Part(f"{data}, share of metrics that fall with few samples", verdicts.share(falls), above=0.5),
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
            found_lead = verdicts.resampled(count, lambda rows, lead=lead, groups=groups: lead(rows, *groups))
            efficient.append(Part(f"{data}, {name}", found_lead, above=0))
    return {"stable_at_10000": stable, "efficient_scores": efficient}


def downstream(table: Table) -> dict[str, list[Part]]:
    """§7: do scores go with accuracy and efficiency of classifiers on the codes?"""
    tasks = ("downstream_logistic", "downstream_trees")
    efficiency = f"{tasks[0]}.efficiency"

    def loss(rows):
        means = [readings.mean([spearman(rows[n], rows[column]) for n in COLUMNS]) for column in (efficiency, tasks[0])]
        return float(means[0]) - float(means[1])

    def strongest_on_all(sample):
        rho = [[spearman(rows[name], rows[efficiency]) for name in COLUMNS] for _, rows in readings.each_data(sample)]
        kept = [min(finite(column), default=np.nan) for column in np.transpose(rho)]
        return float(max(finite(kept), default=np.nan))

    annealed = readings.of(readings.of(table, data="scream_dsprites"), model="annealed")
    both = []
    for name in UNSUPERVISED:
        rho = [spearman(rows[name], rows[task]) for _, rows in readings.each_data(table) for task in tasks]
        both.append(min(rho) < 0 < max(rho))
    others = [name for name in COLUMNS if name != "modularity"]
    pairs = {f"{name}, {task.split('_')[1]}": _rho(name, task) for name in others for task in tasks}
    scores = {name: functools.partial(_thirds, name) for name in ("dci.disentanglement", "mig")}
    thirds = {f"highest minus lowest third of {name}": statistic for name, statistic in scores.items()}
    return {
        "downstream_correlates": per_data(readings.of(table, data=SPRITES), pairs, by=by_member, above=0),
        "no_efficiency": [
            Part("largest ρ that a metric keeps on every data set", by_member(table, strongest_on_all), below=0.3),
            *per_data(table, loss, "efficiency minus accuracy", by=by_member, below=0),
        ],
        "efficiency_trees_shapes3d": [
            Part(name, by_member(rows, _rho(name, "downstream_trees.efficiency")), above=0)
            for _, rows in readings.each_data(readings.of(table, data="shapes3d"))
            for name in ("dci.disentanglement", "mig")
        ],
        "efficient_because_bad": [
            Part("ρ of efficiency with accuracy, annealed", by_member(rows, _rho(efficiency, tasks[0])), below=0)
            for _, rows in readings.each_data(annealed)
        ],
        "groups_by_score": per_data(table, thirds, by=by_member, above=0),
        "unsupervised_downstream": [Part("share of scores with both signs", verdicts.share(both), above=0.5)],
    }


def _thirds(name: str, rows: Table) -> float:
    """Mean accuracy in the third of members with the highest score minus that in the lowest third."""
    accuracy = rows["downstream_trees.100"][np.argsort(rows[name])]
    third = len(accuracy) // 3
    return float(readings.mean(accuracy[-third:]) - readings.mean(accuracy[:third])) if third else float("nan")


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


def content(made: Reproduction) -> Content:
    zoo, printed, pieces = made.finished("zoo"), printed_in(__package__).tables, made.pieces
    seeds, steps = len(np.unique(zoo.table["seed"])), zoo.study.trainings[0].config.steps
    settings = len(set(zip(zoo.table["model"], zoo.table["regularization"], strict=True)))
    size = (
        f"{len(zoo.members)} models: six objectives × {settings // 6} regularization strengths × {seeds} seeds on"
        f" {', '.join(readings.data_of(zoo.table))}, {steps:,} updates, scored on {zoo.study.sampling.in_words()}."
    )
    return Content(
        size,
        differences_in(__package__),
        claims(zoo.table, pieces["stability"], pieces["impossibility"], small=made.size != "paper"),
        [_table_1(printed["table_1"], zoo.table), *_table_5(printed, zoo.table)],
        [*_figures(zoo), *_stability(pieces["stability"])],
        [("Impossibility (Theorem 1)", _impossibility(pieces["impossibility"]))],
    )


def _table_1(printed, table: Table) -> Beside:
    def share(row, column: str) -> Measured:
        field = f"{column}_{row.key['metric']}"
        interval = by_seed(table, lambda sample: 100 * getattr(transfer(sample, COLUMNS, trials=2000), field))
        value = 100 * getattr(transfer(table, COLUMNS, trials=100_000), field)  # the trials' own error is .1
        return Measured(value, (interval.high - interval.low) / 3.29)

    return Beside.of(printed, share, "The spread is the bootstrap interval over seeds as a standard deviation.")


def _table_5(printed, table: Table) -> list[Beside]:
    """Table 5 as printed, and adjusted for the number of groups, which with few seeds explain much by chance."""
    tables = []
    for name, by in (("table_5a", None), ("table_5b", "regularization")):
        for suffix, adjust in (("", False), (" adjusted", True)):

            def share(row, column: str, by=by, adjust=adjust) -> Measured | None:
                rows = readings.of(table, data=row.key["dataset"])
                if not len(rows["model"]):
                    return None
                return Measured(100 * _explained(rows, SEVEN[column], by, adjust=adjust))

            own = printed[name]._replace(id=name + suffix.replace(" ", "_"), label=printed[name].label + suffix)
            tables.append(Beside.of(own, share))
    return tables


def _figures(zoo: Finished) -> list[Figure]:
    """In the paper's order, each for every data set."""
    figures, by_id = [], {member.train: member for member in zoo.members}
    subjects, titles = dict(zoo.subject.each()), list(SEVEN)

    def add(label: str, pictures_by_data: Mapping[str, Sequence[Picture]]) -> None:
        for data, pictures in pictures_by_data.items():
            figures.extend(Figure(f"{label}: {data}", picture.caption, picture.figure) for picture in pictures)

    add("Figures 2–4, 29–33", {data: dependence(subject) for data, subject in subjects.items()})
    for data, subject in subjects.items():
        table, strengths = subject.titled, subject.regularization
        over_settings = plots.violins(table, COLUMNS, titles=titles)
        over_seeds = plots.violins_by_regularization(table, strengths, COLUMNS, titles=titles)
        by_strength = plots.scores_by_regularization(table, strengths, COLUMNS, titles=titles)
        heads = [name.replace("_", " ") for name in UNSUPERVISED]
        unsupervised = spearman_of_columns(table, UNSUPERVISED, COLUMNS)
        map_of_unsupervised = plots.rank_map(unsupervised, heads, titles)
        figures += [
            Figure(f"Figure 5: {data}", "Scores over settings and seeds, by method", over_settings),
            Figure(f"Figure 6: {data}", "Scores over seeds, by method and regularization strength", over_seeds),
            Figure(f"Figure 7: {data}", "Scores against regularization strength; lines join medians", by_strength),
            Figure(f"Figure 8: {data}", "Rank correlation of unsupervised scores with metrics", map_of_unsupervised),
        ]
    figures += _across(zoo.subject)
    for data, subject in subjects.items():
        renamed = {title: subject.table[column] for title, column in SEVEN.items()} | {"model": subject.titled["model"]}
        matrix = plots.rank_map(spearman_of_columns(subject.table, COLUMNS), titles)
        every_pair = plots.scatter_matrix(renamed, titles, titles)
        figures.append(Figure(f"Figure 12: {data}", "Metrics against each other", every_pair))
        figures.append(Figure(f"Figure 13: {data}", "Rank correlation of metrics", matrix))
    shown = ("_gap", "_modularity", "entropy.disentanglement", "entropy.completeness")
    for data, subject in subjects.items():
        blended = tuple(name for name in subject.names if name.endswith(shown))
        add("Figures 15, 16, 20", {data: blends(dataclasses.replace(subject, names=blended))})
    first = next(iter(subjects))
    add("Figures 17–19", {first: structure(subjects[first], zoo.store, by_id, "dci.disentanglement")})
    add("Figures 23–28", {data: learning(subject) for data, subject in subjects.items()})
    add("Figures 34, 35", {data: merges(subject, zoo.store, by_id) for data, subject in subjects.items()})
    return figures


def _across(subject: Subject) -> list[Figure]:
    """Figures 9 and 10."""
    names = readings.data_of(subject.table)
    if len(names) < 2:
        return []
    figures = []
    for title, column in SEVEN.items():
        caption = f"Rank correlation between data sets of {title}"
        figures.append(Figure("Figure 9", caption, plots.rank_map(*across_data(subject.table, column))))
    caption = f"Medians of every setting on {names[0]} against other data sets"
    return figures + [Figure("Figure 10", caption, drawn) for drawn in one_against_others(subject.table, SEVEN)]


def _stability(runs_by_data: Mapping) -> list[Figure]:
    figures, caption = [], "Rank correlation of two runs with few and with many samples"
    for data, rows in runs_by_data.items():
        matrix = [[spearman(*np.array(row[size])) for size in ("smaller", "larger")] for row in rows.values()]
        picture = plots.rank_map(np.array(matrix), list(rows), ("few", "many"))
        figures.append(Figure(f"Figures 21, 22: {data}", caption, picture))
    return figures


def _impossibility(scores_by_size: Mapping) -> str:
    scores = [
        (size, name.replace("_", " "), float(right), float(wrong))
        for size, both in scores_by_size.items()
        for name, (right, wrong) in both.items()
    ]
    rows = dict(zip(("factors", "score", "of z", "of f(z)"), zip(*scores, strict=True), strict=True))
    text = (
        "<p>Factors z, uniform and independent, and f(z) = Φ(A Φ⁻¹(z)) with a Householder matrix A (α = .2): the same"
        " distribution, so that no likelihood tells them apart, but every code a function of every factor.</p>"
    )
    return text + html_table(list(rows), rows)
