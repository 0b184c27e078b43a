"""The literature as one table: METRICS, name → metric. Most rows apply a score to a relation."""

from jaxdis._core.spec import Spec
from jaxdis.metrics._downstream import downstream_trees, explicitness, infoe
from jaxdis.metrics._knockout import nk
from jaxdis.metrics._metric import ASPECTS, About, Blend, Direct, Metric
from jaxdis.metrics._newer_metrics import NEWER
from jaxdis.metrics._probe_accuracy import linear_probe, mlp_probe
from jaxdis.metrics._single_neuron import snc
from jaxdis.metrics._unsupervised import code_information, total_correlation
from jaxdis.metrics.interventions import beta_vae, factor_vae, irs
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES
from jaxdis.scores._projection import structured_score

_TEN_NEIGHBORS = RELATIONS["mutual_information_neighbors"].with_options(neighbors=10)

# The claim of each field of an entropy score.
_FIELDS = ("disentanglement", "completeness", "informativeness")
_BY_FIELD = {field: (aspect,) for field, aspect in zip(_FIELDS, ASPECTS, strict=True)}
_MODULAR, _COMPACT, _EXPLICIT = ({"score": (aspect,)} for aspect in ASPECTS)
_ALL = {"score": ASPECTS}
# Claims are the authors' own words, or those of Julka et al. 2024, §II.
METRICS: dict[str, Metric] = {
    "mig": Blend(
        "mutual_information",
        "gap",
        about=About(
            "Mutual information gap (MIG)",
            "How much more information does the best code carry about each factor than the second best?",
            ("chen2018", "locatello2020"),
            claims=_COMPACT,
            chance={"score": (0, 0.03)},
        ),
    ),
    "mig_sup": Blend(
        "mutual_information",
        "factor_gap",
        about=About(
            "Supplement to the mutual information gap (MIG-sup)",
            "How much more information does each code carry about its best factor than about the second best?",
            ("li2020",),
            claims=_MODULAR,
            chance={"score": (0, 0.03)},
        ),
    ),
    "med": Blend(
        "mutual_information",
        SCORES["entropy"].with_options(normalize="factor"),
        about=About(
            "Mutual information based entropy disentanglement",
            "How far is the information of each code concentrated on one factor, and of each factor in one code?",
            ("cao2022", "mahon2024"),
            claims=_BY_FIELD,
            chance={"disentanglement": (0, 0.06), "completeness": (0, 0.06)},
        ),
    ),
    "dcimig": Blend(
        "mutual_information",
        "strongest",
        about=About(
            "DCIMIG",
            "If each code counts only for the factor it is most informative about, how much information remains?",
            ("sepliarskaia2019", "julka2024"),
            claims=_ALL,
            chance={"score": (0, 0.04)},
        ),
    ),
    "modularity": Blend(
        "mutual_information",
        "modularity",
        about=About(
            "Modularity score",
            "Is each code informative about a single factor?",
            ("ridgeway2018", "locatello2020"),
            claims=_MODULAR,
            chance={"score": (0, 1)},
        ),
    ),
    "sap": Blend(
        "svm_accuracy",
        "gap",
        about=About(
            "Separated attribute predictability (SAP)",
            "How much more accurately does the best code alone predict each factor than the second best, linearly?",
            ("kumar2018", "locatello2020"),
            claims=_COMPACT,
            chance={"score": (0, 0.1)},
        ),
    ),
    "sap_r2": Blend(
        "r2",
        "gap",
        about=About(
            "SAP by squared correlation",
            "How much more of each factor's variance does the best code explain linearly than the second best?",
            ("kumar2018",),
            claims=_COMPACT,
            chance={"score": (0, 0.02)},
        ),
    ),
    "dci": Blend(
        "boosted_trees",
        "entropy",
        about=About(
            "DCI by boosted trees",
            "Do boosted trees that predict each factor rely on one code per factor, and on each code for one factor?",
            ("eastwood2018", "locatello2020"),
            claims=_BY_FIELD,
            chance={"disentanglement": (0, 0.6), "completeness": (0, 0.6), "informativeness": (0.2, 1)},
        ),
    ),
    "dci_forest": Blend(
        "random_forest",
        "entropy",
        about=About(
            "DCI by random forests",
            "Do random forests that predict each factor rely on one code per factor, and on each code for one factor?",
            ("eastwood2018",),
            claims=_BY_FIELD,
            chance={"disentanglement": (0, 1), "completeness": (0, 1), "informativeness": (-0.05, 0.05)},
        ),
    ),
    "dci_lasso": Blend(
        "lasso_importance",
        "entropy",
        about=About(
            "DCI by a lasso",
            "Do sparse linear regressions of each factor rely on one code per factor, and on each code for one factor?",
            ("eastwood2018",),
            claims=_BY_FIELD,
            chance={"disentanglement": (0, 1), "completeness": (0, 1), "informativeness": (-0.05, 0.05)},
        ),
    ),
    "dci_logistic": Blend(
        "logistic_importance",
        "entropy",
        about=About(
            "DCI by logistic regression",
            "Do linear classifiers of each factor rely on one code per factor, and on each code for one factor?",
            ("eastwood2018",),
            chance={"disentanglement": (0, 0.6), "completeness": (0, 0.6), "informativeness": (0.2, 1)},
        ),
    ),
    "structured": Blend(
        "random_forest",
        Spec(structured_score),
        about=About(
            "Structured disentanglement",
            "Are codes disentangled at each level of a hierarchy of factors, such as objects and their properties?",
            ("dangnhu2022",),
            chance={"disentanglement": (0, 1), "completeness": (0, 1)},
        ),
    ),
    "rmig": Blend(
        "mutual_information_sampled",
        "gap",
        about=About(
            "Robust mutual information gap (RMIG)",
            "How much more information does the best sampled code carry about each factor than the second best?",
            ("do2020", "chen2018"),
            claims=_COMPACT,
            chance={"score": (0, 0.05)},
        ),
    ),
    "jemmig": Blend(
        "mutual_information_sampled",
        "joint_gap",
        about=About(
            "Joint entropy minus mutual information gap",
            "Is each factor encoded by one code that encodes nothing else?",
            ("do2020",),
            chance={"score": (0.05, 1)},
        ),
    ),
    "mcc": Blend(
        "correlation",
        "matching",
        about=About(
            "Mean correlation coefficient",
            "How strongly does each factor correlate with the one code matched to it?",
            ("hyvarinen2016",),
            chance={"score": (0, 0.1)},
        ),
    ),
    "explicitness": Direct(
        Spec(explicitness),
        about=About(
            "Explicitness score",
            "How well does a linear classifier of all codes separate the values of each factor?",
            ("ridgeway2018", "locatello2020"),
            claims=_EXPLICIT,
            chance={"score": (0.42, 0.58), "train": (0.45, 0.65)},
        ),
    ),
    "downstream_trees": Direct(
        Spec(downstream_trees),
        about=About(
            "Downstream accuracy of boosted trees by sample size",
            "How accurately do boosted trees predict the factors from few and from many samples?",
            ("locatello2020",),
            chance={"score": (0.2, 1), "worst": (0.2, 1)},
        ),
    ),
    "snc": Direct(
        Spec(snc),
        about=About(
            "Single-neuron classification",
            "How accurately does the one code aligned with each factor classify it, without learning?",
            ("mahon2024",),
            chance={"score": (0, 0.5)},
        ),
    ),
    "nk": Direct(
        Spec(nk),
        about=About(
            "Neuron knockout",
            "How much accuracy does a classifier of each factor lose when the factor's aligned code is removed?",
            ("mahon2024",),
            chance={"score": (-0.03, 0.03)},
        ),
    ),
    "linear_probe": Direct(
        Spec(linear_probe),
        about=About(
            "Linear probe",
            "How accurately does a linear classifier trained by gradient descent predict each factor from all codes?",
            ("mahon2024",),
            chance={"score": (0, 0.5)},
        ),
    ),
    "mlp_probe": Direct(
        Spec(mlp_probe),
        about=About(
            "MLP probe",
            "How accurately does a small network predict each factor from all codes?",
            ("mahon2024",),
            chance={"score": (0, 0.5)},
        ),
    ),
    "factor_vae": Direct(
        Spec(factor_vae),
        about=About(
            "FactorVAE score",
            "Does the code that varies least predict which factor was held fixed?",
            ("kim2018", "locatello2020"),
            claims=_MODULAR,
            chance={"score": (0, 0.42), "train": (0, 0.45)},
            intervenes=True,
        ),
    ),
    "beta_vae": Direct(
        Spec(beta_vae),
        about=About(
            "BetaVAE score",
            "Can a linear classifier predict which factor two halves of a batch share?",
            ("higgins2017", "locatello2020"),
            claims=_MODULAR,
            chance={"score": (0.25, 0.45), "train": (0.3, 0.45)},
            intervenes=True,
        ),
    ),
    "irs": Direct(
        Spec(irs),
        about=About(
            "Interventional robustness score",
            "How little does each code move while one factor is held and the others vary?",
            ("suter2019", "locatello2020"),
            chance={"score": (0, 0.6)},
            intervenes=True,
        ),
    ),
    "total_correlation": Direct(
        Spec(total_correlation),
        about=About(
            "Total correlation of a Gaussian",
            "How dependent are the codes on each other, under a Gaussian with their covariance?",
            ("locatello2020",),
            reads_factors=False,
        ),
    ),
    "code_information": Direct(
        Spec(code_information),
        about=About(
            "Mean mutual information of codes",
            "How much information do pairs of codes share?",
            ("locatello2020",),
            reads_factors=False,
        ),
    ),
    "amari": Blend(
        "correlation",
        "amari",
        about=About(
            "Amari error",
            "How far is the correlation of codes and factors from a scaled permutation?",
            ("amari1996", "yang1997"),
            chance={"score": (4, 17)},
        ),
    ),
    "infom": Blend(
        _TEN_NEIGHBORS,
        SCORES["concentration"].with_options(over="codes"),
        about=About(
            "InfoM, modularity of InfoMEC",
            "Is the information of each code concentrated on one factor?",
            ("hsu2023",),
            claims=_MODULAR,
            chance={"score": (0, 1)},
        ),
    ),
    "infoe": Direct(
        Spec(infoe),
        about=About(
            "InfoE, explicitness of InfoMEC",
            "How much of each factor's uncertainty does a linear classifier of all codes remove?",
            ("hsu2023",),
            claims=_EXPLICIT,
            chance={"score": (0, 0.05)},
        ),
    ),
    "infoc": Blend(
        _TEN_NEIGHBORS,
        SCORES["concentration"].with_options(over="factors"),
        about=About(
            "InfoC, compactness of InfoMEC",
            "Is the information about each factor concentrated in one code?",
            ("hsu2023",),
            claims=_COMPACT,
            chance={"score": (0, 1)},
        ),
    ),
    "mig_ksg": Blend(
        "mutual_information_neighbors",
        "gap",
        about=About(
            "MIG by nearest neighbors",
            "As mig, with information estimated without bins.",
            ("julka2024", "kraskov2004", "ross2014"),
            claims=_COMPACT,
            chance={"score": (0, 0.06)},
        ),
    ),
    "mig_sup_ksg": Blend(
        "mutual_information_neighbors",
        "factor_gap",
        about=About(
            "MIG-sup by nearest neighbors",
            "As mig_sup, with information estimated without bins.",
            ("li2020", "kraskov2004", "ross2014"),
            claims=_MODULAR,
            chance={"score": (0, 0.06)},
        ),
    ),
    "dcimig_ksg": Blend(
        "mutual_information_neighbors",
        "strongest",
        about=About(
            "DCIMIG by nearest neighbors",
            "As dcimig, with information estimated without bins.",
            ("sepliarskaia2019", "kraskov2004", "ross2014"),
            claims=_ALL,
            chance={"score": (0, 0.06)},
        ),
    ),
    "modularity_ksg": Blend(
        "mutual_information_neighbors",
        "modularity",
        about=About(
            "Modularity score by nearest neighbors",
            "As modularity, with information estimated without bins.",
            ("ridgeway2018", "kraskov2004", "ross2014"),
            claims=_MODULAR,
            chance={"score": (0, 1)},
        ),
    ),
    "edi": Blend(
        "impact_intensity",
        "exclusivity",
        about=About(
            "Exclusivity disentanglement index",
            "Which share of all the information about each factor does a single code carry, and exclusively?",
            ("julka2024",),
            claims={aspect: (aspect,) for aspect in ASPECTS},
            chance={"modularity": (0, 1), "compactness": (0, 1), "explicitness": (0, 0.05)},
        ),
    ),
    **NEWER,
}
