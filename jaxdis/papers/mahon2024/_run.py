"""What the reproduction of Mahon et al. 2024 runs: seven models without combinations of factors, and exact results."""

import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core.options import Count, checked
from jaxdis._core.spec import Spec
from jaxdis._learners.probes import Preset as ProbePreset
from jaxdis.data import DATASETS, DataSource, synthetic
from jaxdis.evaluation._evaluate import evaluate, relate
from jaxdis.metrics import METRICS, Direct, Metric
from jaxdis.metrics._generalization import novel_combination
from jaxdis.metrics._plan import plan_of
from jaxdis.models import Config, Members, members
from jaxdis.models.methods import _weak_de as weak
from jaxdis.models.methods._labelled_partition import LabelledPartition
from jaxdis.models.methods._method import Method
from jaxdis.models.methods._parted_vae import PartedVae, Plateau
from jaxdis.models.methods._vae import DiscriminatorTraining, Vae
from jaxdis.models.methods._weak_de import WeakDe
from jaxdis.models.networks._architectures import Discriminator, burgess
from jaxdis.models.objectives._losses import Hyperparameters
from jaxdis.papers.harness import Finished, Piece, Preset, Run
from jaxdis.papers.harness._paper import Size, Sources
from jaxdis.papers.harness._scale import HALF_SIZE, small
from jaxdis.relations._relation import Relation
from jaxdis.scores import SCORES
from jaxdis.study._definition import Sampling, Study, Training

# In the order of the paper's tables; the last, which is not MTD, stands where Tables 3 and 45 to 47 have MTD.
MODELS = ("beta", "beta_tc", "factor", "parted_vae", "parted_vae_ss", "weak_de", "labelled_partition")
# The data sets of the paper; the last needs a file.
DATA = ("dsprites", "shapes3d", "mpi3d")
# Epochs of the released WeakDE with the uniform prior, of all its epochs.
_WARM_UP = {"dsprites": 1000 / 6000, "shapes3d": 5000 / 15_001, "mpi3d": 5000 / 15_001}


def method(model: str, data: str, *, as_released: bool = True) -> Method:
    """A model as the paper trains it on a data set.

    β-VAE, β-TCVAE and FactorVAE have "all default parameters as specified in the code". The paper does not state how
    many codes PartedVAE and WeakDE have on Shapes3D and MPI3D, nor WeakDE's classes on MPI3D: these are inferred.

    ``as_released``: FactorVAE as its code runs it: its encoder also minimizes the discriminator's loss, and the
    discriminator has five hidden layers where its documentation has six. Its weights start as the autoencoder's do
    (``kaiming``) in either case. WeakDE is trained as its code intends in either case: see :func:`weak_de`.
    """
    if model not in MODELS:
        raise ValueError(f"model: must be one of {', '.join(MODELS)}, got {model!r}")
    if data not in DATA:
        raise ValueError(f"data: must be some of {', '.join(DATA)}, got {data!r}")
    if model in ("beta", "beta_tc", "factor"):
        training = DiscriminatorTraining(
            order="split_batch",
            encoder_sees_discriminator=as_released,
            clip=False,
            network=Discriminator(layers=5 if as_released else 6, initialization="kaiming"),
        )
        return Vae(model, burgess(), estimator="mahon2024", discriminator=training)
    if model == "weak_de":
        return weak_de(data)
    if model == "labelled_partition":
        return LabelledPartition(DATASETS[data].space.sizes)
    return parted_vae(data, labelled=model == "parted_vae_ss")


def parted_vae(data: str, *, labelled: bool = False) -> PartedVae:
    """PartedVAE with a category for the shape: as released for dSprites, inferred for the other data sets."""
    if data == "dsprites":
        return PartedVae(labelled=labelled)
    shapes, position, num_z = (4, 4, 6) if data == "shapes3d" else (6, 1, 7)
    return PartedVae(
        num_z=num_z,
        priors=((1 / shapes,) * shapes,),
        labelled=labelled,
        label_factors=(position,),
        plateau=Plateau(patience=2),
        labelled_plateau=Plateau(patience=2, threshold=0.1, cooldown=3, smallest_change=1e-6),
    )


