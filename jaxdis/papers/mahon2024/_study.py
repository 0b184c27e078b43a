"""The study ``mahon2024``: models trained without a combination of factors, and models trained on a random share."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from jaxdis._core.options import Count, checked
from jaxdis._core.spec import Spec
from jaxdis._learners.probes import Preset
from jaxdis.data import DataSource
from jaxdis.metrics import METRICS as BY_NAME
from jaxdis.metrics import Direct, Metric
from jaxdis.metrics._generalization import novel_combination
from jaxdis.metrics._plan import plan_of
from jaxdis.models import Config
from jaxdis.papers.harness._small_forms import small
from jaxdis.papers.mahon2024 import _models as mahon
from jaxdis.study._definition import Sampling, Study, Training

# Those of Mahon et al. 2024, Tables 2 and 7.
METRICS = ("snc", "nk", "linear_probe", "mlp_probe", "mig", "sap", "irs", "dci", "med")
# Of all cells, the share of the normal test set. The paper does not state it.
NORMAL_SHARE = 0.2
_ARM_PAIRS = ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2))
# Combinations of Mahon et al. 2024, Tables 27 to 47, "NC size-shape": factors, then the pairs that are held out.
HELD_OUT = {
    "dsprites": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2))),
    "shapes3d": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1))),
    "mpi3d": (("object_size", "object_shape"), _ARM_PAIRS),
    "standin_arm": (("object_size", "object_shape"), _ARM_PAIRS),
}
# With perceptrons: updates of every model, and images that are drawn once.
SMALL_STEPS, SMALL_POOL = 4000, 16_384


@dataclasses.dataclass(frozen=True)
class Combinations(Study):
    """A study whose results are also written as the paper's tables and figures."""


@checked
def mahon2024(
    *,
    seeds: int = 5,
    combination_seeds: int = 1,
    steps: Count | None = None,
    train_samples: int = 10_000,
    test_samples: int = 5_000,
    validation_samples: int = 0,
    data: tuple[str, ...] | None = None,
    models: tuple[str, ...] = mahon.MODELS,
    network: Literal["paper", "mlp"] = "paper",
    combinations: Count | None = None,
    probes: Preset = "converged",
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Mahon et al. 2024, §5: SNC, NK and others, and how each correlates with accuracy on new combinations.

    Each of six models, and a labelled partition in place of MTD, is trained once per combination of size and shape
    without that combination, on which probes of its codes are evaluated. It is also trained on a random 80 % of all
    cells and evaluated on the others, the paper's "normal test set".

    Its report comes with the paper's tables, in ``tables``, and with Hinton diagrams of codes that encode two factors,
    in ``figures``.

    Args:
      seeds: number of seeds per model, for the normal test set.
      combination_seeds: number of seeds per model and combination; the paper has one.
      steps: updates of each member; None: 100 epochs of its data set (10 for the partition), or 4000 with perceptrons.
      data: None: dSprites, Shapes3D, and MPI3D if ``sources`` has its file, else ``standin_arm``.
      models: some of :data:`jaxdis.papers.mahon2024._models.MODELS`.
      network: ``mlp`` trains in minutes on a laptop, on a pool of images drawn once.
      combinations: number of the paper's combinations per data set; all when None.
      probes: how the probes of NK, the accuracies and the new combinations are trained, a row of
        :data:`jaxdis._learners.probes.PRESETS`.
      metrics: None: those of the paper.
    """
    data = ("dsprites", "shapes3d", "mpi3d" if "mpi3d" in (sources or {}) else "standin_arm") if data is None else data
    plan = dict(plan_of(METRICS if metrics is None else metrics)) | {
        "novel_combination": Direct(Spec(novel_combination))
    }
    plan = {
        name: metric.with_options(preset=probes)
        if "preset" in metric.all_options and metric == BY_NAME.get(name, metric)
        else metric  # with a preset of its own
        for name, metric in plan.items()
    }
    trainings = []
    for name in data:
        for model in models:
            config, sweep, pool = _training(model, name, steps, network, sources)
            names, pairs = HELD_OUT[name]
            for pair in pairs[:combinations]:
                held_out = dict(zip(names, pair, strict=True))
                trainings.append(Training.of(config, sweep, combination_seeds, pool, held_out))
            if seeds:
                trainings.append(Training.of(config, sweep, seeds, pool, held_out_share=NORMAL_SHARE))
    return Combinations.of(
        "mahon2024",
        trainings,
        plan,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title="What metrics miss, and what that costs on new combinations",
        novel=("novel_combination",),
    )


def _training(model: str, data: str, steps: int | None, network: str, sources) -> tuple[Config, dict, int | None]:
    """The config of a model on a data set, its sweep of one setting, and its pool of images."""
    method = mahon.method(model, data)
    pool = None
    if network == "mlp":
        method, pool, steps = small(method), SMALL_POOL, SMALL_STEPS if steps is None else steps
    steps = mahon.updates(model, data) if steps is None else steps
    config = Config(data, (sources or {}).get(data), method, steps)
    return config, {model: mahon.settings(model, data, steps)}, pool
