"""Studies by name, as functions of their sizes: the quickstart, and those that papers register."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxdis._core.options import Count, checked
from jaxdis._core.registry import Registry
from jaxdis.data import DataSource
from jaxdis.metrics import METRICS, Metric
from jaxdis.models import Config, Mlp, Vae
from jaxdis.study._definition import Sampling, Study, Training

# The autoencoders of the quickstart see this many images, drawn once.
QUICK_POOL = 16_384
# What it computes besides DCI: metrics that compile in seconds, at least two for each aspect.
QUICK_METRICS = ("mig", "mig_sup", "explicitness", "sap", "modularity", "factor_vae", "mcc", "total_correlation")
# Between the reconstruction and the disentanglement of hearts, these find codes that differ most (tried at two seeds).
QUICK_SWEEP = {
    "beta": {"beta": (1, 4)},
    "beta_tc": {"beta": (4, 6)},
    "dip_ii": {"lambda_off_diagonal": (5,)},
}


@checked
def quickstart(
    *,
    seeds: int = 3,
    steps: Count = 3000,
    train_samples: int = 3000,
    test_samples: int = 1500,
    validation_samples: int = 0,
    data: tuple[str, ...] = ("hearts",),
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """The whole pipeline in minutes: five settings × seeds of a small autoencoder on hearts, scored and explained.

    Other data sets are possible; on larger images the same network takes longer and learns less. The default metrics
    are :data:`QUICK_METRICS`, and DCI by histogram splits, which take seconds where exact splits take minutes.
    """
    if metrics is None:
        metrics = {name: METRICS[name] for name in QUICK_METRICS}
        metrics["dci_histogram"] = METRICS["dci"].with_options(splitter="histogram")
    sweep = {name: {**settings, "learning_rate": 2e-3} for name, settings in QUICK_SWEEP.items()}
    method = Vae(tuple(sweep), Mlp((128, 128), num_codes=6), estimator="locatello2020")
    configs = [Config(name, (sources or {}).get(name), method, steps) for name in data]
    return Study.of(
        "quickstart",
        [Training.of(config, sweep, seeds, pool=QUICK_POOL) for config in configs],
        metrics,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title=f"Quickstart: autoencoders on {', '.join(data)}",
    )


# Papers add their studies when they are loaded, which the first look-up does.
STUDIES: Registry[Callable[..., Any]] = Registry("jaxdis.papers", {"quickstart": quickstart})