def weak_de(data: str, *, as_released: bool = False) -> WeakDe:
    """WeakDE with the released sizes for dSprites and Shapes3D; those of Shapes3D are taken for MPI3D.

    ``as_released``: with zeroed labels and, except on dSprites, without adversary, as in the released configuration.
    """
    if data == "dsprites":
        return WeakDe(as_released=as_released)
    on_shapes = data == "shapes3d"
    return WeakDe(
        dataclasses.replace(weak.RELEASED, channels=(64,) * 4, decoder_channels=(64,) * 4),
        num_codes=16,
        classes=weak.SHAPES3D_CLASSES if on_shapes else weak.MPI3D_CLASSES,
        relations=weak.SHAPES3D_RELATIONS if on_shapes else weak.MPI3D_RELATIONS,
        num_labelled=30 * 1024,
        adversarial=not as_released,
        as_released=as_released,
    )


def settings(model: str, data: str, steps: int) -> dict[str, float]:
    """The settings for a model's variant that trains for ``steps`` updates.

    β-VAE and FactorVAE have those in the section ``Custom`` of their code. Schedules are scaled by ``steps`` /
    :func:`updates`; at full length, these two warm up over 10,000 updates and PartedVAE's capacities rise over 300,000.
    WeakDE's warm-up takes its released share.
    """
    share = steps / updates(model, data)
    warm = {"learning_rate": 5e-4, "warmup_steps": 10_000 * share}
    rate = 1e-4 if data == "dsprites" else 1e-5
    capacities = {"capacity_steps": 300_000 * share}
    return {
        "beta": {"beta": 4.0, **warm},
        "beta_tc": {"beta": 6.0, "learning_rate": 5e-4},
        "factor": {"gamma": 6.0, "discriminator_learning_rate": 5e-5, **warm},
        "parted_vae": capacities,
        "parted_vae_ss": capacities,
        "weak_de": {"learning_rate": rate, "warmup_steps": float(int(steps * _WARM_UP[data]))},
    }.get(model, {})


