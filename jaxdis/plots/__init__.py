"""Pictures of scores, relations and models.

Each function returns a matplotlib figure, which notebooks show and ``figure.savefig("picture.svg")`` writes; those with
one panel draw on the axes ``ax`` if these are given. Numbers that are not finite are left out.
"""

from jaxdis.plots._curves import curves, loss_curves, member_lines, resources, roofline, throughput
from jaxdis.plots._relation_plots import (
    codes_and_factors,
    dendrogram,
    dendrogram_panels,
    group_panels,
    groups_curve,
    heat_map,
    hinton,
    image_grid,
    relation_panels,
)
from jaxdis.plots._score_plots import (
    point_clouds,
    rank_map,
    scatter_matrix,
    score_points,
    scores_by_regularization,
    top_codes,
    violins,
    violins_by_regularization,
)

__all__ = [
    "codes_and_factors",
    "curves",
    "dendrogram",
    "dendrogram_panels",
    "group_panels",
    "groups_curve",
    "heat_map",
    "hinton",
    "image_grid",
    "loss_curves",
    "member_lines",
    "point_clouds",
    "rank_map",
    "relation_panels",
    "resources",
    "roofline",
    "scatter_matrix",
    "score_points",
    "scores_by_regularization",
    "throughput",
    "top_codes",
    "violins",
    "violins_by_regularization",
]
