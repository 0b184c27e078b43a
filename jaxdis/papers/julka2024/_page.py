"""The page of Julka et al. 2024: Table II, claims about cases and curves, and Figures 1 to 5."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxdis import plots
from jaxdis._core.finite import finite, mean
from jaxdis._core.store import Store
from jaxdis.data.synthetic import CASES
from jaxdis.papers.harness import Beside, Content, Figure, Finding, Measured, Part, Reproduction, exact, printed_in
from jaxdis.papers.harness._page import differences_in
from jaxdis.papers.harness._printed import words_in
from jaxdis.papers.harness._verdict import by_member, findings, of_values, resampled, share
from jaxdis.study.certificate import Calibration, CalibrationWork, Certificate, differences_of
from jaxdis.study.report._statistics import Interval, Table, spearman, spearman_of_columns

# Columns of Figure 5, and of the figures of sweeps, by their names in print.
AGREEMENT, SHOWN = (words_in(__package__)[name] for name in ("agreement", "sweeps"))
# Columns of the sweeps: modularity and compactness.
EDI = ("edi.modularity", "edi.compactness")
DCI = ("dci_lasso.disentanglement", "dci_lasso.completeness")

Curves = Mapping[str, np.ndarray]


def content(made: Reproduction) -> Content:
    certificates = {
        name: CalibrationWork(made.studies[name]).certificate(Store(Path(made.out) / name))
        for name in ("cases", "sweeps", "cost")
    }
    table = made.finished("agreement").table
    calibrations = {name: made.studies[name] for name in certificates}
    cases, sweeps, cost = calibrations.values()
    size = (
        f"Eight cases × {cases.seeds} seeds of {cases.case_samples:,} samples; three sweeps × {sweeps.seeds} seeds of"
        f" {sweeps.sweep_samples:,}; sizes {', '.join(f'{size:,}' for size in cost.sizes)} against {cost.full_size:,};"
        f" {len(table['model'])} models on Shapes3D."
    )
    return Content(
        size,
        differences_in(__package__),
        claims(certificates, calibrations, table),
        [beside_table_two(certificates["cases"].cases)],
        _figures(certificates, calibrations, table),
    )


def claims(certificates: Mapping[str, Certificate], of: Mapping[str, Calibration], table: Table) -> list[Finding]:
    """Every claim; seeds are resampled."""
    sweeps = certificates["sweeps"].sweeps
    parts = {
        **_of_cases(certificates["cases"].cases),
        **_of_warp(sweeps["warp"], np.array(of["sweeps"].warp)),
        **_of_rotation(sweeps["rotation"], np.array(of["sweeps"].rotation)),
        **_of_noise(sweeps["noise"], np.array(of["sweeps"].noise)),
        **_of_sizes(certificates["cost"], of["cost"]),
    }
    agreement = {"shapes3d_agreement": _agreement(table)}
    return findings(__package__, parts) + findings(__package__, agreement, "agreement")


def _of_cases(cases: Mapping[str, np.ndarray]) -> dict[str, list[Part]]:
    """§IV-A: statistics of Table II. ``cases[column] [8, seeds]``."""

    low, high = [[case for case in CASES if case[0] == modular] for modular in "01"]

    def score(column, case):
        return cases[column][CASES.index(case)]

    def extreme(of, column, which):
        return of([score(column, case) for case in which], axis=0)

    def part(name: str, values: np.ndarray, **expected) -> Part:
        return Part(name, of_values(values), **expected)

    def confused(column):
        values = score(column, "101") - extreme(np.max, column, ("010", "110"))
        return [part("101 minus the larger of 010 and 110", values, above=0)]

    modularity, half = "modularity_ksg", []
    for case in ("010", "011"):
        dci = score("dci.disentanglement", case)
        half.append(part(f"DCI Mod of {case}", dci, above=0.5))
        half.append(part(f"DCI Mod minus EDI Mod of {case}", dci - score("edi.modularity", case), above=0))
    apart = [np.abs(score("edi.explicitness", case) - score("dci.informativeness", case)) for case in CASES]
    sup = extreme(np.min, "mig_sup", high) - extreme(np.max, "mig_sup", low)
    return {
        "z_min_overrates": [part("smallest of 0**", extreme(np.min, "factor_vae", low), above=0.5)],
        "modularity_overrates": [
            *(part(case, score(modularity, case), above=0.7, below=0.8) for case in ("010", "011")),
            part("smallest of 1**", extreme(np.min, modularity, high), above=0.95),
        ],
        "dci_mod_half": half,
        "sap_confused": confused("sap"),
        "mig_confused": confused("mig"),
        "mig_sup_is_modularity": [part("smallest of 1** minus largest of 0**", sup, above=0)],
        "dcimig_weak": [part("101 minus 110", score("dcimig", "101") - score("dcimig", "110"), above=0)],
        "edi_comp_stricter": [
            part(f"DCI minus EDI, {case}", score("dci.completeness", case) - score("edi.compactness", case), above=0)
            for case in ("100", "101")
        ],
        "expl_comparable": [part("largest |EDI − DCI|", np.max(apart, axis=0), below=0.05)],
    }


def _each(scores: Curves, text: str, names: Sequence[str], statistic: Callable, **expected) -> list[Part]:
    """A statistic of the mean curve over seeds of each column ``[points, seeds]``; seeds are resampled."""

    def over(values: np.ndarray) -> Interval:
        return resampled(values.shape[1], lambda rows: float(statistic(values[:, rows].mean(axis=1))))

    return [Part(text.format(name), over(scores[name]), **expected) for name in names]


def _fall(curve: np.ndarray) -> float:
    return curve[0] - curve[-1]


def _early_fall(alpha: np.ndarray, most: float) -> Callable[[np.ndarray], float]:
    return lambda curve: curve[0] - curve[alpha <= most].min()


def _of_warp(scores: Curves, alpha: np.ndarray) -> dict[str, list[Part]]:
    """§IV-B: codes that are not linear."""
    linear, seeds = ("sap_r2", "dci_lasso.completeness"), scores["mig"].shape[1]

    def early(curve):
        return 1 - curve[alpha <= 0.6].min() / curve[0]

    def lost(name, rows):
        curve = scores[name][:, rows].mean(axis=1)
        return float(1 - curve[-1] / curve[0])

    def scatter(column):
        values = scores[column]
        return resampled(values.shape[1], lambda rows: spearman(alpha, values[:, rows].std(axis=1)))

    difference = resampled(seeds, lambda rows: lost("mig_ksg", rows) - lost("mig", rows))
    parts = {
        "bins_fail_on_warps": _each(scores, "{}", ("mig", "mig_sup", "dcimig"), _fall, above=0),
        "ksg_holds_longer": [
            *_each(scores, "share lost up to α = .6", ["mig_ksg"], early, below=0.05),
            Part("share lost minus that of MIG", difference, below=0),
        ],
        "linear_fails_on_warps": [
            *_each(scores, "fall of {}", linear, _fall, above=0),
            *(Part(f"ρ of α and deviation of {name}", scatter(name), above=0) for name in linear),
        ],
    }
    for claim, names in {"z_diff": ["beta_vae"], "modularity": ["modularity_ksg"], "edi": EDI}.items():
        parts[f"{claim}_holds_on_warps"] = _each(scores, "change of {}", names, np.ptp, below=0.05)
    return parts


def _of_rotation(scores: Curves, alpha: np.ndarray) -> dict[str, list[Part]]:
    """§IV-C: codes that mix neighbors."""
    rank, last, linear = functools.partial(spearman, alpha), operator.itemgetter(-1), []
    early, blind = _early_fall(alpha, 0.4), ("beta_vae", "factor_vae")

    def line(curve):
        return np.corrcoef(alpha, curve)[0, 1] ** 2

    for name in (*EDI, *DCI):
        linear += _each(scores, "ρ of α and {}", [name], rank, below=-0.9)
        linear += _each(scores, "R² of a line, {}", [name], line)
        linear += _each(scores, "{} at .5", [name], last, above=0)
    return {
        "rotation_linear": linear,
        "rotation_blind": _each(scores, "fall of {} up to .4", blind, early, below=0.05),
        "rotation_gap_zero": _each(scores, "{} at .5", ("mig", "sap_r2"), last, below=0.05),
        "rotation_expl": [
            *_each(scores, "change of DCI Expl", ["dci_lasso.informativeness"], np.ptp, below=0.05),
            *_each(scores, "fall of EDI Expl", ["edi.explicitness"], _fall, above=0.05),
        ],
    }


def _of_noise(scores: Curves, alpha: np.ndarray) -> dict[str, list[Part]]:
    """§IV-D: codes with noise."""
    below = alpha < 1  # on pure noise some scores are undefined
    last, middle = np.flatnonzero(below)[-1], np.abs(alpha - 0.6).argmin()

    def outlasts(rows):
        """Smallest area under EDI's curves minus the largest under DCI's."""
        area = {c: np.trapezoid(scores[c][below][:, rows].mean(axis=1), alpha[below]) for c in (*EDI, *DCI)}
        return float(min(area[c] for c in EDI) - max(area[c] for c in DCI))

    def collapse(curve):
        return (curve[middle] - curve[last]) - (curve[0] - curve[middle])

    rank, at_last, early = functools.partial(spearman, alpha), operator.itemgetter(last), _early_fall(alpha, 0.8)
    explicit, gaps = ("edi.explicitness", "dci_lasso.informativeness"), ("mig", "sap_r2", "modularity_ksg")
    area = resampled(scores[EDI[0]].shape[1], outlasts)
    return {
        "noise_explicitness": _each(scores, "ρ of α and {}", explicit, rank, below=-0.9),
        "noise_gaps_fall": _each(scores, f"{{}} at α = {alpha[last]:g}", gaps, at_last, below=0.1),
        "noise_z_min_collapses": _each(scores, "fall after α = .6 minus before", ["factor_vae"], collapse, above=0),
        "noise_z_diff_holds": _each(scores, "fall up to α = .8", ["beta_vae"], early, below=0.1),
        "noise_edi_outlasts_dci": [Part("area: EDI minus the larger of DCI", area, above=0)],
    }


def _of_sizes(certificate: Certificate, of: Calibration) -> dict[str, list[Part]]:
    """§IV-E. ``sizes[column] [sizes, 8, seeds]``, the full size last."""
    distances = {column: differences_of(values) for column, values in certificate.sizes.items()}
    sizes = list(of.sizes)
    # Converged "at 10,000 samples": the largest size below the full one.
    means = (float(values[-1].mean()) for values in distances.values())
    small = [distance < 0.02 for distance in means if np.isfinite(distance)]
    at = sizes.index(1000) if 1000 in sizes else 0
    hungry = distances["dci.disentanglement"][at] - distances["mig"][at]
    seconds = certificate.seconds
    log = np.log([*sizes, of.full_size])
    slope = float(np.polyfit(log[-2:], np.log(seconds["edi"][-2:]), 1)[0])
    slowest = seconds["dci"][-1] - max(values[-1] for name, values in seconds.items() if name != "dci")
    return {
        "sample_efficiency": [
            Part(f"share of columns within .02 at {sizes[-1]:,}", share(small), above=0.5),
            Part(f"DCI Mod minus MIG at {sizes[at]:,}", of_values(hungry), above=0),
        ],
        "time": [
            Part("slope of EDI", exact(slope), above=0.7, below=1.5),
            Part("seconds of DCI minus the next slowest", exact(slowest), above=0),
        ],
    }


def _agreement(table: Table) -> list[Part]:
    """§IV-F: signs of rank correlations over members. EDI is the mean of its three scores."""

    def edi(sample):
        return np.mean([sample[f"edi.{name}"] for name in ("modularity", "compactness", "explicitness")], axis=0)

    def with_edi(title):
        return by_member(table, lambda sample: spearman(edi(sample), sample[AGREEMENT[title]]))

    titles = ("SAP", "DCIMIG", "MIG-sup", "Z-min", "Modularity")
    columns = [column for title, column in AGREEMENT.items() if title not in ("MIG", "EDI Comp")]

    def against(sample):
        return float(max(finite([spearman(sample["mig"], sample[column]) for column in columns]), default=np.nan))

    rest = [column for column in AGREEMENT.values() if not column.startswith("dci.")]

    def correlation(sample):
        return mean([abs(spearman(sample["dci.disentanglement"], sample[column])) for column in rest])

    return [
        *(Part(f"EDI and {title}", with_edi(title), above=0.5) for title in titles),
        Part("largest ρ of MIG with another", by_member(table, against), below=0),
        Part("mean |ρ| of DCI Mod with others", by_member(table, correlation), below=0.3),
    ]


def _figures(certificates: Mapping[str, Certificate], of: Mapping[str, Calibration], table: Table) -> list[Figure]:
    figures, sweeps = [], certificates["sweeps"].sweeps
    for label, kind, words in words_in(__package__)["figures"]:
        columns = {title: sweeps[kind][column] for title, column in SHOWN.items()}
        # MIG on nearest neighbors, which exceeds 1, over its mean at α = 0.
        columns["MIG KSG / at α = 0"] = sweeps[kind]["mig_ksg"] / sweeps[kind]["mig_ksg"][0].mean()
        drawn = plots.curves(getattr(of["sweeps"], kind), columns, f"α: {words}")
        figures.append(Figure(label, f"Scores against α, {words}", drawn))
    cost, caption = of["cost"], "Distance from the scores of all samples, and seconds per representation"
    differences = {name: differences_of(values) for name, values in certificates["cost"].sizes.items()}
    drawn = plots.resources((*cost.sizes, cost.full_size), differences, certificates["cost"].seconds)
    figures.append(Figure("Figure 4", caption, drawn))
    shown = {title: column for title, column in AGREEMENT.items() if column in table}
    matrix = plots.rank_map(spearman_of_columns(table, list(shown.values())), list(shown))
    caption = f"Rank correlation of metrics over {len(table['model'])} models on Shapes3D"
    return [*figures, Figure("Figure 5", caption, matrix)]


def beside_table_two(cases: Mapping[str, np.ndarray]) -> Beside:
    """Set the scores of cases, by column ``[8, seeds]``, beside the printed rows that have such a column.

    The print is based on 50 seeds of 50,000 samples, and truncates digits: 0.99 is printed for 1.
    """
    printed, remarks = printed_in(__package__).tables["table_2"], words_in(__package__)["table_two"]
    columns = {row["name"]: row["column"] for row in remarks}

    def measure(row, case: str) -> Measured | None:
        if (scores := cases.get(columns[row.key["metric"]])) is None:
            return None
        values = scores[CASES.index(case)]
        return Measured(float(values.mean()), float(values.std()))

    names: dict[str, list[str]] = {}
    for row in remarks:
        names.setdefault(row["note"], []).append(row["name"])
    notes = (f"{', '.join(alike)}: {note}" for note, alike in names.items())
    return Beside.of(printed, measure, "\n".join(("Means and standard deviations over seeds.", *notes)))
