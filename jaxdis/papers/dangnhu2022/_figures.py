"""Figures of Dang-Nhu 2022 that trained models of slots are drawn in: 3, 4, 10 and 11."""

import numpy as np

from jaxdis import plots
from jaxdis.papers.dangnhu2022._slot_zoo import ARI, OBJECT_D, SPRITES, SlotZoo
from jaxdis.papers.harness._paper_page import Figure

LEVELS = {"object": "slots and objects", "property": "codes of a slot and properties"}
PROJECTIONS = {SPRITES: "Figures 4 and 10", "clevr6": "Figure 11"}


def figures(zoo: SlotZoo) -> list[Figure]:
    """What the regularization changes, disentanglement against segmentation, and the projections of each model."""
    return [*_against_segmentation(zoo), *_projections(zoo)]


def _against_segmentation(zoo: SlotZoo) -> list[Figure]:
    if SPRITES not in zoo.data:
        return []
    columns, groups = {}, []
    for model in zoo.models(SPRITES):
        for regularized in (True, False):
            rows = zoo.of(data=SPRITES, model=model, regularized=regularized)
            if len(rows["seed"]):
                groups.append(f"{model}{'' if regularized else ', ablated'}")
                columns[groups[-1]] = rows
    drawn = []
    for panel, name, words in (("a", OBJECT_D, "Disentanglement of objects"), ("b", ARI, "ARI of foreground pixels")):
        points = {group: rows[name] for group, rows in columns.items()}
        drawn.append(Figure(f"Figure 3 {panel}", f"{words}, with and without regularization", _points(points)))
    trained = zoo.of(data=SPRITES, regularized=True)
    table = {"model": trained["model"], "disentanglement of objects": trained[OBJECT_D], "ARI": trained[ARI]}
    both = plots.scatter_matrix(table, ["disentanglement of objects"], ["ARI"])
    words = f"Disentanglement of objects against ARI; colors in the order {', '.join(zoo.models(SPRITES))}"
    return [*drawn, Figure("Figure 3 c", words, both)]


def _points(columns: dict[str, np.ndarray]):
    """A point per seed; groups may have lost members."""
    most = max(map(len, columns.values()))
    padded = {name: np.full(most, np.nan) for name in columns}
    for name, values in columns.items():
        padded[name][: len(values)] = values
    return plots.score_points(padded)


def _projections(zoo: SlotZoo) -> list[Figure]:
    """Mean projected importances of the regularized members of each model."""
    drawn = []
    for data, number in PROJECTIONS.items():
        for place, (level, words) in enumerate(LEVELS.items()) if data in zoo.data else ():
            parts = {
                model: zoo.parts(f"{level}.joint", data=data, model=model, regularized=True)
                for model in zoo.models(data)
            }
            for model, members in parts.items():
                if members:
                    joint = np.mean(members, axis=0)
                    picture = plots.hinton(joint, list(dict.fromkeys(pair[place] for pair in zoo.labels(data))))
                    drawn.append(Figure(number, f"{model}: importances of {words}, mean over seeds", picture))
    return drawn
