"""What the reproduction of Locatello et al. 2020 runs: one zoo is trained and analyzed in many ways."""

from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import numpy as np

from jaxdis._core.options import Count, checked
from jaxdis._core.spec import Spec
from jaxdis.data import DataSource, synthetic
from jaxdis.evaluation._evaluate import evaluate
from jaxdis.evaluation._sensitivity import sample_curve
from jaxdis.metrics import METRICS, Blend, Direct, Metric
from jaxdis.metrics._downstream import downstream_logistic
from jaxdis.models import Config, Vae, locatello, members
from jaxdis.papers.harness import Finished, Piece, Preset, Run
from jaxdis.papers.harness._paper import Size, Sources
from jaxdis.papers.harness._scale import HALF_SIZE, small, trainings_of
from jaxdis.scores import SCORES
from jaxdis.study._definition import QUICK_POOL, Sampling, Study, Training, study_plan

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
def published_runs(
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


PRESET = Preset.described(published_runs, __package__)


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
    published = [run for name in data for run in published_runs(name, seeds=1, steps=steps)]
    trainings = trainings_of(published, SWEEP, seeds, network, sources)
    plan = dict(study_plan("all" if metrics is None else metrics))
    if metrics is None:
        plan |= sampled_scores() | {"downstream_logistic": Direct(Spec(downstream_logistic))}
    sampling = Sampling(train_samples, test_samples, validation_samples)
    title = "Six objectives, six regularization strengths, many seeds"
    return Study.of("locatello2020", trainings, plan, sampling=sampling, title=title)


def sampled_scores() -> dict[str, Metric]:
    """Scores that need only the codes, computed on one sample of each posterior instead of its mean."""
    names = ("total_correlation", "code_information")
    return {f"{name}_sampled": METRICS[name].with_options(representation="sampled") for name in names}


# The paper's seven metrics by the columns of Table 5, and their columns here.
COLUMNS = ["beta_vae", "dci.disentanglement", "factor_vae", "irs", "mig", "modularity", "sap"]
SEVEN = {column.replace(".", "_"): column for column in COLUMNS}
# Scores that need no factors (Figures 8 and 28).
UNSUPERVISED = ("sample_reconstruction", "sample_kl", "sample_elbo", "total_correlation_sampled")
SPRITES = ("dsprites", "color_dsprites", "scream_dsprites", "noisy_dsprites")
# The relations of §6.1.1 by the metric that the paper makes of each, and the scores computed from all of them.
MATRICES = {"mi": "mutual_information", "svm": "svm_accuracy", "trees": "boosted_trees"}
AGGREGATIONS = {
    "gap": SCORES["gap"],
    "entropy": SCORES["entropy"],
    "modularity": SCORES["modularity"],
    "share": SCORES["concentration"].with_options(over="factors"),
    "groups": SCORES["independent_groups"],
}

SMALL_DATA = ("dsprites", "color_dsprites", "shapes3d")
# Lowest, middle and highest regularization strength of Table 3.
SMALL_SWEEP: Mapping[str, Mapping] = {
    "beta": {"beta": (1, 4, 16)},
    "annealed": {"capacity": (5, 25, 100)},
    "dip_i": {"lambda_off_diagonal": (1, 10, 50)},
    "dip_ii": {"lambda_off_diagonal": (1, 10, 50)},
    "beta_tc": {"beta": (1, 4, 10)},
    "factor": {"gamma": (10, 40, 100)},
}
SMALL_STEPS, SMALL_SEEDS, SMALL_RATE = 1000, 3, 1e-3
SMALL_SAMPLING = Sampling(3000, 1500)
SMALL_SIZES = (10, 100, 1000, 3000)
# Samples of each of the two runs whose rankings are compared (§6.2), and of the two smaller runs.
STABILITY = {"minutes": 2000, "paper": 10_000}
FEW_SAMPLES = 100
RENDERED = ("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d")
# Metrics whose runs are compared.
STABLE = ("beta_vae", "factor_vae", "mig", "dci", "irs", "modularity", "sap")


def runs(size: Size, sources: Sources) -> dict[str, Study]:
    """The paper's study, or a small one: three regularization strengths, three seeds, perceptrons, 32² pixels."""
    if size == "paper":
        data = tuple(dict.fromkeys((*RENDERED, *(sources or {}))))
        plan = metrics(exact=True, sizes=(10, 100, 1000, 10_000))
        return {"zoo": locatello2020(data=data, metrics=plan, sources=sources)}
    settings = {name: {**row, "learning_rate": SMALL_RATE} for name, row in SMALL_SWEEP.items()}
    settings["annealed"]["capacity_steps"] = SMALL_STEPS / 3
    shared = {name: row for name, row in settings.items() if name != "factor"}
    trainings = []
    for data in SMALL_DATA:
        for sweep in (shared, {"factor": settings["factor"]}):
            method = small(Vae(tuple(sweep), estimator="locatello2020"))
            config = Config(data, (sources or {}).get(data, HALF_SIZE), method, SMALL_STEPS)
            trainings.append(Training.of(config, sweep, SMALL_SEEDS, pool=QUICK_POOL))
    plan = metrics(exact=False, sizes=SMALL_SIZES)
    title = "Six objectives, three regularization strengths, three seeds"
    return {"zoo": Study.of("locatello2020", trainings, plan, sampling=SMALL_SAMPLING, title=title)}


def metrics(*, exact: bool, sizes: tuple[int, ...]) -> dict[str, Metric]:
    """What the paper measures: seven metrics, three relations under every score, dependence, and downstream tasks."""
    splitter = {} if exact else {"splitter": "histogram"}
    plan: dict[str, Metric] = {name: METRICS[name] for name in STABLE}
    plan["dci"] = plan["dci"].with_options(**splitter)
    for short, relation in MATRICES.items():
        for name, score in AGGREGATIONS.items():
            blend = Blend(relation, score)
            plan[f"{short}_{name}"] = blend.with_options(**splitter) if short == "trees" else blend
    plan |= {name: METRICS[name] for name in ("total_correlation", "code_information")} | sampled_scores()
    plan["downstream_logistic"] = Direct(Spec(downstream_logistic)).with_options(sizes=sizes)
    plan["downstream_trees"] = METRICS["downstream_trees"].with_options(sizes=sizes, **splitter)
    return plan


def pieces(size: Size) -> dict[str, Piece]:
    """Rankings of two runs, on dSprites alone in the small form; and what the impossibility theorem constructs."""
    small = (("data", SMALL_DATA[:1]),) if size == "minutes" else ()
    options = (("samples", STABILITY[size]), ("exact", size == "paper"), *small)
    return {"stability": Piece(stability, options), "impossibility": Piece(impossibility)}


def stability(finished: Mapping[str, Finished], samples: int, exact: bool, data: tuple[str, ...] = ()) -> dict:
    """Members' scores in two runs of each metric, ``[2, m]``, by data set, metric and sample size.

    The runs share no samples: twice as many are drawn and encoded anew.
    """
    zoo, scores_by_data = finished["zoo"], {}
    plan = metrics(exact=exact, sizes=(10,))
    present = dict.fromkeys(map(str, zoo.table["data"]))
    for name in [name for name in data if name in present] or present:
        codes, factors = zoo.encoded(name, 2 * samples)
        for metric in STABLE:
            curve = sample_curve(codes, factors, plan[metric], sizes=(min(FEW_SAMPLES, samples // 2), samples))
            scores = dict(zip(("smaller", "larger"), curve.score.tolist(), strict=True))
            scores_by_data.setdefault(name, {})[metric] = scores
    return scores_by_data


def impossibility(finished: Mapping[str, Finished], samples: int = 20_000) -> dict:
    """Theorem 1: scores for factors and for entangled codes with the same distribution."""
    scores_by_size = {}
    for k in (2, 3, 5):
        codes, factors = synthetic.entangled(0.2, jax.random.key(k), samples, num_factors=k)
        plan = {name: METRICS[name] for name in ("mig", "modularity", "sap", "total_correlation")}
        plan["dci"] = METRICS["dci"].with_options(splitter="histogram")
        both = np.stack([np.asarray(factors.values), np.asarray(codes)])
        scores = evaluate(both, factors.binned(10), plan)
        scores_by_size[str(k)] = {column: values.tolist() for column, values in scores.items()}
    return scores_by_size
