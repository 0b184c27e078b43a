"""Scores against classifiers trained on few or many codes: Locatello et al. 2020, Figures 23 to 28."""

from collections.abc import Sequence

import numpy as np

from jaxdis import plots
from jaxdis.study._definition import metric_of
from jaxdis.study.report import _result_table as results
from jaxdis.study.report._html import Picture
from jaxdis.study.report._seed_statistics import spearman_of_columns
from jaxdis.study.report._subject import Subject

GROUPS = ("lowest third", "middle third", "highest third")
# Columns in a scatter of efficiencies.
MOST_SCATTERS = 8


def learning(subject: Subject) -> Sequence[Picture]:
    """Rank correlation with accuracy by number of samples, efficiency against scores, accuracy of thirds by a score."""
    tasks = [name for name, _ in subject.study.metrics if name.startswith("downstream")]
    curves = {task: by_size(subject, task) for task in tasks}
    columns = [name for task in tasks for name in (*curves[task].values(), f"{task}.efficiency")]
    columns = [name for name in columns if name in subject.table and results.varies(subject.table[name])]
    scores = [name for name in subject.headline_columns() if metric_of(subject.study, name) not in tasks]
    if not columns or not scores:
        return []
    matrix = spearman_of_columns(subject.table, scores, columns)
    heads = [subject.titles.get(name, name.replace("_", " ")) for name in columns]
    rows = [subject.titles[name] for name in scores]
    pictures = [
        Picture(
            "Rank correlation of scores with accuracy by number of training samples, and with efficiency",
            plots.rank_map(matrix, rows, heads),
        )
    ]
    efficiencies = [name for name in columns if name.endswith(".efficiency")]
    if efficiencies:
        table = {**subject.table, "model": np.array(subject.models)}
        pictures.append(
            Picture(
                "Statistical efficiency against scores",
                plots.scatter_matrix(table, efficiencies, scores[:MOST_SCATTERS]),
            )
        )
    for name in [name for name in ("dci.disentanglement", "mig") if name in subject.table]:
        for task in tasks:
            if len(curves[task]) > 1 and np.isfinite(subject.table[name]).sum() >= 2 * len(GROUPS):
                caption = f"Accuracy of {task.replace('_', ' ')} of members in three groups by {subject.titles[name]}"
                pictures.append(Picture(caption, _of_thirds(subject, name, curves[task])))
    return pictures


def by_size(subject: Subject, task: str) -> dict[int, str]:
    """Number of training samples → column of accuracy."""
    ends = {name: name.removeprefix(f"{task}.") for name in subject.table if name.startswith(f"{task}.")}
    return {int(end): name for name, end in ends.items() if end.isdigit()}


def _of_thirds(subject: Subject, name: str, curve: dict[int, str]):
    """A figure of accuracy by number of samples, a line per third; members without the score are in no group."""
    defined = np.flatnonzero(np.isfinite(subject.table[name]))
    order = defined[np.argsort(subject.table[name][defined], kind="stable")]
    thirds = dict(zip(GROUPS, np.array_split(order, len(GROUPS)), strict=True))
    least = min(map(len, thirds.values()))
    accuracy = np.stack([subject.table[column] for column in curve.values()])
    columns = {group: accuracy[:, rows[:least]] for group, rows in thirds.items()}
    return plots.curves(np.log10(list(curve)), columns, "log10 of training samples", "accuracy")
