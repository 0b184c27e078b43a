"""How dependent mean and sampled codes are on each other: Locatello et al. 2020, Figures 2 to 4 and 29 to 33."""

from collections.abc import Sequence

import numpy as np

from jaxdis import plots
from jaxdis.study.report._html import Picture
from jaxdis.study.report._subject import Subject

MEASURES = ("total_correlation", "code_information")


def dependence(subject: Subject) -> Sequence[Picture]:
    """Both measures of mean and sampled codes against regularization and each other; none if columns are missing."""
    names = [name for measure in MEASURES for name in (measure, f"{measure}_sampled")]
    if not set(names).issubset(subject.names):
        return []
    table = {**subject.table, "model": np.array(subject.models)}
    titles = ["total correlation of means", "of samples", "information between codes of means", "of samples"]
    against = plots.scores_by_regularization(table, subject.regularization, names, titles=titles)
    clouds = [
        ("of samples, nats", "of means, nats", subject.table[f"{measure}_sampled"], subject.table[measure])
        for measure in MEASURES
    ]
    return [
        Picture("Dependence among codes against regularization strength; lines join medians", against),
        Picture(
            "Total correlation (left) and information (right) of mean codes against sampled codes",
            plots.point_clouds(clouds),
        ),
    ]
