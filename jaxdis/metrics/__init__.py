"""The literature's metrics: METRICS, one table with them all, and the functions that do not score a relation."""

from jaxdis._core.spec import Spec, Traits, metric
from jaxdis.metrics import interventions
from jaxdis.metrics._between_members import linear_cka, matched_cosine, svcca, udr
from jaxdis.metrics._downstream import downstream_logistic, downstream_trees, explicitness, infoe
from jaxdis.metrics._extended_dci import dci_es
from jaxdis.metrics._generalization import compositional_generalization, novel_combination, zero_shot
from jaxdis.metrics._identifiability import mcc_test
from jaxdis.metrics._metric import About, Blend, Direct, Metric
from jaxdis.metrics._plan import METRICS
from jaxdis.metrics._probe_accuracy import knockout_curve, knockout_table, linear_probe, mlp_probe, nk, snc
from jaxdis.metrics._separation import unibound
from jaxdis.metrics._unsupervised import code_information, total_correlation
from jaxdis.metrics.interventions import beta_vae, consistency, factor_vae, irs, restrictiveness, z_max

__all__ = ["METRICS", "About", "Blend", "Direct", "Metric", "Spec", "Traits", "beta_vae", "code_information"]
__all__ += ["compositional_generalization", "consistency", "dci_es", "downstream_logistic", "downstream_trees"]
__all__ += ["explicitness", "factor_vae", "infoe", "interventions", "irs", "knockout_curve", "knockout_table"]
__all__ += ["linear_cka", "linear_probe", "matched_cosine", "mcc_test", "metric", "mlp_probe", "nk"]
__all__ += ["novel_combination", "restrictiveness", "snc", "svcca", "total_correlation", "udr", "unibound", "z_max"]
__all__ += ["zero_shot"]
