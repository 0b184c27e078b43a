"""The page of Eastwood & Williams 2018: Tables 1, 3, 4 and 5, claims about them, and Figures 2 to 6."""

import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import plots
from jaxdis._core.store import publish
from jaxdis.data import DATASETS
from jaxdis.data._teapot import SPACE, Gap
from jaxdis.models._zoo import decodes, traversals
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, differences_in
from jaxdis.papers.harness._paper import Finished, Reproduction
from jaxdis.papers.harness._printed import Table, printed_in, words_in
from jaxdis.papers.harness._scale import Fact, Level
from jaxdis.papers.harness._verdict import Finding, Part, findings, resampled
from jaxdis.plots import Figure as Drawing
from jaxdis.plots import png
from jaxdis.study._compute_cells import member_zoo
from jaxdis.study.report._statistics import Interval

# Printed names of regressors → metrics of the study.
REGRESSORS = {"lasso": "lasso", "random_forest": "forest"}
# Quantities → parts of a metric, per code or factor.
_PARTS = {"disentanglement": "per_code", "completeness": "per_factor", "error": "error"}


def name_of(label: dict) -> str:
    """Give the paper's name of a member's model: ``pca``, ``vae``, ``beta_vae`` or ``infogan``."""
    if label["model"] != "resnet_vae":
        return label["model"]
    return "vae" if label["beta"] == 1 else "beta_vae"


class Numbers(NamedTuple):
    """The scores of every model and seed by column, and their parts, as :meth:`Finished.scores` reads them."""

    scores: Mapping[str, Mapping[int, tuple[Mapping, Mapping]]]

    @classmethod
    def read(cls, finished: Finished) -> "Numbers":
        scores: dict[str, dict] = {}
        for member in finished.members:
            scores.setdefault(name_of(member.label), {})[member.label["seed"]] = finished.scores(member)
        return cls(scores)

    @property
    def models(self) -> list[str]:
        return list(self.scores)

    @property
    def seeds(self) -> list[int]:
        return list(dict.fromkeys(seed for by_seed in self.scores.values() for seed in by_seed))

    @property
    def vaes(self) -> list[str]:
        return [model for model in ("vae", "beta_vae") if model in self.models]

    @property
    def rows(self) -> list[tuple[str, str]]:
        return [(model, regressor) for model in self.models for regressor in REGRESSORS.values()]

    def mean(self, model: str, metric: str, quantity: str) -> np.ndarray:
        """Give one number per seed, NaN where there is none; empty for a model that the study lacks."""
        column = metric if quantity == "error" else f"{metric}.{quantity}"
        return self._per_seed(model, lambda scores, _: scores[column])

    def part(self, model: str, metric: str, quantity: str, name: str) -> np.ndarray:
        """Give that of one factor, or of one code (``c0``, …); empty for a code that models lack."""
        place = SPACE.names.index(name) if name in SPACE.names else int(name[1:])
        try:
            return self._per_seed(model, lambda _, parts: parts[f"{metric}.{_PARTS[quantity]}"][place])
        except IndexError:
            return np.array([])

    def error(self, model: str, regressor: str, name: str = "mean", *, unseen: bool = False) -> np.ndarray:
        """Give the error of a factor or their mean, on test samples or on left-out combinations."""
        metric = f"{regressor}_unseen" if unseen else regressor
        return self.mean(model, metric, "error") if name == "mean" else self.part(model, metric, "error", name)

    def _per_seed(self, model: str, value) -> np.ndarray:
        by_seed = self.scores.get(model)
        if by_seed is None:
            return np.array([])
        return np.array([value(*by_seed[seed]) if seed in by_seed else np.nan for seed in self.seeds])


def claims(numbers: Numbers, dead: np.ndarray, *, small: bool = False) -> list[Finding]:
    """Every claim that the models allow to check; seeds are resampled.

    ``dead`` holds the third smallest importance of InfoGAN's codes as a share of all, one per seed; a code that all ten
    share alike has .1, and one with less than .02 counts as dead. ``small``: say which claims the small form cannot
    show.
    """
    parts_by_claim = _of_scores(numbers) | _of_regressors(numbers) | _of_factors(numbers) | _of_unseen(numbers)
    if len(dead):
        parts_by_claim["infogan_dead"] = [_part("largest share of three codes", dead, below=0.02)]
    return findings(__package__, parts_by_claim, "teapots", small=small and "infogan" in numbers.models)


