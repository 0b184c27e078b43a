"""Presets: the options by which metrics equal other libraries', and the columns that these report."""

from collections.abc import Mapping

import jax.numpy as jnp

from jaxdis._core.arrays import safe_divide
from jaxdis._core.lookup import look_up, names_of
from jaxdis._core.spec import Spec
from jaxdis.metrics._metric import Blend, Metric
from jaxdis.metrics._metric_table import METRICS
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores._gaps import FactorScore
from jaxdis.scores._reading import mean_over_factors, only_valid, read, top_two_gap

_BINS = {"bins": 10}
_INFORMATION = RELATIONS["mutual_information"].with_options(**_BINS)
_OF_CELLS = {
    "SMI": _INFORMATION,
    "SPN": RELATIONS["neighbor_alignment"],
    "ASC": RELATIONS["correlation"].with_options(kind="spearman"),
}
# What the defaults of the library are.
_DEFAULTS = (
    *("mig", "modularity", "sap", "dci", "explicitness", "irs"),
    *("factor_vae", "beta_vae", "downstream_trees", "total_correlation"),
)


def gap_of_codes(relation: Relation) -> FactorScore:
    """Average over factors the gap between the two largest shares of a code's entropy that inform about the factor.

    MIG divides by the factor's entropy; the code released with Carbonneau et al. 2022 divides by the code's.
    """
    reading = read(relation)
    share = safe_divide(reading.strength, jnp.broadcast_to(relation.code_ceiling[:, None], reading.strength.shape))
    per_factor = top_two_gap(share, axis=0)
    return FactorScore(mean_over_factors(per_factor, reading), only_valid(per_factor, reading))


def _of(names, **options) -> dict[str, Metric]:
    return {name: METRICS[name].with_options(**options) for name in names}


PRESETS: dict[str, dict[str, Metric]] = {
    "disentanglement_lib": _of(_DEFAULTS),
    "disent": _of(("mig", "sap", "sap_r2", "total_correlation", "code_information")),
    "carbonneau": {
        "mig": Blend(_INFORMATION, Spec(gap_of_codes)),
        "mig_sup": METRICS["mig_sup"].with_options(normalize="code", **_BINS),
        **_of(("dcimig", "modularity"), **_BINS),
        "jemmig": Blend(_INFORMATION, "joint_gap", about=METRICS["jemmig"].about),
        "irs": METRICS["irs"].with_options(factor_bins=10, quantile=1.0),
        "z_max": METRICS["z_max"].with_options(rescale=True),
    },
    "latte": {
        "mig": METRICS["mig_ksg"],
        "modularity": METRICS["modularity_ksg"],
        "sap": METRICS["sap"].with_options(inverse_penalty=1.0, balanced=False),
        **_of(("xmig", "dmig", "dlig"), estimator="neighbors"),
    },
    "do2020": _of(("rmig", "jemmig", "sepin", "wsepin", "indin", "windin")),
    "drvi": {
        f"{column}-{similarity}": Blend(relation, score)
        for column, score in (("LMS", "matching"), ("MSAS", "maximum"), ("MSGS", "gap"))
        for similarity, relation in _OF_CELLS.items()
    },
}


def preset_metrics(preset: str | None, metrics):
    """A preset's metrics: all for ``"standard"`` and ``"all"``, otherwise those named.

    Without a preset, the metrics as they are given.
    """
    if preset is None:
        return metrics
    table = look_up(preset, PRESETS, "preset")
    if isinstance(metrics, Mapping):
        raise ValueError(f"preset: must be left out where metrics come with their options, got {preset!r}")
    return dict(table) if metrics in ("standard", "all") else {n: table[n] for n in names_of(metrics, table, "metric")}
