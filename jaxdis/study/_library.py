"""Studies by name, as functions of their sizes: the quickstart, and those that papers register."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxdis._core.options import Count, checked
from jaxdis.data import DataSource
from jaxdis.metrics import METRICS, Metric
from jaxdis.models import Config, Mlp, Vae
from jaxdis.study._definition import Sampling, Study, Training

# The autoencoders of the quickstart see this many images, drawn once.
QUICK_POOL = 16_384
# What it computes besides DCI: metrics that compile in seconds, at least two for each aspect.
QUICK_METRICS = ("mig", "mig_sup", "explicitness", "sap", "modularity", "factor_vae", "mcc", "total_correlation")
# Tried at six seeds: these differ by more than the noise of seeds, and each of the first two is best at something.
QUICK_SWEEP = {"beta": {"beta": (0.25, 4)}, "beta_tc": {"beta": (8,)}}


@checked
def quickstart(
    *,
    seeds: int = 5,
    steps: Count = 3000,
    train_samples: int = 3000,
    test_samples: int = 1500,
    validation_samples: int = 0,
    data: tuple[str, ...] = ("hearts",),
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """The whole pipeline in minutes: three settings × five seeds for a small autoencoder on hearts, scored, explained.

    Other data sets are possible; on larger images the same network takes longer and learns less. The default metrics
    are :data:`QUICK_METRICS`, and DCI by histogram splits, which take seconds where exact splits take minutes.
    """
    if metrics is None:
        metrics = {name: METRICS[name] for name in QUICK_METRICS}
        metrics["dci_histogram"] = METRICS["dci"].with_options(splitter="histogram")
    sweep = {name: {**settings, "learning_rate": 2e-3} for name, settings in QUICK_SWEEP.items()}
    method = Vae(tuple(sweep), Mlp((128, 128), num_codes=6), estimator="locatello2020")
    configs = [Config(name, (sources or {}).get(name), method, steps) for name in data]
    trainings = [Training.of(config, sweep, seeds, pool=QUICK_POOL) for config in configs]
    sampling = Sampling(train_samples, test_samples, validation_samples)
    title = f"Quickstart: autoencoders on {', '.join(data)}"
    return Study.of("quickstart", trainings, metrics, sampling=sampling, title=title)


# Papers, which stand above, add theirs when they are loaded, as for ``jaxdis.study.STUDIES``.
STUDIES: dict[str, Callable[..., Any]] = {"quickstart": quickstart}