def _part(name: str, values: np.ndarray, **expected) -> Part:
    """The mean over seeds; for two seeds, its interval is their range."""
    if len(values) == 2 and np.isfinite(values).all():
        return Part(name, Interval(float(values.mean()), float(values.min()), float(values.max())), **expected)
    return Part(name, resampled(len(values), lambda rows: float(np.mean(values[rows]))), **expected)


def _of_scores(numbers: Numbers) -> dict[str, list[Part]]:
    """Which models have the better scores."""
    others_than_pca = [model for model in numbers.models if model != "pca"]
    scores = [(r, q) for r in REGRESSORS.values() for q in ("disentanglement", "completeness", "error")]

    def better(regressor, quantity):
        """By how much the worse of the other models exceeds PCA in quality."""
        sign = -1 if quantity == "error" else 1
        ours = np.stack([sign * numbers.mean(model, regressor, quantity) for model in others_than_pca])
        return ours.min(axis=0) - sign * numbers.mean("pca", regressor, quantity)

    parts_by_claim: dict[str, list[Part]] = {}
    if "pca" in numbers.models and others_than_pca:
        parts_by_claim["pca_worst"] = [
            _part(f"{q}, {r}: the worst of others minus PCA", better(r, q), above=0) for r, q in scores
        ]
    if len(numbers.vaes) == 2:
        parts_by_claim["vae_like_beta_vae"] = [
            _part(f"{q}, {r}", np.abs(numbers.mean("vae", r, q) - numbers.mean("beta_vae", r, q)), below=0.05)
            for r, q in scores
        ]
    if "infogan" in numbers.models:
        rest = [model for model in numbers.models if model != "infogan"]

        def lead(regressor, quantity, sign):
            ours = sign * numbers.mean("infogan", regressor, quantity)
            return ours - np.max([sign * numbers.mean(m, regressor, quantity) for m in rest], axis=0)

        parts_by_claim["infogan_best"] = [
            *(
                _part(f"{q}, {r}: InfoGAN minus the next", lead(r, q, 1), above=0)
                for q in ("disentanglement", "completeness")
                for r in REGRESSORS.values()
            ),
            _part("error, lasso: InfoGAN minus the next", lead("lasso", "error", -1), above=0),
        ]
    return parts_by_claim


def _of_regressors(numbers: Numbers) -> dict[str, list[Part]]:
    """What the forest reads that the lasso does not."""
    errors = {(model, regressor): numbers.error(model, regressor) for model, regressor in numbers.rows}
    every, vaes = numbers.models, numbers.vaes

    def ratio(model):
        return errors[model, "forest"] / errors[model, "lasso"]

    def gain(model, regressor):
        return errors["pca", regressor] - errors[model, regressor]

    parts_by_claim = {
        "forest_below_lasso": [_part(f"{m}: error(forest) / error(lasso)", ratio(m), below=1) for m in every],
        "forest_scores_higher": [
            _part(f"{m}, {q}", numbers.mean(m, "forest", q) - numbers.mean(m, "lasso", q), above=0)
            for m in every
            for q in ("disentanglement", "completeness")
        ],
    }
    if vaes and "pca" in every:
        parts_by_claim["forest_below_lasso"] += [
            _part(f"{m} minus PCA", ratio(m) - ratio("pca"), below=0) for m in vaes
        ]
        parts_by_claim["lasso_vaes_near_pca"] = [
            _part(f"{m}: gain over PCA by lasso minus by forest", gain(m, "lasso") - gain(m, "forest"), below=0)
            for m in vaes
        ]
        best_other = np.min([errors[model, "forest"] for model in every if model not in vaes], axis=0)
        parts_by_claim["forest_reads_vaes"] = [
            _part(f"{m} minus the best other", errors[m, "forest"] - best_other, below=0) for m in vaes
        ]
    return parts_by_claim


