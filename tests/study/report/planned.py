"""The subject of a report with scores that are known."""

import numpy as np

from jaxdis import METRICS
from jaxdis.models import Config, Mlp, Vae
from jaxdis.study import Sampling, Study, Training
from jaxdis.study.report._subject import Subject

SEEDS = 4
CHOSEN = ("mig_sup", "mig", "explicitness")


def subject_of(columns: dict, data=("dsprites",), metrics=CHOSEN, seeds=SEEDS) -> Subject:
    """Three settings × seeds × data sets; ``columns[name]`` is ``[data, settings, seeds]``."""
    method = Vae(("beta", "beta_tc"), Mlp())
    sweep = {"beta": {"beta": (1, 4)}, "beta_tc": {"beta": 4}}
    trainings = [Training.of(Config(name, method=method, steps=10), sweep, seeds) for name in data]
    study = Study.of("planned", trainings, {name: METRICS[name] for name in metrics}, sampling=Sampling(100, 50))
    labels = [(name, model, beta, seed) for name in data for model, beta in SETTINGS for seed in range(seeds)]
    fields = zip(("data", "model", "beta", "seed"), zip(*labels, strict=True), strict=True)
    table = {"id": np.array([str(i) for i in range(len(labels))])}
    table |= {name: np.array(column, str if name in ("data", "model") else float) for name, column in fields}
    return Subject.of(study, table | {name: np.asarray(values, float).ravel() for name, values in columns.items()})


SETTINGS = (("beta", 1), ("beta", 4), ("beta_tc", 4))


def spread(means, noise=0.01) -> np.ndarray:
    """``[1, settings, seeds]`` around the means."""
    return np.asarray(means)[None, :, None] + noise * np.array([-1, 0, 0, 1.0])
