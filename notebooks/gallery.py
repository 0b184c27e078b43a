"""Figures of the gallery: each is drawn by its own lines, after ``BEGIN``, when the documentation is built."""

import warnings
from pathlib import Path
from typing import NamedTuple

BEGIN = """import jaxdis
import numpy as np
from jaxdis import plots

codes, factors, table = jaxdis.data.example()
metrics = ["mig", "modularity", "mcc", "sap_r2"]
scores = jaxdis.evaluate(codes, factors, metrics, members=table)
"""


class Drawn(NamedTuple):
    """A figure: its name, what it shows, the function that draws it, and its lines, which assign ``figure``."""

    name: str
    words: str
    function: str
    lines: str


FIGURES = (
    Drawn(
        "score_points",
        "A point per model and metric, by objective; a line marks the median.",
        "jaxdis.Scores.plot",
        'figure = scores.plot(by="objective")',
    ),
    Drawn(
        "hinton",
        "What each code knows of each factor: the area is mutual information as a share of entropy.",
        "jaxdis.plots.hinton",
        'found = jaxdis.relate(codes[8], factors, "mutual_information")\n'
        "figure = plots.hinton(found.strength / found.ceiling, factors.names)",
    ),
    Drawn(
        "codes_and_factors",
        "The same, beside every code over every factor. The shell draws it with jaxdis show.",
        "jaxdis.plots.codes_and_factors",
        "values, few = np.asarray(factors.values)[::20], codes[8, ::20, :3]\n"
        "known = (factors.names, factors.classes)\n"
        "figure = plots.codes_and_factors(found.strength[:3], few, values, *known)",
    ),
    Drawn(
        "heat_map",
        "A relation as numbers.",
        "jaxdis.plots.heat_map",
        'names = [f"code {i}" for i in range(8)]\n'
        "figure = plots.heat_map(found.strength / found.ceiling, names, factors.names)",
    ),
    Drawn(
        "relation_panels",
        "Several models' relations side by side.",
        "jaxdis.plots.relation_panels",
        'relations = [jaxdis.relate(each, factors, "correlation") for each in codes[::10]]\n'
        'titles = [row["objective"] for row in table[::10]]\n'
        "panels = [(t, r.strength) for t, r in zip(titles, relations)]\n"
        "figure = plots.relation_panels(panels, factors.names, columns=3)",
    ),
    Drawn(
        "rank_map",
        "Which metrics rank the models alike.",
        "jaxdis.plots.rank_map",
        "import scipy.stats\n\n"
        "columns = np.stack([scores[name] for name in metrics])\n"
        "ranks = scipy.stats.spearmanr(columns.T).statistic\n"
        "figure = plots.rank_map(ranks, metrics)",
    ),
    Drawn(
        "scatter_matrix",
        "One metric over another, a point per model.",
        "jaxdis.plots.scatter_matrix",
        'columns = {"model": np.array([row["objective"] for row in table])}\n'
        "columns |= {name: scores[name] for name in metrics}\n"
        'figure = plots.scatter_matrix(columns, ["mig", "mcc"], ["modularity", "sap_r2"])',
    ),
    Drawn(
        "violins",
        "The spread of each objective's scores.",
        "jaxdis.plots.violins",
        'figure = plots.violins(columns, ["mig", "mcc", "modularity"], columns=3)',
    ),
    Drawn(
        "scores_by_regularization",
        "Scores over the strength of the regularization.",
        "jaxdis.plots.scores_by_regularization",
        'strength = np.array([row["strength"] for row in table])\n'
        'figure = plots.scores_by_regularization(columns, strength, ["mig", "mcc"])',
    ),
    Drawn(
        "sensitivity",
        "How far bins and samples change a ranking of models.",
        "jaxdis.sensitivity",
        'choices = {"options": {"bins": (10, 40)}, "samples": (500, 2000)}\n'
        'found = jaxdis.sensitivity(codes, factors, ["mig", "sap_r2"], **choices)\n'
        "figure = found.plot()",
    ),
    Drawn(
        "member_lines",
        "One metric's scores by an option; where lines cross, the ranking changes.",
        "jaxdis.plots.member_lines",
        'mig = {f"bins={n}": jaxdis.METRICS["mig"].with_options(bins=n) for n in (5, 10, 20, 50)}\n'
        "by_bins = jaxdis.evaluate(codes, factors, mig)\n"
        "figure = plots.member_lines([by_bins[name] for name in mig], [*mig])",
    ),
    Drawn(
        "top_codes",
        "The codes that tell most about a factor, of one model.",
        "jaxdis.plots.top_codes",
        'figure = plots.top_codes(scores[8].top("x", 5))',
    ),
    Drawn(
        "image_grid",
        "Images of a data set, one factor at a time. The shell draws it with jaxdis data show.",
        "jaxdis.plots.image_grid",
        "space, render = jaxdis.data.dsprites()\n"
        "rows = np.zeros((3, 6, 5), int)\n"
        "rows[0, :3, 0], rows[1, :, 1], rows[2, :, 2] = range(3), range(6), range(0, 36, 6)\n"
        "figure = plots.image_grid(render(rows)[:2], space.names[:2])",
    ),
)


# The one on the page of that name.
FIRST_LOOK = Drawn(
    "first_look",
    "A point per model and metric, by objective.",
    "jaxdis.Scores.plot",
    'figure = scores[["mig", "modularity", "mcc"]].plot(by="objective")',
)


def draw(folder: Path) -> None:
    """Write a picture of each figure, ``NAME.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict = {}
    exec(BEGIN, names)
    for drawn in (FIRST_LOOK, *FIGURES):
        exec(drawn.lines, names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names["figure"].savefig(folder / f"{drawn.name}.svg", bbox_inches="tight")
