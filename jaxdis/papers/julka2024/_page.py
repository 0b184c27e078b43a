"""The page of Julka et al. 2024: Table II, claims about cases and curves, and Figures 1 to 5."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from jaxdis import plots
from jaxdis._core.finite import finite, mean
from jaxdis.data.synthetic import CASES
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, differences_in
from jaxdis.papers.harness._paper import Reproduction
from jaxdis.papers.harness._printed import printed_in, words_in
from jaxdis.papers.harness._verdict import Finding, Part, by_member, exact, findings, of_values, resampled, share
from jaxdis.study._store import Store
from jaxdis.study.certificate._calibration import Calibration, CalibrationWork, Certificate
from jaxdis.study.certificate._certificate import differences_of
from jaxdis.study.report._statistics import Interval, Table, spearman, spearman_of_columns

# Columns of Figure 5.
AGREEMENT = {
    "Z-min": "factor_vae",
    "SAP": "sap",
    "MIG": "mig",
    "MIG-sup": "mig_sup",
    "DCI Mod": "dci.disentanglement",
    "DCI Comp": "dci.completeness",
    "DCI Expl": "dci.informativeness",
    "Modularity": "modularity",
    "DCIMIG": "dcimig",
    "EDI Mod": "edi.modularity",
    "EDI Comp": "edi.compactness",
    "EDI Expl": "edi.explicitness",
}
# Columns of the sweeps: modularity and compactness.
EDI = ("edi.modularity", "edi.compactness")
DCI = ("dci_lasso.disentanglement", "dci_lasso.completeness")
# Columns of the sweeps that the figures show, as the paper calls them.
SHOWN = {
    "Z-diff": "beta_vae",
    "Z-min": "factor_vae",
    "SAP": "sap_r2",
    "MIG": "mig",
    "MIG-sup": "mig_sup",
    "DCI Mod": "dci_lasso.disentanglement",
    "DCI Comp": "dci_lasso.completeness",
    "DCI Expl": "dci_lasso.informativeness",
    "Modularity": "modularity_ksg",
    "DCIMIG": "dcimig",
    "EDI Mod": "edi.modularity",
    "EDI Comp": "edi.compactness",
    "EDI Expl": "edi.explicitness",
}
FIGURES = (
    ("Figure 1", "warp", "how non-linear each code is"),
    ("Figure 2", "rotation", "how much of its neighbor each code holds"),
    ("Figure 3", "noise", "how much of each code is noise"),
)


def content(made: Reproduction) -> Content:
    certificates = {name: _certificate(made, name) for name in ("cases", "sweeps", "cost")}
    table = made.finished("agreement").table
    calibrations = {name: made.studies[name] for name in certificates}
    return Content(
        _size(calibrations, table),
        differences_in(__package__),
        claims(certificates, calibrations, table),
        [beside_table_two(certificates["cases"].cases)],
        _figures(certificates, calibrations, table),
    )


def _certificate(made: Reproduction, name: str) -> Certificate:
    return CalibrationWork(made.studies[name]).certificate(Store(Path(made.out) / name))


def _size(of: Mapping[str, Calibration], table: Table) -> str:
    cases, sweeps, cost = of["cases"], of["sweeps"], of["cost"]
    return (
        f"Eight cases × {cases.seeds} seeds of {cases.case_samples:,} samples; three sweeps × {sweeps.seeds} seeds of"
        f" {sweeps.sweep_samples:,}; sizes {', '.join(f'{size:,}' for size in cost.sizes)} against {cost.full_size:,};"
        f" {len(table['model'])} models on Shapes3D."
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

    def score(column, case):
        return cases[column][CASES.index(case)]

    def least(name: str, values: np.ndarray, **expected) -> Part:
        return Part(name, of_values(values), **expected)

    low, high = [case for case in CASES if case[0] == "0"], [case for case in CASES if case[0] == "1"]
    gap = lambda column: score(column, "101") - np.maximum(score(column, "010"), score(column, "110"))  # noqa: E731
    modularity = "modularity_ksg"
    return {
        "z_min_overrates": [least("smallest of 0**", np.min([score("factor_vae", c) for c in low], axis=0), above=0.5)],
        "modularity_overrates": [
            *(least(case, score(modularity, case), above=0.7, below=0.8) for case in ("010", "011")),
            least("smallest of 1**", np.min([score(modularity, c) for c in high], axis=0), above=0.95),
        ],
        "dci_mod_half": [
            part
            for case in ("010", "011")
            for part in (
                least(f"DCI Mod of {case}", score("dci.disentanglement", case), above=0.5),
                least(
                    f"DCI Mod minus EDI Mod of {case}",
                    score("dci.disentanglement", case) - score("edi.modularity", case),
                    above=0,
                ),
            )
        ],
        "sap_confused": [least("101 minus the larger of 010 and 110", gap("sap"), above=0)],
        "mig_confused": [least("101 minus the larger of 010 and 110", gap("mig"), above=0)],
        "mig_sup_is_modularity": [
            least(
                "smallest of 1** minus largest of 0**",
                np.min([score("mig_sup", c) for c in high], axis=0)
                - np.max([score("mig_sup", c) for c in low], axis=0),
                above=0,
            )
        ],
        "dcimig_weak": [least("101 minus 110", score("dcimig", "101") - score("dcimig", "110"), above=0)],
        "edi_comp_stricter": [
            least(f"DCI minus EDI, {case}", score("dci.completeness", case) - score("edi.compactness", case), above=0)
            for case in ("100", "101")
        ],
        "expl_comparable": [
            least(
                "largest |EDI − DCI|",
                np.max([np.abs(score("edi.explicitness", c) - score("dci.informativeness", c)) for c in CASES], axis=0),
                below=0.05,
            )
        ],
    }


def _of_warp(scores: Mapping[str, np.ndarray], alpha: np.ndarray) -> dict[str, list[Part]]:
    """§IV-B: codes that are not linear. ``scores[column] [points, seeds]``."""
    linear = ("sap_r2", "dci_lasso.completeness")

    def early(curve):
        return float(1 - curve[alpha <= 0.6].min() / curve[0])

    def lost(name, rows):
        curve = scores[name][:, rows].mean(axis=1)
        return float(1 - curve[-1] / curve[0])

    def difference(rows):
        return lost("mig_ksg", rows) - lost("mig", rows)

    def scatter(column):
        values = scores[column]
        return resampled(values.shape[1], lambda rows: spearman(alpha, values[:, rows].std(axis=1)))

    return {
        "bins_fail_on_warps": [
            Part(name, _over(scores[name], _fall), above=0) for name in ("mig", "mig_sup", "dcimig")
        ],
        "ksg_holds_longer": [
            Part("share lost up to α = .6", _over(scores["mig_ksg"], early), below=0.05),
            Part("share lost minus that of MIG", resampled(scores["mig"].shape[1], difference), below=0),
        ],
        "linear_fails_on_warps": [
            *(Part(f"fall of {name}", _over(scores[name], _fall), above=0) for name in linear),
            *(Part(f"ρ of α and deviation of {name}", scatter(name), above=0) for name in linear),
        ],
        **{
            claim: [Part(f"change of {name}", _over(scores[name], _change), below=0.05) for name in names]
            for claim, names in (
                ("z_diff_holds_on_warps", ("beta_vae",)),
                ("modularity_holds_on_warps", ("modularity_ksg",)),
                ("edi_holds_on_warps", EDI),
            )
        },
    }


def _of_rotation(scores: Mapping[str, np.ndarray], alpha: np.ndarray) -> dict[str, list[Part]]:
    """§IV-C: codes that mix neighbors. ``scores[column] [points, seeds]``."""

    def line(curve):
        return float(np.corrcoef(alpha, curve)[0, 1] ** 2)

    def early(curve):
        return float(curve[0] - curve[alpha <= 0.4].min())

    def last(curve):
        return float(curve[-1])

    return {
        "rotation_linear": [
            part
            for name in (*EDI, *DCI)
            for part in (
                Part(f"ρ of α and {name}", _over(scores[name], lambda curve: spearman(alpha, curve)), below=-0.9),
                Part(f"R² of a line, {name}", _over(scores[name], line)),
                Part(f"{name} at .5", _over(scores[name], last), above=0),
            )
        ],
        "rotation_blind": [
            Part(f"fall of {name} up to .4", _over(scores[name], early), below=0.05)
            for name in ("beta_vae", "factor_vae")
        ],
        "rotation_gap_zero": [
            Part(f"{name} at .5", _over(scores[name], last), below=0.05) for name in ("mig", "sap_r2")
        ],
        "rotation_expl": [
            Part("change of DCI Expl", _over(scores["dci_lasso.informativeness"], _change), below=0.05),
            Part("fall of EDI Expl", _over(scores["edi.explicitness"], _fall), above=0.05),
        ],
    }


def _of_noise(scores: Mapping[str, np.ndarray], alpha: np.ndarray) -> dict[str, list[Part]]:
    """§IV-D: codes with noise. ``scores[column] [points, seeds]``."""
    below = alpha < 1  # on pure noise some scores are undefined
    last, middle = np.flatnonzero(below)[-1], np.abs(alpha - 0.6).argmin()

    def outlasts(rows):
        """Smallest area under EDI's curves minus the largest under DCI's."""
        area = {c: np.trapezoid(scores[c][below][:, rows].mean(axis=1), alpha[below]) for c in (*EDI, *DCI)}
        return float(min(area[c] for c in EDI) - max(area[c] for c in DCI))

    def collapse(curve):
        return float((curve[middle] - curve[last]) - (curve[0] - curve[middle]))

    def early(curve):
        return float(curve[0] - curve[alpha <= 0.8].min())

    return {
        "noise_explicitness": [
            Part(f"ρ of α and {name}", _over(scores[name], lambda curve: spearman(alpha, curve)), below=-0.9)
            for name in ("edi.explicitness", "dci_lasso.informativeness")
        ],
        "noise_gaps_fall": [
            Part(f"{name} at α = {alpha[last]:g}", _over(scores[name], lambda curve: float(curve[last])), below=0.1)
            for name in ("mig", "sap_r2", "modularity_ksg")
        ],
        "noise_z_min_collapses": [
            Part("fall after α = .6 minus fall before", _over(scores["factor_vae"], collapse), above=0)
        ],
        "noise_z_diff_holds": [Part("fall up to α = .8", _over(scores["beta_vae"], early), below=0.1)],
        "noise_edi_outlasts_dci": [
            Part("area: EDI minus the larger of DCI", resampled(scores[EDI[0]].shape[1], outlasts), above=0)
        ],
    }


def _over(values: np.ndarray, statistic: Callable[[np.ndarray], float]) -> Interval:
    """A statistic of the mean curve of ``[points, seeds]``; seeds are resampled."""
    return resampled(values.shape[1], lambda rows: statistic(values[:, rows].mean(axis=1)))


def _fall(curve: np.ndarray) -> float:
    return float(curve[0] - curve[-1])


def _change(curve: np.ndarray) -> float:
    return float(np.ptp(curve))


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
            Part(f"share of columns within .02 at {sizes[-1]:,}", share(sum(small), len(small)), above=0.5),
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

    parts = [
        Part(
            f"EDI and {title}",
            by_member(table, lambda sample, c=AGREEMENT[title]: spearman(edi(sample), sample[c])),
            above=0.5,
        )
        for title in ("SAP", "DCIMIG", "MIG-sup", "Z-min", "Modularity")
    ]
    columns = [column for title, column in AGREEMENT.items() if title not in ("MIG", "EDI Comp")]

    def against(sample):
        return float(max(finite([spearman(sample["mig"], sample[column]) for column in columns]), default=np.nan))

    rest = [column for column in AGREEMENT.values() if not column.startswith("dci.")]

    def correlation(sample):
        return mean([abs(spearman(sample["dci.disentanglement"], sample[column])) for column in rest])

    return [
        *parts,
        Part("largest ρ of MIG with another", by_member(table, against), below=0),
        Part("mean |ρ| of DCI Mod with others", by_member(table, correlation), below=0.3),
    ]


def _shown(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns by title; MIG on nearest neighbors, which exceeds 1, over its mean at α = 0."""
    columns = {title: scores[column] for title, column in SHOWN.items()}
    return columns | {"MIG KSG / at α = 0": scores["mig_ksg"] / scores["mig_ksg"][0].mean()}