def _of_factors(numbers: Numbers) -> dict[str, list[Part]]:
    """Azimuth, which is circular."""

    def leads(values: Callable[[str], np.ndarray]) -> np.ndarray:
        """By how much azimuth exceeds the largest of the others, per seed."""
        return values("azimuth") - np.max([values(name) for name in SPACE.names if name != "azimuth"], axis=0)

    hardest, spread = [], []
    for m, r in numbers.rows:
        found = leads(functools.partial(numbers.error, m, r))
        hardest.append(_part(f"{m}, {r}: azimuth minus the next", found, above=0))
    for m in numbers.models:
        found = -leads(lambda f, m=m: -numbers.part(m, "forest", "completeness", f))
        spread.append(_part(f"{m}: completeness of azimuth minus the next lowest", found, below=0))
    return {"azimuth_hardest": hardest, "azimuth_spread": spread}


def _of_unseen(numbers: Numbers) -> dict[str, list[Part]]:
    """Errors on the combinations that were left out."""

    def red(model, regressor):
        """By how much the error of red exceeds those of green and blue."""
        of = {c: numbers.error(model, regressor, c, unseen=True) for c in ("red", "green", "blue")}
        return of["red"] - np.maximum(of["green"], of["blue"])

    parts_by_claim = {
        "zero_shot_worse": [
            _part(f"{m}, {r}", numbers.error(m, r, unseen=True) - numbers.error(m, r), above=0) for m, r in numbers.rows
        ],
        "zero_shot_red": [
            _part(f"{m}, {r}: red minus the larger of green and blue", red(m, r), above=0) for m, r in numbers.rows
        ],
    }
    if numbers.vaes and "pca" in numbers.models:
        unseen = {model: numbers.error(model, "forest", unseen=True) for model in numbers.models}
        rivals = [m for m in numbers.models if m not in ("pca", *numbers.vaes)]
        pairs = [(m, "pca") for m in (*numbers.vaes, *rivals)] + list(itertools.product(numbers.vaes, rivals))
        parts_by_claim["zero_shot_vaes_best"] = [
            _part(f"{a} minus {'PCA' if b == 'pca' else b}", unseen[a] - unseen[b], below=0) for a, b in pairs
        ]
    return parts_by_claim


def content(made: Reproduction) -> Content:
    finished = made.finished("teapots")
    numbers = Numbers.read(finished)
    printed = printed_in(__package__).tables
    models, sampled = ", ".join(numbers.models).replace("_", " "), finished.study.sampling.in_words()
    # The third smallest importance among each InfoGAN's codes under the forest, as a share.
    both = zip(finished.parts("forest.importance"), finished.table["model"], strict=True)
    importances = [part for part, model in both if model == "infogan"]
    dead = np.array([np.sort(part.sum(axis=1))[2] / part.sum() for part in importances])
    source = finished.study.trainings[0].config.source
    official = source is not None and source.checksum
    images = "of the official file, of which roles may share some" if official else "drawn with one lamp on black"
    here = Fact("§4.1", "teapots whose light and background are not published", images)
    return Content(
        f"{models}; {len(numbers.seeds)} seeds, scored on {sampled}.",
        [here, *differences_in(__package__)],
        claims(numbers, dead, small=made.size != "paper"),
        _tables(printed, numbers),
        _figures(made.out / "teapots"),
        levels=_levels(printed["table_1"], numbers),
    )


def _levels(printed: Table, numbers: Numbers) -> list[Level]:
    """Error of the lasso, which falls with training."""
    levels = []
    for row in printed.rows:
        model = row.key["model"]
        if row.key["regressor"] == "lasso" and model in numbers.models:
            measured = float(np.mean(numbers.mean(model, "lasso", "error")))
            levels.append(Level(f"NRMSE by lasso, {model.replace('_', ' ')}", row.values["nrmse"], measured))
    return levels


def _tables(printed: dict[str, Table], numbers: Numbers) -> list[Beside]:
    tables = []
    for name, table in printed.items():
        by_forest = name[6] == "4" or name == "table_5b"

        def measure(row, column: str, name=name, other="forest" if by_forest else "lasso") -> Measured | None:
            regressor = REGRESSORS[row.key["regressor"]] if name == "table_1" else other
            values = _entry(name, column, numbers, row.key["model"], regressor)
            return Measured.over(values) if len(values) else None

        codes = " Which code is which is arbitrary." if name in ("table_3a", "table_4a") else ""
        tables.append(Beside.of(table, measure, f"Means and standard deviations over seeds.{codes}"))
    return tables


