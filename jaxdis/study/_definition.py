"""A study as a value, and its cells: train → encode → score, each identified by what it depends on.

Studies have names, as functions of their sizes: the quickstart, and those that papers register.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxdis._core.display import html_table
from jaxdis._core.options import Count, Positive, Seed, check_fields, checked, checked_value, names_of
from jaxdis._core.store import cell_id, ids_of_children
from jaxdis._core.version import NUMERICS
from jaxdis.data import DATASETS, DataSource
from jaxdis.encoders._evaluate_slots import SLOT_METRICS, SlotMetric
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._between_members import SEED_METRICS, Udr
from jaxdis.metrics._metric import Column
from jaxdis.metrics._plan import NOT_IN_STUDIES, check_validation, plan_of
from jaxdis.models import Config, Members, Mlp, Slots, Vae, Variant, members
from jaxdis.models._config import describe
from jaxdis.models._members import MOST_MEMBERS, checked_sweep
from jaxdis.models.training._train import checked_keep

# Fewer are too few to evaluate on; more would not fit into memory.
FEWEST_SAMPLES, MOST_SAMPLES = 10, 10**8
ROLES = ("train", "test", "validation")
# Columns of a table of results that are no scores; settings, ``final_…`` losses of training and ``sample_…`` losses of
# the study's samples come beside them.
COLUMNS = frozenset({"id", "data", "model", "updates", "seed", "held_out", "stopped"})
COLUMNS |= {f"{role}_samples" for role in ROLES}

# Trainings that are listed in text.
MOST_SHOWN = 5

Settings = tuple[tuple[str, tuple[float, ...]], ...]


@dataclasses.dataclass(frozen=True)
class Training:
    """Members that share one program.

    Attributes:
      config: the settings that they share.
      sweep: (variant, ((setting, values), …)), …: all combinations.
      seeds: for every combination.
      pool: train on this many images, drawn once from the data set; None draws new images for every batch.
      held_out: a combination of factor values, (name, class number) pairs, that is never trained on; metrics that need
        novel combinations are evaluated on it.
      held_out_share: the random share of all combinations that is never trained on; all metrics then draw their
        held-out samples from it.
      region: a region in the factors that is never trained on, a dataclass with plain values as in
        :meth:`jaxdis.data.FactorSpace.without`; metrics that need novel combinations are evaluated inside.
      correlated: (factor, factor, spread): arguments to :meth:`jaxdis.data.FactorSpace.correlated`.
      keep: after how many updates members are kept and scored, too, as in :func:`jaxdis.models.train`.
      labels: (column, text) pairs that tell these members from others with the same model, for example ``(("masks",
        "decoder"),)``. They are columns in the results; models that differ in them count as different.
    """

    config: Config
    sweep: tuple[tuple[str, Settings], ...]
    seeds: tuple[Seed, ...]
    pool: Count | None = None
    held_out: tuple[tuple[str, int], ...] = ()
    held_out_share: float = 0.0
    region: Callable | None = None
    labels: tuple[tuple[str, str], ...] = ()
    correlated: tuple[tuple[str, str, Positive], ...] = ()
    keep: tuple[int, ...] = ()

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "keep", checked_keep(self.keep, self.config.steps, self.config.method.log_every))
        if self.held_out and self.region is not None:
            raise ValueError(f"region: needs a training without held_out, got both {self.region} and {self.held_out}")
        if not 0 <= self.held_out_share < 1:
            raise ValueError(f"held_out_share: must be a share from 0 to less than 1, got {self.held_out_share}")

    @classmethod
    @checked
    def of(
        cls,
        config: Config,
        sweep: Mapping[str, Mapping[str, Any]],
        seeds: int | Sequence[int],
        pool: Count | None = None,
        held_out: Mapping[str, int] | None = None,
        held_out_share: float = 0.0,
        region: Callable | None = None,
        labels: Mapping[str, str] | None = None,
        correlated: Sequence[tuple[str, str, float]] = (),
        keep: Sequence[int] = (),
    ) -> "Training":
        if isinstance(seeds, int) and not 0 < seeds <= MOST_MEMBERS:
            raise ValueError(f"seeds: must be 1 to {MOST_MEMBERS:,}, got {seeds:,}")
        seeds, _ = checked_sweep(sweep, seeds, config.method)
        rows = tuple(
            (name, tuple((setting, tuple(map(float, np.atleast_1d(values)))) for setting, values in settings.items()))
            for name, settings in sweep.items()
        )
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds: must be distinct seeds, got {seeds}")
        held, texts = (tuple((given or {}).items()) for given in (held_out, labels))
        pairs = tuple(map(tuple, correlated))
        return cls(config, rows, seeds, pool, held, float(held_out_share), region, texts, pairs, tuple(keep))

    @property
    def has_novel(self) -> bool:
        """Whether combinations are left out on which metrics that need novel combinations are evaluated."""
        return bool(self.held_out) or self.region is not None

    def members(self) -> Members:
        trained = members({name: dict(settings) for name, settings in self.sweep}, self.seeds, self.config.method)
        texts = dict(self.labels)
        if self.held_out:
            texts["held_out"] = ", ".join(f"{name} {value}" for name, value in self.held_out)
        return trained._replace(labels=tuple({**label, **texts} for label in trained.labels))

    def describe(self) -> dict:
        """The training as plain data."""
        always = {name: getattr(self, name) for name in ("sweep", "seeds", "pool", "held_out", "held_out_share")}
        if_any = {"labels": dict(self.labels), "keep": self.keep}
        found = {name: value for name, value in if_any.items() if value}
        return {"config": describe(self.config), **always, **restrictions_of(self), **found}


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The samples on which a zoo is scored: drawn from the data set, the same for all members.

    Attributes:
      train: samples on which metrics are computed, and on which probes and other learners are trained.
      test: held-out samples, drawn independently, on which learners are evaluated.
      validation: samples drawn independently of both, like those of training, on which metrics choose options that were
        given several values; 0 for none.
      seed: random seed for all three.
      groups: for representations by slots, in how many local groups, each with similar scenes, ``train`` samples are
        drawn (Dang-Nhu 2022, Algorithm 2); 1 draws scenes independently.
    """

    train: int = 10_000
    test: int = 5_000
    validation: int = 0
    seed: Seed = 0
    groups: Count = 1

    def __post_init__(self):
        check_fields(self)
        for role in ROLES:
            size, or_none = getattr(self, role), role == "validation"
            if not FEWEST_SAMPLES <= size <= MOST_SAMPLES and not (or_none and size == 0):
                needed = f"{'0 or ' * or_none}{FEWEST_SAMPLES} to {MOST_SAMPLES:,}"
                raise ValueError(f"{role}_samples: must be {needed}, got {size:,}")
        if self.train % self.groups:
            raise ValueError(f"groups: must divide the {self.train:,} samples, got {self.groups}")

    def in_words(self) -> str:
        """``10,000 samples (learners are evaluated on 5,000 others)``."""
        choice = f", options chosen on {self.validation:,} more" if self.validation else ""
        return f"{self.train:,} samples (learners are evaluated on {self.test:,} others{choice})"