def updates(model: str, data: str) -> int:
    """100 epochs over all images, 10 for the labelled partition (as for MTD); the last batch of an epoch may be
    smaller.

    These are 1,152,000 updates on dSprites and 750,000 on Shapes3D, and less for WeakDE's batch size 1024. For MPI3D,
    the paper states a tenth of the published images; all of these are used here.
    """
    epochs = 10 if model == "labelled_partition" else 100
    return epochs * -(-DATASETS[data].space.num_lattice // method(model, data).batch_size)


@checked
def published_runs(
    data: str = "dsprites",
    *,
    seeds: int | Sequence[int] = 5,
    steps: int | None = None,
    section: Literal["custom", "dsprites"] = "custom",
    as_released: bool = True,
) -> tuple[Run, ...]:
    """Mahon et al. (2024), §5: β-VAE, β-TCVAE, FactorVAE, PartedVAE without and with labels, WeakDE.

    See :func:`method` for what is stated and what is inferred. FactorVAE doubles both epochs and batch, so that it has
    as many updates. β-TCVAE is trained by its three parts, reconstruction + I + β·TC + a(t)·DWKL, with
    the estimator ``mahon2024``: where only the last part is warmed up, the estimator changes their balance.

    Args:
      data: one of :data:`DATA`.
      seeds: how many seeds (0, 1, …), or the seeds themselves.
      steps: updates of each member; None: 100 epochs.
      section: which section in their code sets the first three, which the paper leaves open; only ``custom`` exists for
        all data sets.
      as_released: as in :func:`method`.
    """
    runs = []
    for model in MODELS[:-1]:
        count = steps or updates(model, data)
        values = settings(model, data, count)
        if section == "dsprites" and model == "factor":
            values |= {"gamma": 6.4, "learning_rate": 1e-4, "discriminator_learning_rate": 1e-4}
        config = Config(data, method=method(model, data, as_released=as_released), steps=count)
        run_members = members({model: {} if model == "beta_tc" else values}, seeds, config.method)
        if model == "beta_tc":  # by its three parts: Chen et al. 2018, eq. 4
            beta = 6 if section == "custom" else 6.4
            weights = {"mutual_information": 1.0, "total_correlation": beta, "dimension_wise_kl": 1.0}
            parts = Hyperparameters(learning_rate=5e-4, kl=0.0, warmup_steps=10_000, **weights)
            # As many members, with the same seeds.
            labels = [{"model": model, "beta": float(beta), "seed": row["seed"]} for row in run_members.labels]
            columns = Hyperparameters(*(np.full(len(labels), value, np.float32) for value in parts))
            run_members = Members(run_members.keys, columns, tuple(labels))
        runs.append(Run(config, run_members))
    return tuple(runs)


PRESET = Preset.described(published_runs, __package__)


# Those of Mahon et al. 2024, Tables 2 and 7.
NAMES = ("snc", "nk", "linear_probe", "mlp_probe", "mig", "sap", "irs", "dci", "med")
# Of all cells, the share of the normal test set. The paper does not state it.
NORMAL_SHARE = 0.2
# Combinations of Mahon et al. 2024, Tables 27 to 47, "NC size-shape": factors, then the pairs that are held out.
HELD_OUT = {
    "dsprites": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2))),
    "shapes3d": (("scale", "shape"), ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1))),
    "mpi3d": (("object_size", "object_shape"), ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2))),
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
    models: tuple[str, ...] = MODELS,
    network: Literal["paper", "mlp"] = "paper",
    combinations: Count | None = None,
    probes: ProbePreset = "converged",
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Mahon et al. 2024, §5: SNC, NK and others, and how each correlates with accuracy on new combinations.

    Each of six models, and a labelled partition in place of MTD, is trained once per combination of size and shape
    without that combination, on which probes of its codes are evaluated. It is also trained on a random 80 % of all
    cells and evaluated on the others, the paper's "normal test set".

    Its report comes with Hinton diagrams of codes that encode two factors, in ``figures``; the paper's tables are on
    the page that ``jaxdis reproduce mahon2024`` writes.

    Args:
      seeds: number of seeds per model, for the normal test set.
      combination_seeds: number of seeds per model and combination; the paper has one.
      steps: updates of each member; None: 100 epochs of its data set (10 for the partition), or 4000 with perceptrons.
      data: None: dSprites, Shapes3D, and MPI3D if ``sources`` has its file.
      models: some of :data:`MODELS`.
      network: ``mlp`` trains in minutes on a laptop, on a pool of images drawn once.
      combinations: number of the paper's combinations per data set; all when None.
      probes: how the probes of NK, the accuracies and the new combinations are trained, a row of
        :data:`jaxdis._learners.probes.PRESETS`.
      metrics: None: those of the paper.
    """
    data = [name for name in DATA if name != "mpi3d" or name in (sources or {})] if data is None else data
    plan = dict(plan_of(NAMES if metrics is None else metrics)) | {"novel_combination": Direct(Spec(novel_combination))}
    for name, metric in plan.items():
        if "preset" in metric.all_options and metric == METRICS.get(name, metric):  # others have one of their own
            plan[name] = metric.with_options(preset=probes)
    trainings = []
    for name, model in itertools.product(data, models):
        trained, pool, count = method(model, name), None, steps
        if network == "mlp":
            trained, pool, count = small(trained), SMALL_POOL, SMALL_STEPS if steps is None else steps
        count = updates(model, name) if count is None else count
        config, sweep = Config(name, (sources or {}).get(name), trained, count), {model: settings(model, name, count)}
        names, pairs = HELD_OUT[name]
        for pair in pairs[:combinations]:
            held_out = dict(zip(names, pair, strict=True))
            trainings.append(Training.of(config, sweep, combination_seeds, pool, held_out))
        if seeds:
            trainings.append(Training.of(config, sweep, seeds, pool, held_out_share=NORMAL_SHARE))
    sampling = Sampling(train_samples, test_samples, validation_samples)
    title = "What metrics miss, and what that costs on new combinations"
    return Combinations.of("mahon2024", trainings, plan, sampling=sampling, title=title, novel=("novel_combination",))


SMALL_DATA = ("dsprites", "shapes3d")
# Without WeakDE, whose four networks take as long as all others together.
SMALL_MODELS = ("beta", "beta_tc", "factor", "parted_vae", "parted_vae_ss", "labelled_partition")
SMALL = {"seeds": 2, "combinations": 2, "steps": 1000, "train_samples": 2500, "test_samples": 1500}


def runs(size: Size, sources: Sources) -> dict[str, Study]:
    """The paper's study, or a small one: six models, two combinations and two random splits, perceptrons on 32 × 32."""
    if size == "paper":
        return {"combinations": mahon2024(sources=sources, probes="mahon2024_paper")}
    plan = {name: METRICS[name] for name in NAMES}
    plan["dci"] = plan["dci"].with_options(splitter="histogram")
    sources = dict.fromkeys(SMALL_DATA, HALF_SIZE) | dict(sources or {})
    how = {"data": SMALL_DATA, "models": SMALL_MODELS, "network": "mlp", "probes": "mahon2024_paper"}
    return {"combinations": mahon2024(**SMALL, **how, sources=sources, metrics=plan)}


