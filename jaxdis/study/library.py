"""Studies that come with the library, as functions of their sizes; STUDIES lists them."""

from collections.abc import Callable, Sequence

from jaxdis.metrics import METRICS
from jaxdis.models import Config, Mlp
from jaxdis.models.presets import LOCATELLO_STRENGTHS, locatello2020
from jaxdis.study.grid import Sampling, Study, Training

# The autoencoders of the quickstart see this many images, drawn once.
QUICK_POOL = 16_384


def quickstart(
    *, seeds: int = 2, steps: int = 1500, num_samples: int = 5000, metrics: Sequence[str] | None = None
) -> Study:
    """The whole pipeline in minutes: three objectives × two strengths × seeds of a small network on dSprites.

    All metrics of the library unless named; DCI then takes histogram splits, which need seconds for exact ones' minutes.
    """
    if metrics is None:
        metrics = {name: metric for name, metric in METRICS.items() if name not in ("dci", "dci_forest")}
        metrics["dci_histogram"] = METRICS["dci"].with_options(splitter="histogram")
    sweep = {
        "beta": {"beta": (1, 8), "learning_rate": 1e-3},
        "beta_tc": {"beta": (2, 8), "learning_rate": 1e-3},
        "dip_ii": {"lambda_off_diagonal": (1, 20), "learning_rate": 1e-3},
    }
    config = Config(data="dsprites", objective=tuple(sweep), network=Mlp(), steps=steps, estimator="locatello")
    return Study.of(
        "quickstart",
        [Training.of(config, sweep, seeds, pool=QUICK_POOL)],
        metrics,
        sampling=Sampling(num_samples),
        title="Quickstart: three autoencoders at two strengths on dSprites",
    )


def sober_look(
    *,
    seeds: int = 50,
    steps: int = 300_000,
    num_samples: int = 10_000,
    data: Sequence[str] = ("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d"),
    metrics: Sequence[str] | None = None,
) -> Study:
    """Locatello et al. 2020, §5: six objectives × six strengths × seeds × data sets.

    The paper has eight data sets; the default are those that can be drawn without a file.
    """
    trainings = []
    for name in data:
        shared, factor = locatello2020(name, seeds=1, steps=steps)
        strengths = {objective: rows for objective, rows in LOCATELLO_STRENGTHS.items() if objective != "factor"}
        trainings.append(Training.of(shared.config, strengths, seeds))
        trainings.append(Training.of(factor.config, {"factor": LOCATELLO_STRENGTHS["factor"]}, seeds))
    return Study.of(
        "sober_look",
        trainings,
        metrics,
        sampling=Sampling(num_samples),
        title="Six objectives, six strengths, many seeds",
    )


STUDIES: dict[str, Callable[..., Study]] = {"quickstart": quickstart, "sober_look": sober_look}
