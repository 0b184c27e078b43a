"""The page of Locatello et al. 2020: Tables 1 and 5, and the figures whose numbers are not printed, drawn again."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from jaxdis import plots
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, differences_in
from jaxdis.papers.harness._paper import Finished, Reproduction
from jaxdis.papers.harness._printed import printed_in
from jaxdis.papers.harness._verdict import by_seed
from jaxdis.papers.locatello2020._claims import claims
from jaxdis.papers.locatello2020._run import COLUMNS, SEVEN, UNSUPERVISED
from jaxdis.study.report._figures import blends, dependence, learning, merges, structure
from jaxdis.study.report._statistics import Table, across_data, score_cube, spearman, spearman_of_columns, transfer
from jaxdis.study.report._subject import Subject


def content(made: Reproduction) -> Content:
    zoo = made.finished("zoo")
    printed = printed_in(__package__).tables
    pieces = made.pieces
    return Content(
        _size(made, zoo),
        differences_in(__package__),
        claims(zoo.table, pieces["stability"], pieces["impossibility"], small=made.size != "paper"),
        [_table_1(printed["table_1"], zoo.table), *_table_5(printed, zoo.table)],
        [*_figures(zoo), *_stability(pieces["stability"])],
        [("Impossibility (Theorem 1)", _impossibility(pieces["impossibility"]))],
    )


def _size(made: Reproduction, zoo: Finished) -> str:
    seeds = len(np.unique(zoo.table["seed"]))
    settings = len(set(zip(zoo.table["model"], zoo.table["regularization"], strict=True)))
    steps = zoo.study.trainings[0].config.steps
    return (
        f"{len(zoo.members)} models: six objectives × {settings // 6} regularization strengths × {seeds} seeds on"
        f" {', '.join(readings.data_of(zoo.table))}, {steps:,} updates, scored on {zoo.study.sampling.in_words()}."
    )


def _table_1(printed, table: Table) -> Beside:
    names = {"same_metric": "same_metric", "other_metric": "other_metric"}
    measured = {}
    for place, row in enumerate(printed.rows):
        for column in row.values:
            field = f"{column}_{names[row.key['metric']]}"
            share = by_seed(table, lambda sample, f=field: 100 * getattr(transfer(sample, COLUMNS, trials=2000), f))
            value = 100 * getattr(transfer(table, COLUMNS, trials=100_000), field)  # the trials' own error is .1
            measured[place, column] = Measured(value, (share.high - share.low) / 3.29)
    remark = "The spread is the bootstrap interval over seeds as a standard deviation."
    return Beside(printed, measured, remark)


def _table_5(printed, table: Table) -> list[Beside]:
    """Table 5 as printed, and adjusted for the number of groups, which with few seeds explain much by chance."""
    tables = []
    for name, regularization in (("table_5a", False), ("table_5b", True)):
        for suffix, share in (("", readings.explained_unadjusted), (" adjusted", readings.explained)):
            measured = {}
            for place, row in enumerate(printed[name].rows):
                rows = readings.of(table, data=row.key["dataset"])
                if len(rows["model"]):
                    for column in row.values:
                        measured[place, column] = Measured(
                            100 * share(rows, SEVEN[column], regularization=regularization)
                        )
            own = printed[name]._replace(id=name + suffix.replace(" ", "_"), label=printed[name].label + suffix)
            tables.append(Beside(own, measured))
    return tables


def _figures(zoo: Finished) -> list[Figure]:
    """In the paper's order, each for every data set."""
    figures, by_id = [], {member.train: member for member in zoo.members}
    subjects = dict(zoo.subject.each())
    titled = {data: {**subject.table, "model": np.array(subject.models)} for data, subject in subjects.items()}

    def add(label: str, pictures_by_data: Mapping[str, list]) -> None:
        figures.extend(
            Figure(f"{label}: {data}", picture.caption, picture.figure)
            for data, pictures in pictures_by_data.items()
            for picture in pictures
        )

    add("Figures 2–4, 29–33", {data: dependence(subject) for data, subject in subjects.items()})
    for data, subject in subjects.items():
        titles, columns = list(SEVEN), COLUMNS
        figures += [
            Figure(
                f"Figure 5: {data}",
                "Scores over settings and seeds, by method",
                plots.violins(titled[data], columns, titles=titles),
            ),
            Figure(
                f"Figure 6: {data}",
                "Scores over seeds, by method and regularization strength",
                plots.violins_by_regularization(titled[data], subject.regularization, columns, titles=titles),
            ),
            Figure(
                f"Figure 7: {data}",
                "Scores against regularization strength; lines join medians",
                plots.scores_by_regularization(titled[data], subject.regularization, columns, titles=titles),
            ),
            Figure(
                f"Figure 8: {data}",
                "Rank correlation of unsupervised scores with metrics",
                plots.rank_map(
                    spearman_of_columns(subject.table, UNSUPERVISED, columns),
                    [n.replace("_", " ") for n in UNSUPERVISED],
                    titles,
                ),
            ),
        ]
    figures += _across(zoo.subject)
    for data, subject in subjects.items():
        matrix = spearman_of_columns(subject.table, COLUMNS)
        renamed = {title: subject.table[column] for title, column in SEVEN.items()} | {"model": titled[data]["model"]}
        figures += [
            Figure(
                f"Figure 12: {data}",
                "Metrics against each other",
                plots.scatter_matrix(renamed, list(SEVEN), list(SEVEN)),
            ),
            Figure(f"Figure 13: {data}", "Rank correlation of metrics", plots.rank_map(matrix, list(SEVEN))),
        ]
    add("Figures 15, 16, 20", {data: blends(_only_blends(subject)) for data, subject in subjects.items()})
    first = next(iter(subjects))
    add("Figures 17–19", {first: structure(subjects[first], zoo.store, by_id, "dci.disentanglement")})
    add("Figures 23–28", {data: learning(subject) for data, subject in subjects.items()})
    add("Figures 34, 35", {data: merges(subject, zoo.store, by_id) for data, subject in subjects.items()})
    return figures