def pieces(size: Size) -> dict[str, Piece]:
    """What is exact or needs no training."""
    return {"toy": Piece(toy), "distributed": Piece(distributed), "times": Piece(times)}


def toy(finished: Mapping[str, Finished]) -> dict:
    """Table 1 from the exact populations of the two toy models, in percent.

    DCI is the mean of D, C and the accuracy .75, with importances 2 × accuracy − 1; MED the same with information in
    bits. SNC is not adjusted for chance there: accuracy − ½.
    """
    rows_by_model = {}
    for name in ("M1", "M2"):
        codes, factors = synthetic.toy_model(name)
        numbers, values = np.asarray(codes).astype(int), np.asarray(factors.values)
        accuracy = (numbers[:, :, None] == values[:, None, :]).mean(axis=0)
        bits = np.asarray(relate(codes, factors, "mutual_information").strength) / np.log(2)
        scores = evaluate(codes, factors, ("mig", "snc"), test=(codes, factors))
        aligned = scores.part("snc.code").astype(int)
        rows_by_model[name] = {
            "MIG": scores["mig"],
            "SAP": np.ptp(accuracy, axis=0).mean(),
            "DCI": _of_matrix(2 * accuracy - 1),
            "MED": _of_matrix(bits),
            "SNC": scores["snc"] / 2,
            "NK": _lost_without(aligned, numbers, values),
        }
    return {name: {metric: 100 * float(value) for metric, value in row.items()} for name, row in rows_by_model.items()}


def _of_matrix(strength: np.ndarray) -> float:
    """Mean of D, C and .75."""
    relation = Relation.of(jnp.asarray(strength, jnp.float32), jnp.ones(strength.shape[1]))
    score = SCORES["entropy"](relation)
    return float((score.disentanglement + score.completeness) / 3 + 0.25)


def _lost_without(aligned: np.ndarray, codes: np.ndarray, values: np.ndarray) -> float:
    """Mean over factors of the best accuracy of all codes minus that without the aligned code, on a population."""

    def best(columns, truth):
        _, cell = np.unique(columns, axis=0, return_inverse=True)
        counts = np.zeros((cell.max() + 1, 2))
        np.add.at(counts, (cell.ravel(), truth), 1)
        return counts.max(axis=1).sum() / len(truth)

    lost = [
        best(codes, values[:, j]) - best(np.delete(codes, code, axis=1), values[:, j]) for j, code in enumerate(aligned)
    ]
    return float(np.mean(lost))


def distributed(finished: Mapping[str, Finished], samples: int = 20_000) -> dict:
    """Theorem 3.1: D, C and the largest information in a code, for representations that grow.

    ``limit`` is the 95th percentile of the largest information of codes whose samples were permuted.
    """
    results_by_size = {}
    for n in (4, 8, 16):
        codes, factors = synthetic.distributed(n, 3, jax.random.key(n), samples)
        scores = evaluate(codes, factors, {"dci": METRICS["dci"].with_options(splitter="histogram")})
        order = np.stack([np.random.default_rng(seed).permutation(samples) for seed in range(20)])
        zoo = np.concatenate([np.asarray(codes)[None], np.asarray(codes)[order]])
        strength = np.stack([np.asarray(relate(own, factors, "mutual_information").strength).max() for own in zoo])
        results_by_size[str(n)] = {
            **{field: float(scores[f"dci.{field}"]) for field in ("disentanglement", "completeness")},
            "bound": 1 - 2 / np.log2(n),
            "information": float(strength[0]),
            "limit": float(np.percentile(strength[1:], 95)),
        }
    return results_by_size


def times(finished: Mapping[str, Finished], samples: int = 5000) -> dict:
    """CPU seconds that NK and DCI by boosted trees with exact splits take, compiled, on one member's codes."""
    zoo = finished["combinations"]
    codes, data = zoo.codes(np.arange(len(zoo.members)) == 0), str(zoo.table["data"][0])
    factors = zoo.factors(data)
    codes, factors = codes[0][:samples], factors.take(jnp.arange(min(samples, factors.num_samples)))
    metrics = {"nk": METRICS["nk"].with_options(preset="mahon2024_paper"), "dci": METRICS["dci"]}
    seconds = {}
    for name, metric in metrics.items():
        for _ in range(2):  # the first call compiles
            started = time.process_time()
            evaluate(codes, factors, {name: metric})
            seconds[name] = time.process_time() - started
    return seconds
