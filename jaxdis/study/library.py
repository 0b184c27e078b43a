"""The studies of the library, as functions of their sizes; STUDIES lists them."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from jaxdis.data import DataSource
from jaxdis.evaluation.inputs import plan_of
from jaxdis.metrics import METRICS, Direct, Metric
from jaxdis.metrics.downstream import downstream_logistic
from jaxdis.metrics.generalization import novel_combination
from jaxdis.models import Config, Mlp, Vae
from jaxdis.models.presets import LOCATELLO_SWEEP, locatello2020, mahon2024
from jaxdis.spec import Spec
from jaxdis.study.certificate.calibration import SWEEPS, Calibration
from jaxdis.study.certificate.published import table_two_metrics
from jaxdis.study.definition import Sampling, Study, Training
from jaxdis.study.eastwood2018.study import eastwood2018

PARTS = ("cases", "sweeps", "sizes")
# The autoencoders of the quickstart see this many images, drawn once.
QUICK_POOL = 16_384
# What it leaves out: ensembles of trees but one, and a probe that NK trains too.
SLOW = ("dci", "dci_forest", "structured", "downstream_trees", "mlp_probe")


def quickstart(
    *,
    seeds: int = 2,
    steps: int = 1500,
    train_samples: int = 5000,
    test_samples: int = 2500,
    validation_samples: int = 0,
    data: Sequence[str] = ("dsprites",),
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """The whole pipeline in minutes: three objectives × two strengths × seeds of a small network on dSprites.

    Other data sets are possible. By default all metrics except :data:`SLOW` ones; DCI uses histogram splits, which take
    seconds where exact splits take minutes.
    """
    if metrics is None:
        metrics = {name: metric for name, metric in METRICS.items() if name not in SLOW}
        metrics["dci_histogram"] = METRICS["dci"].with_options(splitter="histogram")
    sweep = {
        "beta": {"beta": (1, 8), "learning_rate": 1e-3},
        "beta_tc": {"beta": (2, 8), "learning_rate": 1e-3},
        "dip_ii": {"lambda_off_diagonal": (1, 20), "learning_rate": 1e-3},
    }
    method = Vae(tuple(sweep), Mlp(), estimator="locatello2020")
    configs = [Config(name, (sources or {}).get(name), method, steps) for name in data]
    return Study.of(
        "quickstart",
        [Training.of(config, sweep, seeds, pool=QUICK_POOL) for config in configs],
        metrics,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title=f"Quickstart: three autoencoders at two strengths on {', '.join(data)}",
    )


def sober_look(
    *,
    seeds: int = 50,
    steps: int = 300_000,
    train_samples: int = 10_000,
    test_samples: int = 5_000,
    validation_samples: int = 0,
    data: Sequence[str] = ("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d"),
    network: str = "paper",
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Locatello et al. 2020, §5: six objectives × six settings × seeds × data sets.

    By default all metrics, and the downstream task of the paper. The data sets are those of the paper's eight that can
    be drawn without a file. ``network="mlp"`` trains in minutes on a laptop, on a pool of images drawn once.
    """
    trainings = []
    for name in data:
        shared, factor = locatello2020(name, seeds=1, steps=steps)
        strengths = {objective: rows for objective, rows in LOCATELLO_SWEEP.items() if objective != "factor"}
        for config, sweep in ((shared.config, strengths), (factor.config, {"factor": LOCATELLO_SWEEP["factor"]})):
            config, pool = _with_network(config, network, sources)
            trainings.append(Training.of(config, sweep, seeds, pool))
    plan = dict(plan_of("all" if metrics is None else metrics))
    if metrics is None:
        plan["downstream_logistic"] = Direct(Spec(downstream_logistic))
    return Study.of(
        "sober_look",
        trainings,
        plan,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title="Six objectives, six strengths, many seeds",
    )


