"""The numbers in a teapot study that Eastwood & Williams 2018 print, and claim something about."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxdis.data._teapot import SPACE
from jaxdis.study._cells import Member
from jaxdis.study._store import Store, number

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
