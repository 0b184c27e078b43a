"""The rows of METRICS that stored studies of "all" metrics do not have: identifiability, and what peers compute."""

from jaxdis._core.spec import Spec
from jaxdis.metrics._identifiability import (
    explained_variance,
    kernel_prediction,
    linear_prediction,
    mcc_test,
    prediction_correlation,
)
from jaxdis.metrics._metric import About, Blend, Direct, Metric

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
            measured_seconds=0.5,
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
}
