"""What Eastwood & Williams 2018 claim about their tables, checked on the numbers of a study."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxdis.data._teapot import SPACE
from jaxdis.papers.harness._verdict import Finding, Part, findings, resampled
from jaxdis.study._definition import Member
from jaxdis.study._store import Store, number
from jaxdis.study.report._statistics import Interval

# Printed names of regressors → metrics of the study.
REGRESSORS = {"lasso": "lasso", "random_forest": "forest"}
# Quantities → scores of a metric, and its parts per code or factor.
_SCORES = {"disentanglement": "disentanglement", "completeness": "completeness", "error": "score"}
_PARTS = {"disentanglement": "per_code", "completeness": "per_factor", "error": "error"}


def name_of(label: dict) -> str:
    """Give the paper's name of a member's model: ``pca``, ``vae``, ``beta_vae`` or ``infogan``."""
    if label["model"] != "resnet_vae":
        return label["model"]
    return "vae" if label["beta"] == 1 else "beta_vae"


def scores_of(store: Store, member: Member) -> dict[str, dict]:
    """Read what the metrics of a member found, by metric: numbers, and lists."""
    fields_by_metric: dict[str, dict] = {}
    for score in member.scores:
        result = store.result("score", score)
        for name, value in {**result["columns"], **result["parts"]}.items():
            metric, _, field = name.partition(".")
            fields_by_metric.setdefault(metric, {})[field or "score"] = value
    return fields_by_metric


class Numbers(NamedTuple):
    """The scores of every model and seed, as :func:`scores_of` reads them."""

    scores: Mapping[str, Mapping[int, Mapping[str, Mapping]]]

    @classmethod
    def read(cls, store: Store, members: Sequence[Member]) -> "Numbers":
        scores: dict[str, dict] = {}
        for member in members:
            scores.setdefault(name_of(member.label), {})[member.label["seed"]] = scores_of(store, member)
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
        """Every model with every regressor."""
        return [(model, regressor) for model in self.models for regressor in REGRESSORS.values()]

    def mean(self, model: str, metric: str, quantity: str) -> np.ndarray:
        """Give one number per seed, NaN where there is none; empty for a model that the study lacks."""
        return self._per_seed(model, lambda scores: scores[metric][_SCORES[quantity]])

    def part(self, model: str, metric: str, quantity: str, name: str) -> np.ndarray:
        """Give that of one factor, or of one code (``c0``, …); empty for a code that models lack."""
        place = SPACE.names.index(name) if name in SPACE.names else int(name[1:])
        try:
            return self._per_seed(model, lambda scores: scores[metric][_PARTS[quantity]][place])
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
        return np.array([number(value(by_seed[seed])) if seed in by_seed else np.nan for seed in self.seeds])


def claims(numbers: Numbers, dead: np.ndarray, *, small: bool = False) -> list[Finding]:
    """Every claim that the models allow to check; seeds are resampled.

    ``dead`` holds the third smallest importance of InfoGAN's codes as a share of all, one per seed; a code that all ten
    share alike has .1, and one with less than .02 counts as dead. ``small``: say which claims the small form cannot
    show.
    """
    parts_by_claim = _of_scores(numbers) | _of_regressors(numbers) | _of_factors(numbers) | _of_unseen(numbers)
    if len(dead):
        parts_by_claim["infogan_dead"] = [_part("largest share of three codes", lambda: dead, below=0.02)]
    return findings(__package__, parts_by_claim, "teapots", small=small and "infogan" in numbers.models)


def _part(name: str, values: Callable[[], np.ndarray], **expected) -> Part:
    return Part(name, _over_seeds(values()), **expected)


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
            _part(f"{q}, {r}: the worst of others minus PCA", lambda r=r, q=q: better(r, q), above=0) for r, q in scores
        ]
    if len(numbers.vaes) == 2:
        parts_by_claim["vae_like_beta_vae"] = [
            _part(
                f"{q}, {r}",
                lambda r=r, q=q: np.abs(numbers.mean("vae", r, q) - numbers.mean("beta_vae", r, q)),
                below=0.05,
            )
            for r, q in scores
        ]
    if "infogan" in numbers.models:
        rest = [model for model in numbers.models if model != "infogan"]

        def lead(regressor, quantity, sign):
            ours = sign * numbers.mean("infogan", regressor, quantity)
            return ours - np.max([sign * numbers.mean(m, regressor, quantity) for m in rest], axis=0)

        parts_by_claim["infogan_best"] = [
            _part(f"{q}, {r}: InfoGAN minus the next", lambda r=r, q=q, s=s: lead(r, q, s), above=0)
            for r, q, s in (
                ("lasso", "disentanglement", 1),
                ("forest", "disentanglement", 1),
                ("lasso", "completeness", 1),
                ("forest", "completeness", 1),
                ("lasso", "error", -1),
            )
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

    def best_other():
        return np.min([errors[model, "forest"] for model in every if model not in vaes], axis=0)

    parts_by_claim = {
        "forest_below_lasso": [
            _part(f"{m}: error(forest) / error(lasso)", lambda m=m: ratio(m), below=1) for m in every
        ],
        "forest_scores_higher": [
            _part(f"{m}, {q}", lambda m=m, q=q: numbers.mean(m, "forest", q) - numbers.mean(m, "lasso", q), above=0)
            for m in every
            for q in ("disentanglement", "completeness")
        ],
    }
    if vaes and "pca" in every:
        parts_by_claim["forest_below_lasso"] += [
            _part(f"{m} minus PCA", lambda m=m: ratio(m) - ratio("pca"), below=0) for m in vaes
        ]
        parts_by_claim["lasso_vaes_near_pca"] = [
            _part(
                f"{m}: gain over PCA by lasso minus by forest",
                lambda m=m: gain(m, "lasso") - gain(m, "forest"),
                below=0,
            )
            for m in vaes
        ]
        parts_by_claim["forest_reads_vaes"] = [
            _part(f"{m} minus the best other", lambda m=m: errors[m, "forest"] - best_other(), below=0) for m in vaes
        ]
    return parts_by_claim


def _of_factors(numbers: Numbers) -> dict[str, list[Part]]:
    """Azimuth, which is circular."""
    return {
        "azimuth_hardest": [
            _part(
                f"{m}, {r}: azimuth minus the next",
                lambda m=m, r=r: _leads("azimuth", lambda f: numbers.error(m, r, f)),
                above=0,
            )
            for m, r in numbers.rows
        ],
        "azimuth_spread": [
            _part(
                f"{m}: completeness of azimuth minus the next lowest",
                lambda m=m: -_leads("azimuth", lambda f: -numbers.part(m, "forest", "completeness", f)),
                below=0,
            )
            for m in numbers.models
        ],
    }


def _of_unseen(numbers: Numbers) -> dict[str, list[Part]]:
    """Errors on the combinations that were left out."""

    def red(model, regressor):
        """By how much the error of red exceeds those of green and blue."""
        of = {c: numbers.error(model, regressor, c, unseen=True) for c in ("red", "green", "blue")}
        return of["red"] - np.maximum(of["green"], of["blue"])

    parts_by_claim = {
        "zero_shot_worse": [
            _part(f"{m}, {r}", lambda m=m, r=r: numbers.error(m, r, unseen=True) - numbers.error(m, r), above=0)
            for m, r in numbers.rows
        ],
        "zero_shot_red": [
            _part(f"{m}, {r}: red minus the larger of green and blue", lambda m=m, r=r: red(m, r), above=0)
            for m, r in numbers.rows
        ],
    }
    if numbers.vaes and "pca" in numbers.models:
        rivals = [m for m in numbers.models if m not in ("pca", *numbers.vaes)]
        pairs = [(m, "pca") for m in (*numbers.vaes, *rivals)] + list(itertools.product(numbers.vaes, rivals))
        parts_by_claim["zero_shot_vaes_best"] = [
            _part(
                f"{a} minus {'PCA' if b == 'pca' else b}",
                lambda a=a, b=b: numbers.error(a, "forest", unseen=True) - numbers.error(b, "forest", unseen=True),
                below=0,
            )
            for a, b in pairs
        ]
    return parts_by_claim


def _leads(factor: str, value: Callable[[str], np.ndarray]) -> np.ndarray:
    """By how much a factor exceeds the largest of the others, per seed."""
    return value(factor) - np.max([value(name) for name in SPACE.names if name != factor], axis=0)


def _over_seeds(values: np.ndarray):
    """The mean over seeds; for two seeds, its interval is their range."""
    if len(values) == 2 and np.isfinite(values).all():
        return Interval(float(values.mean()), float(values.min()), float(values.max()))
    return resampled(len(values), lambda rows: float(np.mean(values[rows])))
