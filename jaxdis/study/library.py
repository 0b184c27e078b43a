"""The studies of the library, as functions of their sizes; STUDIES lists them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from jaxdis.data import DataSource
from jaxdis.metrics import METRICS, Direct, Metric
from jaxdis.metrics.downstream import downstream_logistic
from jaxdis.models import Config, Mlp, Vae, mahon, presets
from jaxdis.options import Count, checked
from jaxdis.spec import Spec
from jaxdis.study.certificate.calibration import SWEEPS, Calibration
from jaxdis.study.certificate.published import agreement_metrics, table_two_metrics
from jaxdis.study.dangnhu2022 import dangnhu2022
from jaxdis.study.definition import Sampling, Study, Training, study_plan
from jaxdis.study.eastwood2018.study import eastwood2018
from jaxdis.study.mahon2024.study import mahon2024

PARTS = ("cases", "sweeps", "sizes")
# Of all combinations, the share that Julka et al. 2024, §IV-F, keep for testing.
JULKA_SHARE = 0.1
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


@checked
def locatello2020(
    *,
    seeds: int = 50,
    steps: Count = 300_000,
    train_samples: int = 10_000,
    test_samples: int = 5_000,
    validation_samples: int = 0,
    data: tuple[str, ...] = ("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d"),
    network: Literal["paper", "mlp"] = "paper",
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Locatello et al. 2020, §5: six objectives × six settings × seeds × data sets.

    By default, it computes all metrics, scores of sampled codes, and the downstream task of the paper, on those of the
    paper's eight data sets that can be rendered without a file. ``network="mlp"`` trains in minutes on a laptop, on a
    pool of images drawn once.
    """
    trainings = []
    for name in data:
        shared, factor = presets.locatello2020(name, seeds=1, steps=steps)
        settings = {objective: rows for objective, rows in presets.LOCATELLO_SWEEP.items() if objective != "factor"}
        for config, sweep in (
            (shared.config, settings),
            (factor.config, {"factor": presets.LOCATELLO_SWEEP["factor"]}),
        ):
            config, pool = _with_network(config, network, sources)
            trainings.append(Training.of(config, sweep, seeds, pool))
    plan = dict(study_plan("all" if metrics is None else metrics))
    if metrics is None:
        plan |= sampled_scores()
        plan["downstream_logistic"] = Direct(Spec(downstream_logistic))
    return Study.of(
        "locatello2020",
        trainings,
        plan,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title="Six objectives, six regularization strengths, many seeds",
    )


def sampled_scores() -> dict[str, Metric]:
    """Scores that need only the codes, computed on one sample of each posterior instead of its mean."""
    names = ("total_correlation", "code_information")
    return {f"{name}_sampled": METRICS[name].with_options(representation="sampled") for name in names}


@checked
def julka2024(
    *,
    seeds: int = 5,
    steps: Count = 864_000,
    train_samples: int = 10_000,
    test_samples: int = 5_000,
    validation_samples: int = 0,
    data: tuple[str, ...] = ("shapes3d",),
    network: Literal["paper", "mlp"] = "paper",
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Julka et al. 2024, §IV-F: how metrics agree on β-VAE (four β) and FactorVAE (five γ), Figure 5.

    A random tenth of all combinations is never trained on; the held-out samples of all metrics are drawn from these.
    The default metrics are those of the figure, with the options of the paper (30 bins). The text has 5 seeds, the
    appendix 10. What the paper computes from synthetic representations is the study ``calibration``. ``network="mlp"``
    trains in minutes on a laptop, on a pool of images drawn once.
    """
    trainings = []
    for name in data:
        for run in presets.julka2024(name, seeds=1, steps=steps):
            config, pool = _with_network(run.config, network, sources)
            sweep = {"beta": {"beta": (2, 3, 4, 5)}, "factor": {"gamma": (2, 4, 6, 8, 10)}}[config.method.trained[0]]
            rows = {config.method.trained[0]: sweep}
            trainings.append(Training.of(config, rows, seeds, pool, held_out_share=JULKA_SHARE))
    return Study.of(
        "julka2024",
        trainings,
        agreement_metrics() if metrics is None else metrics,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title="Which metrics agree on β-VAE and FactorVAE",
    )


@checked
def calibration(
    *,
    seeds: int | None = None,
    train_samples: Count | None = None,
    parts: tuple[str, ...] = PARTS,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Calibration:
    """Julka et al. 2024, §IV: what each metric responds to, on representations with known properties; trains nothing.

    Args:
      seeds: number of seeds per representation; None: 25, and 10 for the curve over sizes.
      train_samples: samples per representation; None: the paper's numbers.
      parts: ``cases`` shows what each metric responds to; ``sweeps`` and ``sizes`` are curves.
      metrics: as in every study; or ``table2``, the metrics of the paper's Table II.
    """
    sizes = {} if seeds is None else {"seeds": seeds, "size_seeds": seeds}
    if (n := train_samples) is not None:
        smaller = tuple(size for size in (100, 1000, 10_000, 50_000) if size < n)
        sizes |= {"case_samples": n, "sweep_samples": n, "sizes": smaller, "full_size": n}
    left_out = {"cases": {"case_samples": 0}, "sweeps": dict.fromkeys(SWEEPS, ()), "sizes": {"sizes": ()}}
    for part in set(PARTS) - set(parts):
        sizes |= left_out[part]
    if metrics is not None and list(metrics) == ["table2"]:
        metrics = table_two_metrics()
    return Calibration.of("all" if metrics is None else metrics, **sizes)


def _with_network(config: Config, network: str, sources: Mapping[str, DataSource] | None) -> tuple[Config, int | None]:
    """The config with its file and the paper's network, or a small one with a pool of images."""
    config = dataclasses.replace(config, source=(sources or {}).get(config.data))
    if network == "paper":
        return config, None
    return dataclasses.replace(config, method=mahon.small(config.method)), QUICK_POOL


STUDIES: dict[str, Callable[..., Study | Calibration]] = {
    "quickstart": quickstart,
    "locatello2020": locatello2020,
    "mahon2024": mahon2024,
    "julka2024": julka2024,
    "calibration": calibration,
    "eastwood2018": eastwood2018,
    "dangnhu2022": dangnhu2022,
}
