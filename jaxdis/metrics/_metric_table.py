"""The literature as one table: METRICS, name → metric. Most rows apply a score to a relation.

What a row says in words stands in ``metrics.toml``. Presets are the options by which metrics equal other libraries',
and the columns that these report.
"""

import dataclasses
import importlib.resources
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from jaxdis._core.arrays import safe_divide
from jaxdis._core.options import look_up, names_of
from jaxdis._core.spec import Spec
from jaxdis.metrics import _dependent_gaps as dependent
from jaxdis.metrics import _identifiability as identifiability
from jaxdis.metrics import _separation as separated
from jaxdis.metrics._dependent_gaps import factor_paths, monotonicity, smoothness
from jaxdis.metrics._downstream import downstream_trees, explicitness, infoe
from jaxdis.metrics._extended_dci import dci_es
from jaxdis.metrics._metric import About, Blend, Direct, Metric
from jaxdis.metrics._probe_accuracy import linear_probe, mlp_probe, nk, snc
from jaxdis.metrics._separation import unibound
from jaxdis.metrics._unsupervised import code_information, total_correlation
from jaxdis.metrics.interventions import beta_vae, consistency, factor_vae, irs, restrictiveness, z_max
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES
from jaxdis.scores._gaps import FactorScore
from jaxdis.scores._reading import mean_over_factors, only_valid, read, top_two_gap
from jaxdis.scores._structured_score import structured_score

_TEN_NEIGHBORS = RELATIONS["mutual_information_neighbors"].with_options(neighbors=10)
_CONCENTRATION = SCORES["concentration"]
_DEPENDENT, _SEPARATION = Spec(dependent.dependent_information), Spec(separated.separation)
_LINEAR, _PATHS = Spec(identifiability.linear_prediction), Spec(factor_paths)
_R2 = Spec(identifiability.explained_variance)


def _direct(*functions: Callable) -> dict[str, Metric]:
    return {function.__name__: Direct(Spec(function)) for function in functions}


def _blends(relation: Spec, *scores: Callable) -> dict[str, Metric]:
    return {score.__name__: Blend(relation, Spec(score)) for score in scores}


_ROWS: dict[str, Metric] = {
    "mig": Blend("mutual_information", "gap"),
    "mig_sup": Blend("mutual_information", "factor_gap"),
    "med": Blend("mutual_information", SCORES["entropy"].with_options(normalize="factor")),
    "dcimig": Blend("mutual_information", "strongest"),
    "modularity": Blend("mutual_information", "modularity"),
    "sap": Blend("svm_accuracy", "gap"),
    "sap_r2": Blend("r2", "gap"),
    "dci": Blend("boosted_trees", "entropy"),
    "dci_forest": Blend("random_forest", "entropy"),
    "dci_lasso": Blend("lasso_importance", "entropy"),
    "dci_logistic": Blend("logistic_importance", "entropy"),
    "structured": Blend("random_forest", Spec(structured_score)),
    "rmig": Blend("mutual_information_sampled", "gap"),
    "jemmig": Blend("mutual_information_sampled", "joint_gap"),
    "mcc": Blend("correlation", "matching"),
    **_direct(explicitness, downstream_trees, snc, nk, linear_probe, mlp_probe, factor_vae, beta_vae, irs),
    **_direct(total_correlation, code_information),
    "amari": Blend("correlation", "amari"),
    "infom": Blend(_TEN_NEIGHBORS, _CONCENTRATION.with_options(over="codes")),
    **_direct(infoe),
    "infoc": Blend(_TEN_NEIGHBORS, _CONCENTRATION.with_options(over="factors")),
    "mig_ksg": Blend("mutual_information_neighbors", "gap"),
    "mig_sup_ksg": Blend("mutual_information_neighbors", "factor_gap"),
    "dcimig_ksg": Blend("mutual_information_neighbors", "strongest"),
    "modularity_ksg": Blend("mutual_information_neighbors", "modularity"),
    "edi": Blend("impact_intensity", "exclusivity"),
}
# Studies with "all" metrics leave these out, so that what is stored stays complete.
_NOT_IN_STUDIES: dict[str, Metric] = {
    "r2_linear": Blend(_LINEAR, _R2),
    "mcc_linear": Blend(_LINEAR, Spec(identifiability.prediction_correlation)),
    "r2_kernel": Blend(Spec(identifiability.kernel_prediction), _R2),
    "mcc_test": Direct(Spec(identifiability.mcc_test)),
    **_blends(_DEPENDENT, dependent.xmig, dependent.dmig, dependent.dlig),
    "axis_alignment": Blend("mutual_information", "axis_alignment"),
    **_blends(_SEPARATION, separated.sepin, separated.wsepin, separated.indin, separated.windin),
    **_direct(z_max, consistency, restrictiveness, unibound),
    **_blends(_PATHS, monotonicity, smoothness),
    **_direct(dci_es),
}
NOT_IN_STUDIES = frozenset(_NOT_IN_STUDIES)


def _about(words: dict[str, Any]) -> About:
    """What a row of ``metrics.toml`` says."""
    claims, chance = (
        {field: tuple(each) for field, each in words.get(kind, {}).items()} for kind in ("claims", "chance")
    )
    return About(**words | {"references": tuple(words["references"]), "claims": claims, "chance": chance})


_WORDS = tomllib.loads(importlib.resources.files(__package__).joinpath("metrics.toml").read_text(encoding="utf-8"))
METRICS: dict[str, Metric] = {
    name: dataclasses.replace(metric, about=_about(_WORDS[name])) for name, metric in (_ROWS | _NOT_IN_STUDIES).items()
}


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