@dataclasses.dataclass(frozen=True)
class Study:
    """The members to train, the samples to score them on, and the metrics. Equal studies have equal cells.

    ``novel`` names the metrics that are trained on the samples and evaluated on the combination that a training held
    out, or on the held-out samples if it held out none.
    """

    name: str
    trainings: tuple[Training, ...]
    metrics: tuple[tuple[str, Metric | Udr | SlotMetric], ...]
    sampling: Sampling = Sampling()
    title: str = ""
    novel: tuple[str, ...] = ()

    def __post_init__(self):
        check_fields(self)
        self._check_kind()
        settings = {setting for training in self.trainings for _, row in training.sweep for setting, _ in row}
        labels = {name for training in self.trainings for name, _ in training.labels}
        if taken := labels & (COLUMNS | settings):
            raise ValueError(f"labels: need names other than those of columns, got {min(taken)!r}")
        columns = COLUMNS | settings | labels
        for name, _ in self.metrics:
            if name in columns or name.startswith(("final_", "sample_")):
                taken = f"{', '.join(sorted(columns))}, final_…, sample_…"
                raise ValueError(f"metrics: must have names other than those of columns ({taken}), got {name!r}")
        for training in self.trainings:
            data = training.config.data
            if data not in DATASETS:
                raise ValueError(f"data: must be one of {', '.join(DATASETS)}, got {data!r}")
            space = DATASETS[data].space_of(data, training.config.source)  # raises if its file is missing
            if training.held_out:
                space.without(dict(training.held_out))  # raises if there is no such combination
            elif training.region is not None:
                space.outside(training.region)  # raises if there is no such region
        if self.novel and not any(training.has_novel for training in self.trainings):
            raise ValueError(f"held_out: needs a combination for {', '.join(self.novel)}, got none")

    def __repr__(self) -> str:
        """``Study('mine', 2 metrics)``, and a line each for the first trainings."""
        rows = [f"  {method} on {data}: {count} members" for method, data, count in self._rows()[:MOST_SHOWN]]
        more = [f"  and {len(self.trainings) - MOST_SHOWN} more"] * (len(self.trainings) > MOST_SHOWN)
        return "\n".join([f"Study({self.name!r}, {len(self.metrics)} metrics)", *rows, *more])

    def _repr_html_(self) -> str:
        title = f"Study {self.name}: {', '.join(name for name, _ in self.metrics)}"
        return html_table(title, ["method", "data", "members"], self._rows())

    def _rows(self) -> list[tuple[str, str, int]]:
        """The method, the data and how many members, for every training."""
        configs = ((training.config, len(training.members().labels)) for training in self.trainings)
        return [(type(config.method).__name__, config.data, count) for config, count in configs]

    def _check_kind(self) -> None:
        """Check that all methods represent images by codes, or all by slots, and that the metrics suit them."""
        if not self.trainings:
            raise ValueError("trainings: must have at least one, got none")
        if same := [training.config.data for training in self.trainings if self.trainings.count(training) > 1]:
            raise ValueError(f"trainings: need to differ, got the same one on {same[0]} {len(same)} times")
        kinds = {training.config.method.represents for training in self.trainings}
        if len(kinds) > 1:
            raise ValueError("trainings: need methods that all represent images by codes or all by slots, got both")
        of_slots = {name for name, metric in self.metrics if isinstance(metric, SlotMetric)}
        if self.has_slots:
            if unfit := [name for name, _ in self.metrics if name not in of_slots]:
                raise ValueError(f"metrics: slots need metrics of slots ({', '.join(SLOT_METRICS)}), got {unfit[0]!r}")
            for training in self.trainings:
                if DATASETS.get(data := training.config.data) is not None and DATASETS[data].scenes is None:
                    with_scenes = ", ".join(name for name, row in DATASETS.items() if row.scenes is not None)
                    raise ValueError(f"data: slots need a data set of scenes ({with_scenes}), got {data!r}")
                if training.held_out or training.held_out_share:
                    raise ValueError("held_out: slots are scored on all scenes, got combinations that are held out")
            if self.sampling.train // self.sampling.groups < FEWEST_SAMPLES:
                needed = f"groups of at least {FEWEST_SAMPLES} of {self.sampling.train} samples"
                raise ValueError(f"groups: must be {needed}, got {self.sampling.groups}")
        elif of_slots:
            raise ValueError(f"metrics: {', '.join(sorted(of_slots))} need a method that represents images by slots")
        elif self.sampling.groups > 1:
            raise ValueError(f"groups: need a method that represents images by slots, got {self.sampling.groups}")
        else:
            check_validation(self.metrics_of_members, self.sampling.validation > 0)
            if unfit := [name for name in self.novel if name in dict(self.metrics_of_seeds)]:
                raise ValueError(f"novel: needs metrics of one member, got {unfit[0]!r}, which compares seeds")

    @property
    def metrics_of_members(self) -> tuple[tuple[str, Metric | SlotMetric], ...]:
        """The metrics that are computed from one member alone."""
        return tuple((name, metric) for name, metric in self.metrics if not isinstance(metric, Udr))

    @property
    def metrics_of_seeds(self) -> tuple[tuple[str, Udr], ...]:
        """The metrics that compare a setting's seeds."""
        return tuple((name, metric) for name, metric in self.metrics if isinstance(metric, Udr))

    @property
    def has_slots(self) -> bool:
        """Whether members represent images by slots rather than by one code vector."""
        return any(training.config.method.represents is Slots for training in self.trainings)

    @classmethod
    def of(cls, name: str, trainings: Sequence[Training], metrics=None, **fields) -> "Study":
        """``metrics``: names, a mapping from column names to metrics, or None for all metrics in the library."""
        metrics = "all" if metrics is None else metrics
        trainings = checked_value("trainings", tuple[Training, ...], trainings)
        if isinstance(metrics, Mapping) and any(isinstance(metric, SlotMetric) for metric in metrics.values()):
            plan = tuple(metrics.items())
        elif any(training.config.method.represents is Slots for training in trainings):
            plan = tuple((name, SLOT_METRICS[name]) for name in names_of(metrics, SLOT_METRICS, "metric"))
        else:
            plan = study_plan(metrics)
        return cls(name, trainings, plan, **fields)

    @property
    def variants(self) -> dict[str, Variant]:
        """All members' variants, by their names in the column ``model``."""
        methods = [training.config.method for training in self.trainings]
        return {name: row for method in methods for name, row in {**method.variants, **method.own_variants}.items()}

    def describe(self) -> dict:
        """The whole study as plain data, stored with its results and compared on resume."""
        return {
            "name": self.name,
            "numerics": NUMERICS,
            "trainings": [training.describe() for training in self.trainings],
            "novel": self.novel,
            "sampling": dataclasses.asdict(self.sampling),
            "metrics": {name: metric.describe() for name, metric in self.metrics},
        }