def _figures(certificates: Mapping[str, Certificate], of: Mapping[str, Calibration], table: Table) -> list[Figure]:
    figures = [
        Figure(
            label,
            f"Scores against α, {caption}",
            plots.curves(getattr(of["sweeps"], kind), _shown(certificates["sweeps"].sweeps[kind]), f"α: {caption}"),
        )
        for label, kind, caption in FIGURES
    ]
    cost = of["cost"]
    differences = {name: differences_of(values) for name, values in certificates["cost"].sizes.items()}
    drawn = plots.resources((*cost.sizes, cost.full_size), differences, certificates["cost"].seconds)
    figures.append(Figure("Figure 4", "Distance from the scores of all samples, and seconds per representation", drawn))
    names = [title for title, column in AGREEMENT.items() if column in table]
    matrix = spearman_of_columns(table, [AGREEMENT[title] for title in names])
    figures.append(
        Figure(
            "Figure 5",
            f"Rank correlation of metrics over {len(table['model'])} models on Shapes3D",
            plots.rank_map(matrix, names),
        )
    )
    return figures


def beside_table_two(cases: Mapping[str, np.ndarray]) -> Beside:
    """Set the scores of cases, by column ``[8, seeds]``, beside the printed rows that have such a column.

    The print is based on 50 seeds of 50,000 samples, and truncates digits: 0.99 is printed for 1.
    """
    printed, remarks = printed_in(__package__).tables["table_2"], words_in(__package__)["table_two"]
    columns = {row["name"]: row["column"] for row in remarks}
    measured = {}
    for place, row in enumerate(printed.rows):
        scores = cases.get(columns[row.key["metric"]], ())
        for case, values in zip(CASES, scores, strict=False):
            measured[place, case] = Measured(float(values.mean()), float(values.std()))
    names: dict[str, list[str]] = {}
    for row in remarks:
        names.setdefault(row["note"], []).append(row["name"])
    notes = (f"{', '.join(alike)}: {note}" for note, alike in names.items())
    return Beside(printed, measured, "\n".join(("Means and standard deviations over seeds.", *notes)))
