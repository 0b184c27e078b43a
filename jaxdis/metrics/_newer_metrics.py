"""The rows in METRICS that stored studies with "all" metrics do not have: identifiability, and what peers compute."""

from jaxdis._core.spec import Spec
from jaxdis.metrics._dependent_gaps import dependent_information, dlig, dmig, xmig
from jaxdis.metrics._extended_dci import dci_es
from jaxdis.metrics._identifiability import (
    explained_variance,
    kernel_prediction,
    linear_prediction,
    mcc_test,
    prediction_correlation,
)
from jaxdis.metrics._interpolation import factor_paths, monotonicity, smoothness
from jaxdis.metrics._metric import ASPECTS, About, Blend, Direct, Metric
from jaxdis.metrics._separation import indin, separation, sepin, windin, wsepin
from jaxdis.metrics._unique import unibound
from jaxdis.metrics.interventions import consistency, restrictiveness, z_max

_FIELDS = ("disentanglement", "completeness", "informativeness")
_MODULAR, _COMPACT, _ = ({"score": (aspect,)} for aspect in ASPECTS)

NEWER: dict[str, Metric] = {
    "r2_linear": Blend(
        Spec(linear_prediction),
        Spec(explained_variance),
        about=About(
            "Variance explained by linear regression (R²)",
            "How much of each factor's held-out variance does a linear map of all codes explain?",
            ("zimmermann2021",),
            chance={"score": (-0.1, 0.02)},
        ),
    ),
    "mcc_linear": Blend(
        Spec(linear_prediction),
        Spec(prediction_correlation),
        about=About(
            "Mean correlation coefficient after a linear map",
            "How strongly does each factor correlate with the best linear map of all codes, on held-out samples?",
            ("khemakhem2020",),
            chance={"score": (0, 0.12)},
        ),
    ),
    "r2_kernel": Blend(
        Spec(kernel_prediction),
        Spec(explained_variance),
        about=About(
            "Variance explained by kernel ridge regression (R²)",
            "How much of each factor's held-out variance does a smooth map of all codes explain?",
            ("kugelgen2021",),
            chance={"score": (-0.5, 0.02)},
        ),
    ),
    "mcc_test": Direct(
        Spec(mcc_test),
        about=About(
            "Mean correlation coefficient on held-out samples",
            "How strongly does each factor correlate, on held-out samples, with the code matched to it in training?",
            ("hyvarinen2016", "khemakhem2020"),
            chance={"score": (0, 0.1), "train": (0, 0.1)},
        ),
    ),
    "xmig": Blend(
        Spec(dependent_information),
        Spec(xmig),
        about=About(
            "Dependency-blind mutual information gap (XMIG)",
            "How much more information about each factor is in its own code than in any code that is no factor's own?",
            ("watcharasupat2021thesis", "watcharasupat2021"),
            claims=_COMPACT,
            chance={"score": (-0.03, 0.03)},
        ),
    ),
    "dmig": Blend(
        Spec(dependent_information),
        Spec(dmig),
        about=About(
            "Dependency-aware mutual information gap (DMIG)",
            "As mig, but how much larger could the gap be, given the factor whose code comes second?",
            ("watcharasupat2021",),
            claims=_COMPACT,
            chance={"score": (-0.03, 0.03)},
        ),
    ),
    "dlig": Blend(
        Spec(dependent_information),
        Spec(dlig),
        about=About(
            "Dependency-aware latent information gap (DLIG)",
            "How much more information is in the code of each factor about it than about any other, of what could be?",
            ("watcharasupat2021thesis", "watcharasupat2021"),
            claims=_MODULAR,
            chance={"score": (-0.03, 0.03)},
        ),
    ),
    "axis_alignment": Blend(
        "mutual_information",
        "axis_alignment",
        about=About(
            "Axis alignment metric (AAM)",
            "Is the best code more informative about each factor than all others together?",
            ("dubois2019",),
            claims=_COMPACT,
            chance={"score": (0, 1)},
        ),
    ),
    "sepin": Blend(
        Spec(separation),
        Spec(sepin),
        about=About(
            "Separated informativeness (SEPIN)",
            "How much does each code say of the image that no other code says?",
            ("do2020",),
            reads_factors=False,
        ),
    ),
    "wsepin": Blend(
        Spec(separation),
        Spec(wsepin),
        about=About(
            "Weighted separated informativeness (WSEPIN)",
            "As sepin, but how much do informative codes say that no other code says?",
            ("do2020",),
            reads_factors=False,
        ),
    ),
    "indin": Blend(
        Spec(separation),
        Spec(indin),
        about=About(
            "Independent informativeness (INDIN)",
            "How much does each code say of the image beyond what it says of other codes?",
            ("do2020",),
            reads_factors=False,
        ),
    ),
    "windin": Blend(
        Spec(separation),
        Spec(windin),
        about=About(
            "Weighted independent informativeness (WINDIN)",
            "As indin, but how much do informative codes say beyond what they say of others?",
            ("do2020",),
            reads_factors=False,
        ),
    ),
    "z_max": Direct(
        Spec(z_max),
        about=About(
            "Z-max variance (RF-VAE score)",
            "Does the code that varies most predict which factor alone varies?",
            ("kim2019", "carbonneau2022"),
            claims=_MODULAR,
            chance={"score": (0, 0.45), "train": (0, 0.5)},
        ),
    ),
    "consistency": Direct(
        Spec(consistency),
        about=About(
            "Consistency",
            "How little does the code of each factor change while this factor is held?",
            ("shu2020",),
            chance={"score": (-0.02, 0.02)},
            intervenes=True,
        ),
    ),
    "restrictiveness": Direct(
        Spec(restrictiveness),
        about=About(
            "Restrictiveness",
            "How little do all other codes change while one factor alone changes?",
            ("shu2020",),
            claims=_MODULAR,
            chance={"score": (-0.05, 1)},
            intervenes=True,
        ),
    ),
    "unibound": Direct(
        Spec(unibound),
        about=About(
            "Bound of unique information (UniBound)",
            "How much does one code say of each factor that all others together do not say?",
            ("tokui2022",),
            claims=_COMPACT,
            chance={"score": (0, 0.05)},
        ),
    ),
    "monotonicity": Blend(
        Spec(factor_paths),
        Spec(monotonicity),
        about=About(
            "Monotonicity along codes",
            "Does each factor only rise, or only fall, along its own code?",
            ("watcharasupat2021thesis",),
            chance={"score": (0, 1)},
        ),
    ),
    "smoothness": Blend(
        Spec(factor_paths),
        Spec(smoothness),
        about=About(
            "Smoothness along codes",
            "Does each factor change without jumps along its own code?",
            ("watcharasupat2021thesis",),
            chance={"score": (0, 1)},
        ),
    ),
    "dci_es": Direct(
        Spec(dci_es),
        about=About(
            "DCI with explicitness and size (DCI-ES)",
            "As dci_forest, and how small a learner can read the factors, from how few codes?",
            ("eastwood2023", "eastwood2018"),
            claims={field: (aspect,) for field, aspect in zip(_FIELDS, ASPECTS, strict=True)},
            chance={
                **dict.fromkeys(("disentanglement", "completeness"), (0, 1)),
                "informativeness": (-0.05, 0.05),
                "explicitness": (0.9, 1),
            },
        ),
    ),
}
