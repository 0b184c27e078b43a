"""Metrics that share a relation or a score: Locatello et al. 2020, Figures 15, 16 and 20."""

from collections.abc import Sequence

from jaxdis import plots
from jaxdis.metrics import Blend
from jaxdis.study._definition import metric_of
from jaxdis.study.report import _result_table as results
from jaxdis.study.report._html import Picture
from jaxdis.study.report._seed_statistics import spearman_of_columns
from jaxdis.study.report._subject import Subject


def blends(subject: Subject) -> Sequence[Picture]:
    """Rank correlation of scores under one relation, and of one score under several relations."""
    metrics = {name: metric for name, metric in subject.study.metrics if isinstance(metric, Blend)}
    columns_by_metric: dict[str, list[str]] = {}
    for column in subject.names:
        if (name := metric_of(subject.study, column)) in metrics and results.varies(subject.table[column]):
            columns_by_metric.setdefault(name, []).append(column)
    by_relation: dict[str, list[str]] = {}
    by_score: dict[str, list[str]] = {}
    for name, columns in columns_by_metric.items():
        metric = metrics[name]
        by_relation.setdefault(metric.relation.title or metric.relation.name, []).extend(columns)
        for column in columns:
            field = column[len(name) :].replace(".", " ").replace("_", " ")
            by_score.setdefault(f"{metric.score.title or metric.score.name}{field}", []).append(column)
    relations = [
        (f"Scores under one relation: {title}", names) for title, names in by_relation.items() if len(names) > 2
    ]
    scores = [
        (f"One score under several relations: {title}", names) for title, names in by_score.items() if len(names) > 2
    ]
    return [
        Picture(
            title, plots.rank_map(spearman_of_columns(subject.table, names), [subject.titles[name] for name in names])
        )
        for title, names in relations + scores
    ]
