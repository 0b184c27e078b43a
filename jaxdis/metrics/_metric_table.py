"""The literature as one table: METRICS, name → metric. Most rows apply a score to a relation.

What a row says in words stands in ``metrics.toml``.
"""

import dataclasses
import importlib.resources
import tomllib
from collections.abc import Callable
from typing import Any

from jaxdis._core.spec import Spec
from jaxdis.metrics import _dependent_gaps as dependent
from jaxdis.metrics import _identifiability as identifiability
from jaxdis.metrics import _separation as separated
from jaxdis.metrics._dependent_gaps import factor_paths, monotonicity, smoothness
from jaxdis.metrics._downstream import downstream_trees, explicitness, infoe
from jaxdis.metrics._extended_dci import dci_es
from jaxdis.metrics._metric import About, Blend, Direct, Metric
from jaxdis.metrics._probe_accuracy import linear_probe, mlp_probe, nk
from jaxdis.metrics._separation import unibound
from jaxdis.metrics._single_neuron import snc
from jaxdis.metrics._unsupervised import code_information, total_correlation
from jaxdis.metrics.interventions import beta_vae, consistency, factor_vae, irs, restrictiveness, z_max
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES
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
