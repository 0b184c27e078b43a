"""The study of Locatello et al. 2020, §5, and its training runs: six objectives × six settings × seeds × data sets."""

from collections.abc import Mapping, Sequence
from typing import Literal

from jaxdis._core.options import Count, checked
from jaxdis._core.spec import Spec
from jaxdis.data import DataSource
from jaxdis.metrics import METRICS, Direct, Metric
from jaxdis.metrics._downstream import downstream_logistic
from jaxdis.models import About, Config, Vae, locatello, members
from jaxdis.papers.harness._presets import Preset, Run
from jaxdis.papers.harness._small_forms import with_network
from jaxdis.study._definition import Sampling, Study, Training, study_plan

# Locatello et al. (2020), Table 3.
SWEEP: dict[str, dict[str, tuple[float, ...]]] = {
    "beta": {"beta": (1, 2, 4, 6, 8, 16)},
    "annealed": {"capacity": (5, 10, 25, 50, 75, 100)},
    "factor": {"gamma": (10, 20, 30, 40, 50, 100)},
    "dip_i": {"lambda_off_diagonal": (1, 2, 5, 10, 20, 50)},
    "dip_ii": {"lambda_off_diagonal": (1, 2, 5, 10, 20, 50)},
    "beta_tc": {"beta": (1, 2, 4, 6, 8, 10)},
}


@checked
def runs(
    data: str = "dsprites",
    *,
    seeds: int | Sequence[int] = 50,
    steps: int = 300_000,
    as_released: bool = True,
    halve_factor_steps: bool = False,
    sweep: Mapping | None = None,
) -> tuple[Run, ...]:
    """Locatello et al. (2020): batch 64, ten codes, Adam at 1e-4, a Bernoulli decoder, and Tables 2 to 4.

    Their own estimator of total correlation is used. The runs are two compilations: the five objectives that share a
    loss, and FactorVAE.

    Args:
      data: a data set's name.
      seeds: how many seeds (0, 1, …), or the seeds themselves.
      steps: updates of each member.
      as_released: 2 × 2 kernels in the last two encoder convolutions; False: 4 × 4 kernels throughout, as in Table 2.
      halve_factor_steps: train FactorVAE for half the updates. In the released code both of its optimizers count the
        global step, so that training ends after 150,000 of 300,000 updates (according to the code; not verified by
        running it).
      sweep: fewer settings, in the form of :data:`SWEEP`.
    """
    sweep = SWEEP if sweep is None else sweep
    shared = {name: settings for name, settings in sweep.items() if name != "factor"}
    network = locatello(as_released=as_released)
    runs = []
    if shared:
        method = Vae(tuple(shared), network, estimator="locatello2020")
        config = Config(data, method=method, steps=steps)
        runs.append(Run(config, members(shared, seeds)))
    if "factor" in sweep:
        steps = steps // 2 if halve_factor_steps else steps
        config = Config(data, method=Vae("factor", network), steps=steps)
        runs.append(Run(config, members({"factor": sweep["factor"]}, seeds)))
    return tuple(runs)


PRESET = Preset(
    runs,
    About(
        "A Sober Look at Unsupervised Learning",
        "Six objectives with six settings each, on one data set.",
        ("locatello2020",),
    ),
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

    By default, it computes all metrics, scores on sampled codes, and the paper's downstream task, on those of its eight
    data sets that can be rendered without a file. ``network="mlp"`` trains in minutes on a laptop, on an image pool
    drawn once.
    """
    trainings = []
    for name in data:
        shared, factor = runs(name, seeds=1, steps=steps)
        settings = {objective: rows for objective, rows in SWEEP.items() if objective != "factor"}
        for config, sweep in (
            (shared.config, settings),
            (factor.config, {"factor": SWEEP["factor"]}),
        ):
            config, pool = with_network(config, network, sources)
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
