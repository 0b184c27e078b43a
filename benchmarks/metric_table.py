"""Every metric in one table: source, agreement, range, chance and time.

``python -m benchmarks.metric_table`` writes ``notebooks/every_metric.md`` from the rows of the library, the record of
``benchmarks/agreement.py``, and what ``benchmarks/metric_record.py`` measured.
"""

import json
import re
from pathlib import Path

import numpy as np

import jaxdis
from benchmarks import agreement
from benchmarks.metric_record import MANY, MEMBERS, RECORD, ROWS, metric_of, name_of
from benchmarks.speed_table import digits
from jaxdis._core.files import write_text
from jaxdis._core.references import REFERENCES

PAGE = Path(__file__).parent.parent / "notebooks" / "every_metric.md"
# The test that holds a row to recorded values or to a known truth where no library of the agreement does.
HELD = {
    "med": "scores/test_scores.py::test_entropy_equals_the_reference",
    "dci": "_learners/test_trees.py::test_agrees_with_scikit_learn_at_its_defaults",
    "dci_forest": "_learners/test_trees.py::test_forest_of_continuous_factors_agrees_with_the_recorded_one",
    "dci_lasso": "metrics/test_regression.py::test_the_lasso_has_the_recorded_errors_inside_and_outside_the_gap",
    "dci_logistic": "metrics/test_downstream.py::test_logistic_importance_equals_sklearn",
    "structured": "scores/test_projection.py::test_recorded_values",
    "rmig": "relations/test_information.py::test_sampled_information_of_wide_and_narrow_posteriors",
    "explicitness": "_learners/test_linear_models.py::test_explicitness_equals_sklearn",
    "downstream_trees": "_learners/test_trees.py::test_agrees_with_scikit_learn_at_its_defaults",
    "snc": "metrics/test_probe_accuracy.py::test_code_mode_equals_the_authors",
    "nk": "metrics/test_probe_accuracy.py::test_perceptrons_equal_the_authors_within_two_deviations",
    "linear_probe": "metrics/test_probe_accuracy.py::test_linear_probes_equal_the_authors_within_two_deviations",
    "mlp_probe": "metrics/test_probe_accuracy.py::test_perceptrons_equal_the_authors_within_two_deviations",
    "factor_vae": "metrics/interventions/test_interventions.py::test_factor_vae_equals_the_reference_within_its_seeds",
    "beta_vae": "metrics/interventions/test_interventions.py::test_beta_vae_equals_the_reference_within_its_seeds",
    "irs": "metrics/interventions/test_interventions.py::test_irs_equals_the_reference",
    "amari": "scores/test_scores.py::test_amari_equals_the_formula",
    "infom": "scores/test_scores.py::test_concentration_by_hand",
    "infoc": "scores/test_scores.py::test_concentration_by_hand",
    "infoe": "metrics/test_downstream.py::test_infoe_equals_sklearn",
    "mig_ksg": "_learners/test_neighbors.py::test_many_pairs_equal_sklearn",
    "mig_sup_ksg": "_learners/test_neighbors.py::test_many_pairs_equal_sklearn",
    "dcimig_ksg": "_learners/test_neighbors.py::test_many_pairs_equal_sklearn",
    "edi": "relations/test_binless.py::test_edi_of_a_calibration_case_is_the_references",
    "r2_linear": "metrics/test_identifiability.py::test_variance_explained_is_that_of_scikit_learn",
    "mcc_linear": "metrics/test_identifiability.py::test_which_map_of_the_factors_each_metric_forgives",
    "r2_kernel": "metrics/test_identifiability.py::test_variance_explained_is_that_of_scikit_learn",
    "mcc_test": "metrics/test_identifiability.py::test_which_map_of_the_factors_each_metric_forgives",
    "dmig": "metrics/test_dependent_gaps.py::test_gaps_are_those_of_latte",
    "dlig": "metrics/test_dependent_gaps.py::test_gaps_are_those_of_latte",
    "axis_alignment": "scores/test_scores.py::test_axis_alignment_is_the_best_code_less_all_others",
    "z_max": "metrics/interventions/test_interventions.py::test_the_score_is_that_of_carbonneau_et_al",
    "unibound": "metrics/test_separation.py::test_unique_information_in_bits_is_known",
    "dci_es": "metrics/test_extended_dci.py::test_explicitness_of_curves_is_that_released",
    **dict.fromkeys(
        ("sepin", "wsepin", "indin", "windin"), "metrics/test_separation.py::test_information_in_bits_is_known"
    ),
    **dict.fromkeys(
        ("consistency", "restrictiveness"),
        "metrics/interventions/test_changes.py::test_scores_equal_those_of_all_pairs",
    ),
    **dict.fromkeys(
        ("monotonicity", "smoothness"), "metrics/test_dependent_gaps.py::test_scores_of_a_path_are_those_of_latte"
    ),
}


