"""The literature as one table: METRICS, name → metric. Most rows are a relation read by a score."""

from jaxdis.metrics.downstream import downstream_trees, explicitness, infoe
from jaxdis.metrics.interventions import beta_vae, draw_batches, draw_pairs, factor_vae, group_by_value, irs
from jaxdis.metrics.knockout import nk
from jaxdis.metrics.metric import Blend, Direct, Metric
from jaxdis.metrics.probes import linear_probe, mlp_probe
from jaxdis.metrics.single_neuron import snc
from jaxdis.metrics.unsupervised import code_information, total_correlation
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES
from jaxdis.scores.projection import structured_score
from jaxdis.spec import Spec

_TEN_NEIGHBOURS = RELATIONS["mutual_information_neighbours"].with_options(neighbours=10)

METRICS: dict[str, Metric] = {
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
    "explicitness": Direct(Spec(explicitness)),
    "downstream_trees": Direct(Spec(downstream_trees)),
    "snc": Direct(Spec(snc)),
    "nk": Direct(Spec(nk)),
    "linear_probe": Direct(Spec(linear_probe)),
    "mlp_probe": Direct(Spec(mlp_probe)),
    "factor_vae": Direct(Spec(factor_vae), prepare=draw_batches),
    "beta_vae": Direct(Spec(beta_vae), prepare=draw_pairs),
    "irs": Direct(Spec(irs), prepare=group_by_value),
    "total_correlation": Direct(Spec(total_correlation), lower_is_better=True),
    "code_information": Direct(Spec(code_information), lower_is_better=True),
    "amari": Blend("correlation", "amari"),
    "infom": Blend(_TEN_NEIGHBOURS, SCORES["concentration"].with_options(over="codes")),
    "infoe": Direct(Spec(infoe)),
    "infoc": Blend(_TEN_NEIGHBOURS, SCORES["concentration"].with_options(over="factors")),
    "mig_ksg": Blend("mutual_information_neighbours", "gap"),
    "mig_sup_ksg": Blend("mutual_information_neighbours", "factor_gap"),
    "dcimig_ksg": Blend("mutual_information_neighbours", "strongest"),
    "modularity_ksg": Blend("mutual_information_neighbours", "modularity"),
    "edi": Blend("impact_intensity", "exclusivity"),
}