def _only_blends(subject: Subject) -> Subject:
    """Without the scores that figures of blends do not show."""
    wanted = tuple(
        name
        for name in subject.names
        if name.endswith(("_gap", "_modularity", "entropy.disentanglement", "entropy.completeness"))
    )
    return dataclasses.replace(subject, names=wanted)


def _across(subject: Subject) -> list[Figure]:
    """Figures 9 and 10."""
    names = list(dict.fromkeys(map(str, subject.table["data"])))
    if len(names) < 2:
        return []
    figures = []
    for title, column in SEVEN.items():
        matrix, data = across_data(subject.table, column)
        figures.append(
            Figure("Figure 9", f"Rank correlation between data sets of {title}", plots.rank_map(matrix, data))
        )
    panels = []
    for title, column in SEVEN.items():
        cube, data = score_cube(subject.table, [column])
        medians = np.array([[readings.median(row) for row in rows] for rows in cube[:, :, :, 0]])
        panels += [
            (data[0], f"{title}: {other}", medians[0], row) for other, row in zip(data[1:], medians[1:], strict=True)
        ]
    return [
        *figures,
        *(
            Figure(
                "Figure 10",
                f"Medians of every setting on {names[0]} against other data sets",
                plots.point_clouds(panels[i : i + 4]),
            )
            for i in range(0, len(panels), 4)
        ),
    ]


def _stability(runs_by_data: Mapping) -> list[Figure]:
    return [
        Figure(
            f"Figures 21, 22: {data}",
            "Rank correlation of two runs with few and with many samples",
            plots.rank_map(
                np.array([[spearman(*np.array(row[size])) for size in ("smaller", "larger")] for row in rows.values()]),
                list(rows),
                ("few", "many"),
            ),
        )
        for data, rows in runs_by_data.items()
    ]


def _impossibility(scores_by_size: Mapping) -> str:
    from jaxdis.study.report._html import table

    rows: dict[str, list] = {"factors": [], "score": [], "of z": [], "of f(z)": []}
    for size, scores in scores_by_size.items():
        for name, (right, wrong) in scores.items():
            for head, value in zip(rows, (size, name.replace("_", " "), float(right), float(wrong)), strict=True):
                rows[head].append(value)
    text = (
        "<p>Factors z, uniform and independent, and f(z) = Φ(A Φ⁻¹(z)) with a Householder matrix A (α = .2): the same"
        " distribution, so that no likelihood tells them apart, but every code a function of every factor.</p>"
    )
    return text + table(list(rows), rows)