def page(record: dict) -> str:
    agreed = json.loads(agreement.RECORD.read_text(encoding="utf-8"))
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for name, metric in ROWS.items():
        cpu, estimate = record["cpu"][name], record["h100"].get(name)
        cells = [f"`{name}`", *(digits(1e3 * cpu[size]) for size in ("alone", "zoo")), digits(cpu["compile"])]
        cells.append(str(cpu["kernels"]))
        cells += ["" if estimate is None else digits(estimate), limits(name, metric), chance(metric)]
        cells += [best_peer(record, name), source(metric), agrees(name, agreed)]
        lines.append(f"| {' | '.join(cells)} |")
    newer = sorted(record["newer"].values(), key=lambda part: -part["seconds"])
    zoo = {name: times["zoo"] for name, times in record["cpu"].items()}
    return PROSE.format(
        table="\n".join(lines),
        members=MEMBERS,
        many=MANY,
        least=digits(1e3 * min(times["alone"] for times in record["cpu"].values())),
        growth=digits(sum(part["seconds"] for part in newer)),
        at_size=digits(sum(zoo[part["names"][0]] - sum(zoo[name] for name in part["base"]) for part in newer)),
        added="\n".join(
            f"| {', '.join(f'`{name}`' for name in part['names'])} | {digits(1e3 * part['seconds'])} |"
            for part in newer
        ),
    )


def source(metric) -> str:
    """The defining paper, with the section that the docstrings cite."""
    about = metric.about
    specs = (metric.score, metric.relation) if isinstance(metric, jaxdis.metrics.Blend) else (metric.function,)
    text = " ".join(" ".join((spec.function.__doc__ or "").split()) for spec in specs)
    if about is None:
        return re.search(r"Reference: ([^.(]*)", text)[1].strip()
    cited = REFERENCES[about.references[0]].cited
    return max(re.findall(rf"{re.escape(cited)}(?:, §[\w.-]*\w)?", text), key=len, default=cited)


def agrees(name: str, record: dict) -> str:
    """Libraries with the decimals to which they agree, and the test of a row that no library holds to three."""
    found = {}
    for row in agreement.ROWS:
        if name_of(row, metric_of(row)) == name:
            theirs, ours = record[row.library]["values"][row.metric], record["jaxdis"][row.jaxdis]
            found[row.library] = max(found.get(row.library, 0), agreement.decimals(theirs, ours))
    told = [f"{library} {decimals}" for library, decimals in found.items()]
    if name in HELD:
        told.append(HELD[name].split("::")[1].removeprefix("test_").replace("_", " "))
    return "; ".join(told)


def limits(name: str, metric) -> str:
    """The range that tests hold each field to."""
    from tests.metrics.test_ranges import RANGES  # tests import pytest, which the other commands do not need

    columns = {field: name if field == "score" else f"{name}.{field}" for field in metric.scalar_fields}
    texts = {field: interval(*RANGES.get(column, (0, 1))) for field, column in columns.items()}
    return texts.popitem()[1] if len(set(texts.values())) == 1 else by_field(texts)


def interval(low: float, high: float) -> str:
    return f"{'(−∞' if low == -np.inf else f'[{low:g}'}, {'∞)' if high == np.inf else f'{high:.4g}]'}".replace("-", "−")


def chance(metric) -> str:
    about = metric.about
    return by_field({field: f"{low:g} to {high:g}" for field, (low, high) in about.chance.items()}) if about else ""


def by_field(texts: dict[str, str]) -> str:
    return ", ".join(text if field == "score" else f"{field} {text}" for field, text in texts.items())


def best_peer(record: dict, name: str) -> str:
    """The fastest library by its CPU time over that of jaxdis with the same options."""
    ratios = {peer: times["theirs"] / times["ours"] for peer, times in record["peers"].items() if times["row"] == name}
    peer = min(ratios, key=ratios.get, default=None)
    return "" if peer is None else f"{peer} {digits(ratios[peer])}"


COLUMNS = (
    *("metric", "ms alone", "ms in a zoo", "compile s", "kernels", "H100 ms", "range", "chance"),
    *("times faster than", "source", "agrees with"),
)
PROSE = """# Every metric at a glance

{table}

- **ms alone**, **ms in a zoo**: CPU time of one member on one core, and of a member of a zoo of {members}, with 10,000
  samples of 10 codes and the five factors of dSprites, 5,000 samples held out. A call takes {least} ms whatever it
  scores. **compile s** is the first call less others, without what earlier processes keep on disk, and
  **kernels** the loops over arrays that it compiles, each by itself: most of that time. Metrics of one relation share
  both when they are scored together.
- **H100 ms**: a member of 1,024, estimated from the program compiled for this device and not measured
  ({{doc}}`accelerators`); empty where it was not compiled with so many members.
- **range**: what tests hold each field to. **chance**: what codes score that know nothing of the factors
  (`jaxdis.metrics.About.chance`); metrics that do not read factors have none.
- **times faster than**: CPU time of the fastest of disent, latte, drvi and the code of Carbonneau et al. for one such
  member, over that of jaxdis for a member of a zoo of {many}, with the same options in the same process. Those near 1
  have their floors in `benchmarks/NOTES.md`.
- **agrees with**: libraries with the decimals, at most 6, to which their numbers and those of jaxdis agree with equal
  options ({{doc}}`agreement` has the numbers, and why some differ); and the test that holds a row to recorded values of
  released code, to another implementation, or to a known truth.

## What the newer metrics add to `"all"`

Studies of `"all"` metrics leave out the newer ones, from `r2_linear` on, so that stored studies stay what they are;
`evaluate(..., "all")` has them. They add {growth} s of CPU time per member of `jaxdis.data.example()`, which has 2,000
samples of 8 codes, and {at_size} s per member of the table above. Metrics that share what they read are one row, and
`dci_es` shares the forests of `dci_forest`:

| metrics | ms per member of the example |
| --- | --- |
{added}

## How this was made

`benchmarks/metric_record.py` names the commands that measure each part; `python -m benchmarks.metric_table` writes the
page.
"""


if __name__ == "__main__":
    write_text(PAGE, page(json.loads(RECORD.read_text(encoding="utf-8"))))