def _entry(table: str, column: str, numbers: Numbers, model: str, regressor: str) -> np.ndarray:
    """Our numbers of a printed cell, one per seed."""
    if table == "table_1":
        return numbers.mean(model, regressor, "error" if column == "nrmse" else column)
    is_mean = column in ("average", "weighted_average")
    if table.startswith("table_5"):
        return numbers.error(model, regressor, "mean" if is_mean else column, unseen=True)
    quantity = {"a": "disentanglement", "b": "completeness", "c": "error"}[table[-1]]
    return numbers.mean(model, regressor, quantity) if is_mean else numbers.part(model, regressor, quantity, column)


def _figures(folder: Path) -> list[Figure]:
    """Figures of the study, in order; those of single members for the first seed."""
    captions = words_in(__package__)["captions"]
    figures = []
    for path in sorted((folder / "figures").glob("figure_*.png")):
        number, *rest = path.stem.removeprefix("figure_").split("_")
        if len(rest) < 2 or rest[-1] == "0":
            of = f": {' '.join(rest[:-1])}" if rest else ""
            figures.append(Figure(f"Figure {number}", f"{captions[number]}{of}", path.read_bytes()))
    return figures


_COLUMNS = 10
# Values that a code takes: of a normal prior, and of a uniform one.
_REACH = {"resnet_vae": 3.0, "infogan": 1.0}


def factors_against_codes(codes: np.ndarray, factors: np.ndarray, importance: np.ndarray) -> Drawing:
    """Figure 5: factors ``[n, 5]`` against the most important ``codes [n, d]``, the azimuth against three of them."""
    order = np.argsort(-np.nan_to_num(importance), axis=0)
    pairs = [(0, code) for code in order[:3, 0]] + [(j, order[0, j]) for j in range(1, len(SPACE.names))]
    panels = [(f"code {code}", SPACE.names[j], codes[:5000, code], factors[:5000, j]) for j, code in pairs]
    return plots.point_clouds(panels)


def write_figures(finished: Finished) -> None:
    """Figures 2 and 4, and 3, 5 and 6 of every member, in the folder ``figures`` of the study."""
    study, store, folder = finished.study, finished.store, finished.store.root / "figures"
    folder.mkdir(exist_ok=True)

    def write(name: str, figure: Drawing) -> None:
        publish(folder / f"{name}.png", png(figure), replace=True)

    config, key = study.trainings[0].config, jax.random.key(study.sampling.seed)
    _, render = DATASETS[config.data].open(config.data, config.source)
    write("figure_2", _sheet(render, SPACE.sample(key, 2 * _COLUMNS)))
    # Teapots of the gap, the most extreme of many samples first.
    inside = np.asarray(SPACE.inside(Gap("released")).sample(key, 100 * _COLUMNS))
    redness = inside[:, 2] - np.maximum(inside[:, 3], inside[:, 4]) + inside[:, 1] / (np.pi / 2)
    write("figure_4", _sheet(render, inside[np.argsort(-redness)[: 2 * _COLUMNS]]))
    image = np.asarray(render(SPACE.sample(key, 1)))
    for member in finished.members:
        name, zoo = f"{name_of(member.label)}_{member.label['seed']}", member_zoo(study, store, member)
        (_, parts), arrays = finished.scores(member), store.arrays("encode", member.encode)
        for regressor in REGRESSORS.values():  # the forest is last
            importance = parts[f"{regressor}.importance"]
            write(f"figure_3_{regressor}_{name}", plots.hinton(importance, SPACE.names))
        write(f"figure_5_{name}", factors_against_codes(arrays["mean"], arrays["factors"], importance))
        if (reach := _REACH.get(zoo.config.method.trained[0])) is not None and decodes(zoo.config.method):
            # One code at a time over its range, ordered by the factor that the code encodes best.
            moved = traversals(zoo, image, values=np.linspace(-reach, reach, _COLUMNS))[0, 0]
            importance = np.nan_to_num(importance)
            best = importance.argmax(axis=1)
            order = np.lexsort((-importance.max(axis=1), best))
            sheet = plots.image_grid(moved[order], [f"c{code} {SPACE.names[best[code]]}" for code in order])
            write(f"figure_6_{name}", sheet)


def _sheet(render, factors) -> Drawing:
    images = np.asarray(render(jnp.asarray(factors)), np.float32)
    return plots.image_grid(images.reshape(-1, _COLUMNS, *images.shape[1:]))