def study_plan(metrics) -> tuple[tuple[str, Metric | Udr], ...]:
    """Metrics for members and seeds, by name or as a mapping; ``"all"`` has no newer rows, so that studies stay."""
    if not isinstance(metrics, Mapping):
        table = METRICS | SEED_METRICS
        metrics = [name for name in table if name not in NOT_IN_STUDIES] if metrics == "all" else metrics
        metrics = {name: table[name] for name in names_of(metrics, table, "metric")}
    of_members = {name: metric for name, metric in metrics.items() if not isinstance(metric, Udr)}
    checked = dict(plan_of(of_members)) if of_members or not metrics else {}
    return tuple((name, checked.get(name, metric)) for name, metric in metrics.items())


def restrictions_of(training: Training) -> dict:
    """The region and the correlations as plain data, if there are any: cells without them keep their ids."""
    found = {"region": training.region and describe(training.region), "correlated": training.correlated}
    return {name: value for name, value in found.items() if value}


def metric_of(study, column: str) -> str | None:
    """The metric in a study, or in anything with ``metrics``, that a column belongs to; None for labels and losses."""
    names = [name for name, _ in study.metrics]
    owner = Column.read(column, names).metric
    return owner if owner in names else None


@dataclasses.dataclass(frozen=True)
class Member:
    """One row in a study: a trained model with its cells' ids. Small, since it is sent to workers.

    ``seeds`` are the ids of the codes under all seeds of its setting, its own among them. ``last`` is False for members
    that are kept along training, whose label says after how many updates.
    """

    training: int
    row: int
    label: dict = dataclasses.field(hash=False)
    train: str
    encode: str
    scores: tuple[str, ...]
    seeds: tuple[str, ...] = ()
    last: bool = True