_ARM_PAIRS = ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2))
# Combinations of Mahon et al. 2024, Tables 27 to 47, "NC size-shape": factors, then the pairs that are held out.
HELD_OUT = {
    "dsprites": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2))),
    "shapes3d": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1))),
    "mpi3d": (("object_size", "object_shape"), _ARM_PAIRS),
    "standin_arm": (("object_size", "object_shape"), _ARM_PAIRS),
}
# The ``Custom`` section of the code behind Mahon et al. 2024. Its β-TCVAE also warms up the dimension-wise KL, which
# the preset ``mahon2024`` does and a sweep cannot express.
MAHON_SETTINGS = {
    "beta": {"beta": 4, "learning_rate": 5e-4, "warmup_steps": 10_000},
    "beta_tc": {"beta": 6, "learning_rate": 5e-4},
    "factor": {"gamma": 6, "learning_rate": 5e-4, "discriminator_learning_rate": 5e-5, "warmup_steps": 10_000},
}
# Those of Mahon et al. 2024, Tables 2 and 7.
FLAWS_METRICS = ("snc", "nk", "linear_probe", "mlp_probe", "mig", "sap", "irs", "dci", "med")


def flaws(
    *,
    seeds: int = 5,
    steps: int = 1_152_000,
    train_samples: int = 10_000,
    test_samples: int = 5_000,
    validation_samples: int = 0,
    data: Sequence[str] = ("dsprites", "shapes3d"),
    network: str = "paper",
    combinations: int | None = None,
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Mahon et al. 2024, §5: SNC, NK and others, and how each correlates with accuracy on new combinations.

    Every member is trained without one combination of size and shape, and probes of its codes are evaluated on that
    combination. The objectives are β-VAE, β-TCVAE and FactorVAE (the paper also has PartedVAE and WeakDE). The paper's
    MPI3D needs a file; ``standin_arm`` may be used instead.

    Args:
      combinations: number of the paper's combinations per data set; all when None.
      network: ``mlp`` trains in minutes on a laptop, on a pool of images drawn once.
    """
    plan = dict(plan_of(FLAWS_METRICS if metrics is None else metrics))
    plan["novel_combination"] = Direct(Spec(novel_combination))
    trainings = []
    for name in data:
        if name not in HELD_OUT:
            raise ValueError(f"data: needs some of {', '.join(HELD_OUT)}, got {name!r}")
        names, pairs = HELD_OUT[name]
        for pair, preset in itertools.product(pairs[:combinations], mahon2024(name, seeds=1, steps=steps)):
            config, pool = _with_network(preset.config, network, sources)
            sweep = {name: MAHON_SETTINGS[name] for name in config.method.trained}
            trainings.append(Training.of(config, sweep, seeds, pool, dict(zip(names, pair, strict=True))))
    return Study.of(
        "flaws",
        trainings,
        plan,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title="What metrics miss, and what that costs on new combinations",
        novel=("novel_combination",),
    )


def calibration(
    *,
    seeds: int | None = None,
    train_samples: int | None = None,
    parts: Sequence[str] = PARTS,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Calibration:
    """Julka et al. 2024, §IV: to what each metric responds, by representations of known properties; trains nothing.

    Args:
      seeds: per representation; None: 25, and 10 of the curve over sizes.
      train_samples: samples per representation; None: the paper's numbers.
      parts: ``cases`` shows what each metric responds to; ``sweeps`` and ``sizes`` are curves.
      metrics: as of every study; or ``table2``, the metrics of the paper's Table II.
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
    if network not in ("paper", "mlp"):
        raise ValueError(f"network: needs 'paper' or 'mlp', got {network!r}")
    config = dataclasses.replace(config, source=(sources or {}).get(config.data))
    if network == "paper":
        return config, None
    return dataclasses.replace(config, method=dataclasses.replace(config.method, network=Mlp())), QUICK_POOL


STUDIES: dict[str, Callable[..., Study | Calibration]] = {
    "quickstart": quickstart,
    "sober_look": sober_look,
    "flaws": flaws,
    "calibration": calibration,
    "eastwood2018": eastwood2018,
}
