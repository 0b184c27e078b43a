"""The claims of Locatello et al. 2020 as statistics with thresholds, over the table of one zoo."""

import itertools
from collections.abc import Mapping

import numpy as np

from jaxdis._core.finite import finite
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._printed import printed_in
from jaxdis.papers.harness._verdict import Finding, Part, by_member, by_seed, share
from jaxdis.papers.locatello2020 import _metric_claims as of_metrics
from jaxdis.papers.locatello2020._run import COLUMNS, UNSUPERVISED
from jaxdis.study.report._seed_statistics import Table, over_seeds, spearman_of_columns
from jaxdis.study.report._transfer import across_data, transfer

SAMPLED, MEAN = "total_correlation_sampled", "total_correlation"
# Replicates of statistics that take seconds each.
FEW = 60

REMARKS = {
    "seed_beats_strength": "By the probability that a random seed at the worst regularization strength beats"
    " one at the best, since extremes grow with the number of seeds; expected above .1 in most cells.",
    "variance_explained": "R² is adjusted for the number of groups; the thresholds .1 and .7 are ours.",
}
# What the small form makes of claims that fail in it, from a run with 2,000 updates in place of 1,000.
SMALL_REMARKS = {
    "tc_mean_rises": "The codes of weakly regularized models are not settled after 1,000 updates: from there to 2,000,"
    " the median total correlation of β = 1 on dSprites falls from 3.5 to 1.1 nats, and ρ with β of β-TCVAE rises from"
    " -.5 to .5.",
    "tc_mean_dip_ii_mixed": "The weakest DIP-VAE-II on Shapes3D is not settled after 1,000 updates: its median falls"
    " from 3.0 to 0.95 nats by 2,000.",
    "code_information": "After 2,000 updates, only the mean code of β-TCVAE on Color-dSprites goes against it.",
    "transfer_order": "Modularity hardly agrees with the other metrics in the small form. Without it, the two"
    " probabilities that should differ are .64 and .65.",
    "same_matrix_gaps_agree": "On dSprites agreement grows with training: after 2,000 updates, ρ with completeness is"
    " .72 to .79. On Shapes3D it stays at .34 to .37.",
    "downstream_correlates": "IRS alone goes against the accuracy of trees on dSprites, with 2,000 updates too.",
}


def claims(table: Table, stability: Mapping, impossible: Mapping, *, small: bool = False) -> list[Finding]:
    """Every claim that the zoo's data sets allow to check. ``small``: with remarks on what fails in the small form."""
    parts_by_claim = {
        **_dependence(table),
        **_importance(table),
        **_transfer(table),
        **of_metrics.agreement(table),
        **of_metrics.matrices(table),
        **of_metrics.stability(stability),
        **of_metrics.downstream(table),
        "impossibility": of_metrics.impossibility(impossible),
    }
    printed = printed_in(__package__).claims
    remarks = REMARKS | (SMALL_REMARKS if small else {})
    return [
        Finding(printed[name], tuple(parts), remarks.get(name, ""), "" if name == "impossibility" else "zoo")
        for name, parts in parts_by_claim.items()
        if parts
    ]


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