def cells(study: Study) -> Iterator[Member]:
    """Every member in order: trainings, then variants, settings, seeds, and updates."""
    ids = [_score_ids(study, name) for name, _ in study.metrics]
    encode_id = ids_of_children(lambda train: encode_spec(study, train))
    for position, training in enumerate(study.trainings):
        _, hyperparameters, of_rows = training.members()
        ends = [{"updates": number} for number in (*training.keep, training.config.steps)] if training.keep else [{}]
        pairs = [(row, {**label, **end}) for row, label in enumerate(of_rows) for end in ends]
        trained = [cell_id(train_spec(training, hyperparameters, label, row)) for row, label in pairs]
        encoded = [encode_id(train) for train in trained]
        alike: dict[tuple, list[str]] = {}
        for (_, label), encode in zip(pairs, encoded, strict=True):
            alike.setdefault(_setting(label), []).append(encode)
        for (row, label), train, encode in zip(pairs, trained, encoded, strict=True):
            seeds = tuple(alike[_setting(label)])
            scores = tuple(score_id(encode, seeds) for score_id in ids)
            last = label.get("updates", training.config.steps) == training.config.steps
            yield Member(position, row, label, train, encode, scores, seeds if study.metrics_of_seeds else (), last)


def _score_ids(study: Study, name: str) -> Callable[[str, Sequence[str]], str]:
    """A score's id by those that codes have: the member's, and all seeds' under its setting."""
    if name in dict(study.metrics_of_seeds):
        return lambda encode, seeds: cell_id(score_spec(study, encode, name, seeds))
    of_member = ids_of_children(functools.partial(score_spec, study, name=name))
    return lambda encode, seeds: of_member(encode)


def _setting(label: Mapping) -> tuple:
    return tuple((key, value) for key, value in label.items() if key != "seed")


def train_spec(training: Training, hyperparameters, label: dict, row: int) -> dict:
    updates = label.get("updates", training.config.steps)
    numbers = {name: float(column[row]) for name, column in zip(hyperparameters._fields, hyperparameters, strict=True)}
    return {
        "kind": "train",
        "config": _config(training.config, label["model"]),
        "hyperparameters": numbers,
        "seed": label["seed"],
        **{name: getattr(training, name) for name in ("pool", "held_out", "held_out_share")},
        **restrictions_of(training),
        # Kept after all updates, it is the same member in any study.
        **({} if updates in (None, training.config.steps) else {"updates": updates}),
        "numerics": NUMERICS,
    }


@functools.lru_cache(maxsize=256)
def _config(config: Config, model: str) -> dict:
    """What describes the program that trains one variant alone."""
    return describe(dataclasses.replace(config, method=config.method.alone(model)))


def encode_spec(study: Study, train: str) -> dict:
    return {"kind": "encode", "train": train, "sampling": dataclasses.asdict(study.sampling), "numerics": NUMERICS}


def score_spec(study: Study, encode: str, name: str, seeds: Sequence[str] = ()) -> dict:
    """What specifies a score of the codes ``encode``; a metric of seeds depends on the codes of all ``seeds``."""
    metric = dict(study.metrics)[name]
    cell = {"kind": "score", "encode": encode, "metric": _described(metric), "numerics": NUMERICS}
    if isinstance(metric, Udr):
        return {**cell, "seeds": sorted(seeds)}
    return {**cell, "novel": name in study.novel}


@functools.cache
def _described(metric: Metric | Udr | SlotMetric) -> dict:
    return metric.describe()


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
