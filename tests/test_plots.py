"""Pictures, where a wrong one would still look like a picture."""

import collections
import io

import numpy as np
import pytest

import jaxdis
from jaxdis import plots
from jaxdis.plots import png

Row = collections.namedtuple("Row", ("name", "zoo_size", "per_second"))
matplotlib = pytest.importorskip("matplotlib")
AB = ("a", "b")
TABLE = {"model": np.array(["a", "a", "b"]), "mig": np.array([0.1, 0.2, 0.3])}
ONE_PANEL = {
    "hinton": (np.eye(2), AB),
    "heat_map": (np.eye(2), AB, ("c", "d")),
    "rank_map": (np.eye(2), AB),
    "curves": ([0.0, 1.0], {"mig": np.ones((2, 1))}, "x"),
    "member_lines": (np.ones((2, 3)), ("bins=5", "bins=10")),
    "score_points": ({"mig": TABLE["mig"]}, ("a", "a", "b")),
    "top_codes": ([{"rank": 1, "code": 3, "value": 0.5, "share": 0.7, "low": 0.4, "high": 0.6}],),
    "loss_curves": ({"a": [np.ones(3)]}, 5, "loss"),
    "groups_curve": (np.array([1.0, 0.5]), np.array([2, 1]), np.array([2, 2])),
    "dendrogram": (np.array([[0, 1]]), np.array([0.5]), AB),
    "image_grid": (np.zeros((2, 3, 4, 4, 3)),),
    "roofline": (AB, [1e9, 2e9], [1e8, 1e9], [1.0, 2.0], 1e12, 1e13),
    "throughput": ([Row("mig", 1, 2.0), Row("mig", 2, 3.0)],),
}
PANELS = {
    "codes_and_factors": (np.eye(2), np.ones((9, 2)), np.ones((9, 2)), AB),
    "relation_panels": ([("t", np.eye(2))], AB, 2),
    "scores_by_regularization": (TABLE, np.arange(3), ["mig"]),
    "violins": (TABLE, ["mig"]),
    "scatter_matrix": (TABLE, ["mig"], ["mig"]),
    "point_clouds": ([("x", "y", np.ones(3), np.ones(3))],),
    "resources": ((1, 2), {"mig": np.ones((1, 1))}, {"mig": np.ones(2)}),
}


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer pixels are drawn faster."""
    monkeypatch.setattr(plots, "SHARPNESS", 30)


def test_images_of_bytes_are_those_of_floats():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4, 3), dtype=np.uint8)
    drawn, same, other = (png(plots.image_grid(each)) for each in (images, images / 255, images / 510))
    assert drawn == same != other


def test_names_are_no_mathematics():
    hostile = r"$\frac{$"
    names = {name: np.ones((2, 1)) for name in (hostile, "_hidden", "a$b$c")}
    assert png(plots.curves([0.0, 1.0], names, hostile, hostile)).startswith(b"\x89PNG")
    assert not plots.text("_hidden").startswith("_")
    assert png(plots.loss_curves({hostile: [np.ones(3)]}, 5, hostile)).startswith(b"\x89PNG")
    assert png(plots.hinton(np.eye(2), (hostile, "a"))).startswith(b"\x89PNG")


def test_every_function_is_tried_here():
    assert {*ONE_PANEL, *PANELS, "violins_by_regularization"} == set(plots.__all__)


@pytest.mark.parametrize("name", [*ONE_PANEL, *PANELS])
@pytest.mark.filterwarnings("ignore:No artists with labels")  # of a legend without entries
def test_pictures_are_figures_in_any_format(name):
    figure = getattr(plots, name)(*(ONE_PANEL | PANELS)[name])
    assert isinstance(figure, matplotlib.figure.Figure)
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    assert file.getvalue().startswith(b"<?xml")
    assert figure._repr_png_().startswith(b"\x89PNG")  # in a notebook


def spoiled(argument, number: float, every: int):
    """The argument with a number for each ``every``-th of its own."""
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "f":
        return np.where(np.arange(argument.size).reshape(argument.shape) % every, argument, number)
    if isinstance(argument, tuple | list) and not isinstance(argument, Row):
        return type(argument)(spoiled(each, number, every) for each in argument)
    if isinstance(argument, dict):
        return {name: spoiled(each, number, every) for name, each in argument.items()}
    return number if isinstance(argument, float) else argument


@pytest.mark.parametrize(("number", "every"), [(np.nan, 1), (np.nan, 2), (np.inf, 2)])
@pytest.mark.parametrize("name", [*ONE_PANEL, *PANELS])
@pytest.mark.filterwarnings("ignore:No artists with labels")
def test_numbers_that_are_not_finite_are_left_out(name, number, every):
    """A report on models whose trainings all diverged, and that of one alone."""
    arguments = (ONE_PANEL | PANELS)[name]
    assert png(getattr(plots, name)(*spoiled(arguments, number, every))).startswith(b"\x89PNG")


def test_the_losses_of_other_members_remain_after_one_has_stopped():
    (axes,) = plots.loss_curves({"a": [[3.0, 2.0, 1.0], [5.0, np.nan, np.nan]]}, 10, "loss").axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[10, 4], [20, 2], [30, 1]])


@pytest.mark.parametrize("name", ONE_PANEL)
@pytest.mark.filterwarnings("ignore:No artists with labels")
def test_pictures_of_one_panel_are_drawn_on_given_axes(name):
    figure = matplotlib.figure.Figure()
    left, right = figure.subplots(1, 2)
    assert getattr(plots, name)(*ONE_PANEL[name], ax=right) is figure
    assert not left.has_data()
    with pytest.raises(ValueError, match="ax: must be axes of matplotlib, got 3"):
        getattr(plots, name)(*ONE_PANEL[name], ax=3)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (
            lambda: plots.hinton(np.ones(3), ["a"]),
            r"strength: must be numbers \[codes, factors\], got an array of shape",
        ),
        (lambda: plots.hinton(np.eye(2), ("a", "b", "c")), "names: must be 2 names, got 3"),
        (lambda: plots.heat_map(np.eye(2), ["a"], ["b", "c"]), "rows: must be 2 names, got 1"),
        (
            lambda: plots.curves([1, 2], {"mig": np.ones((3, 1))}, "x"),
            r"must be numbers \[2 points, seeds",
        ),
        (
            lambda: plots.curves([1, 2], {"mig": np.ones(2)}, "x"),
            r"columns\['mig'\]: must be numbers \[2 ",
        ),
        (lambda: plots.violins({"mig": np.ones(3)}, ["mig"]), "table: must have a column 'model', got mig"),
        (lambda: plots.scatter_matrix(TABLE, ["mig"], ["sap"]), "table: must have a column 'sap', got model, mig"),
        (lambda: plots.violins(TABLE | {"mig": np.ones(2)}, ["mig"]), "table: must have columns of one length"),
        (lambda: plots.image_grid(np.ones((2, 4, 4, 3))), r"images: must be numbers \[rows, columns, h, w, c\]"),
        (lambda: plots.image_grid(np.ones((2, 1, 4, 4, 3)), ["a"]), "row_labels: must be 2 names, got 1"),
        (lambda: plots.dendrogram(np.eye(2), np.ones(2), AB), r"merges: must be numbers \[1 merges, 2 clusters\]"),
        (lambda: plots.scores_by_regularization(TABLE, np.ones(2), ["mig"]), "regularization: must be numbers .3 mem"),
        (
            lambda: plots.loss_curves({"a": [1.0, 2.0]}, 5, "loss"),
            r"curves\['a'\]: must be numbers \[members, ent",
        ),
    ],
)
def test_wrong_shapes_and_names_are_refused(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


def test_values_of_a_factor_bear_the_names_of_its_classes():
    factors = np.tile([[0, 0], [1, 2], [0, 1]], (3, 1))
    classes = (("heart", "square"), (4, 5, 9))
    figure = plots.codes_and_factors(np.eye(2), np.ones((9, 2)), factors, AB, classes)
    ticks = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes[-2:]]
    assert ticks == [["heart", "square"], []]


def test_results_draw_themselves():
    values = np.random.default_rng(0).integers(0, 3, (60, 2))
    zoo = np.stack([values, -values, values**2])
    scores = jaxdis.evaluate(zoo, values, ["mig", "mcc"], members=[{"model": name} for name in "aab"])
    (axes,) = scores.plot(by="model").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["mig", "mcc"]
    assert [entry.get_text() for entry in axes.get_legend().get_texts()] == ["a", "b"]
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    np.testing.assert_allclose(np.sort(drawn), np.sort(np.concatenate([scores["mig"], scores["mcc"]])))
    with pytest.raises(ValueError, match="by: must be one of member, model, got 'beta'"):
        scores.plot(by="beta")
    found = jaxdis.sample_curve(zoo, values, "mig", sizes=(5, 10))
    (axes,) = found.plot().axes
    np.testing.assert_allclose([line.get_ydata() for line in axes.lines], found.score.mean(axis=1).T)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["5 samples", "10 samples"]
    relation = jaxdis.relate(values, values, "correlation")
    (axes,) = relation.plot(["shape", "size"]).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["shape", "size"]
    alone = jaxdis.evaluate(values, values, "mig", bootstrap=3)
    (axes,) = alone.plot().axes
    (bounds,) = axes.collections
    np.testing.assert_allclose(bounds.get_segments()[0][:, 1], alone.interval("mig"), rtol=1e-6)
