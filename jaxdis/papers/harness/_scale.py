"""The scale of a reproduction: a published protocol with fewer updates, seeds, data sets and samples, or others."""

import dataclasses
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxdis._core.options import CheckedFields, Count
from jaxdis.data import DataSource
from jaxdis.metrics import Blend, Direct, Metric
from jaxdis.models import LabelledPartition, Method, Mlp, Pca, Stacks, Vae, WeakDe
from jaxdis.study._definition import FEWEST_SAMPLES, QUICK_POOL, Sampling, Study, Training
from jaxdis.study._run_study import Work
from jaxdis.study.certificate import Calibration

# Operations per second that training on an H100 is taken to reach where sizes are cut to an hour or a day: a tenth of
# its peak in float32. Not measured.
H100_RATE = 6e12
# The images of small forms: means over 2 × 2 pixels.
HALF_SIZE = DataSource(options=(("pool", 2),))


@dataclasses.dataclass(frozen=True)
class Scale(CheckedFields):
    """What a reproduction changes in the studies and pieces of a size; None and empty leave them as they are.

    Attributes:
      updates: how many the longest training in each study makes. The others, and settings that count updates such as
        ``warmup_steps``, change in proportion. PCA, which is no iteration, stays as it is.
      seeds: how many seeds; trainings with fewer seeds than others in their study get at most as many.
      data: which data sets are kept; studies without data keep everything.
      samples: how many samples to score on. Held-out samples change in proportion.
      network: ``small`` for networks that train in minutes.
      metrics: metrics that are added, or that replace those with the same name. Studies on slots and synthetic codes
        keep theirs.
    """

    updates: Count | None = None
    seeds: Count | None = None
    data: tuple[str, ...] = ()
    samples: Count | None = None
    network: Literal["small"] | None = None
    metrics: Mapping[str, Metric] = dataclasses.field(default_factory=dict)

    def within(self, other: "Scale") -> "Scale":
        """Take what this scale leaves open from another one."""
        stated = {name: value for name, value in vars(self).items() if value not in (None, (), {})}
        return dataclasses.replace(other, **stated)

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a piece, lowered to this scale: ``steps``, ``seeds``, ``samples`` and an image ``pool``."""
        limits = {"steps": self.updates, "seeds": self.seeds, "samples": self.samples, "pool": self.samples}
        return {name: min(value, limits[name]) if limits.get(name) else value for name, value in given.items()}


def scaled(study, scale: Scale):
    """The study at a scale; None if it keeps no data set."""
    if isinstance(study, Calibration):
        return study.resized(seeds=scale.seeds, samples=scale.samples)
    kept = [training for training in study.trainings if not scale.data or training.config.data in scale.data]
    if not kept:
        return None
    sampling = _sampled(study.sampling, scale.samples)
    longest = max((t.config.steps for t in study.trainings if not isinstance(t.config.method, Pca)), default=1)
    share = 1.0 if scale.updates is None else scale.updates / longest
    most = max(len(training.seeds) for training in study.trainings)
    trainings = [_training(training, scale, share, most, study.sampling, sampling) for training in kept]
    metrics = study.metrics if study.has_slots else tuple({**dict(study.metrics), **scale.metrics}.items())
    metrics = tuple((name, _cut(metric, sampling.train)) for name, metric in metrics)
    return dataclasses.replace(study, trainings=tuple(trainings), sampling=sampling, metrics=metrics)


def _cut(metric, samples: int):
    """The metric with a learning curve that ends at so many samples, if it has one that is longer."""
    sizes = metric.all_options.get("sizes", ()) if isinstance(metric, Blend | Direct) else ()
    if not sizes or max(sizes) <= samples:
        return metric
    return metric.with_options(sizes=(*(size for size in sizes if size < samples), samples))


def _sampled(sampling: Sampling, samples: int | None) -> Sampling:
    if samples is None:
        return sampling
    train = samples - samples % sampling.groups
    sizes = {role: getattr(sampling, role) for role in ("test", "validation")}
    others = {role: max(FEWEST_SAMPLES, round(size * train / sampling.train)) for role, size in sizes.items() if size}
    return dataclasses.replace(sampling, train=train, **others)


def _training(training: Training, scale: Scale, share: float, most: int, before: Sampling, after: Sampling) -> Training:
    config, pool = training.config, training.pool
    if scale.network == "small":
        config, pool = dataclasses.replace(config, method=small(config.method)), pool or QUICK_POOL
    if pool == before.train:
        pool = after.train
    sweep, keep = training.sweep, training.keep
    if share != 1 and not isinstance(config.method, Pca):
        steps = max(1, round(share * config.steps))
        config = dataclasses.replace(config, steps=steps)
        block = config.method.log_every
        keep = tuple({round(share * number / block) * block for number in keep} & set(range(block, steps, block)))
        variants = {**config.method.variants, **config.method.own_variants}
        sweep = tuple((name, _schedules(dict(row), variants[name].settings, share)) for name, row in sweep)
        if pool is not None and share < 1:  # no more images are drawn than training sees
            pool = min(pool, steps * config.method.batch_size)
    seeds = training.seeds
    if scale.seeds is not None:
        seeds = tuple(range(scale.seeds)) if len(seeds) == most else seeds[: scale.seeds]
    return dataclasses.replace(training, config=config, sweep=sweep, seeds=seeds, pool=pool, keep=keep)


def _schedules(row: dict[str, tuple[float, ...]], settings, share: float) -> tuple:
    """The settings of a variant with those that count updates in proportion, their defaults too."""
    parameters = inspect.signature(settings).parameters
    counts = {name: row.get(name, (p.default,)) for name, p in parameters.items() if name.endswith("_steps")}
    scaled_counts = {name: tuple(share * n for n in values) for name, values in counts.items() if any(values)}
    return tuple({**row, **scaled_counts}.items())


def scale_in_words(work: Work, published: Any) -> Iterator[str]:
    """What a study trains, its hours on an H100, and what it lacks of the published study, a line each."""
    trainings = getattr(work.study, "trainings", ())
    if trainings:
        models = [len(training.members().labels) for training in trainings]
        updates = [training.config.steps for training in trainings]
        batches = [getattr(training.config.method, "batch_size", 1) for training in trainings]
        images = sum(m * steps * size for m, steps, size in zip(models, updates, batches, strict=True))
        hours = sum(cost.flops for cost in work.costs().values()) / H100_RATE / 3600
        data = ", ".join(dict.fromkeys(training.config.data for training in trainings))
        yield f"{sum(models):,} models on {data}; at most {max(updates):,} updates; {images:.2g} images"
        yield f"about {hours:.2g} h on one H100, if a tenth of its peak is reached; no accelerator was measured"
    for fact in shortfalls(work.study, published):
        yield f"{fact.where}: {fact.here} (published: {fact.printed})"


def small(method: Method) -> Method:
    """The model with perceptrons, which trains in minutes; principal components as they are.

    FactorVAE's discriminator shrinks as well: that of the paper would cost ten times as much as the perceptrons.
    """
    if isinstance(method, Pca):
        return method
    if isinstance(method, Vae):
        network = dataclasses.replace(method.discriminator.network, layers=3, width=200)
        discriminator = dataclasses.replace(method.discriminator, network=network)
        return dataclasses.replace(method, network=Mlp(), discriminator=discriminator)
    if isinstance(method, LabelledPartition):
        return dataclasses.replace(method, network=Mlp())
    if isinstance(method, WeakDe):
        sizes = {"opponents": (200, 200), "batch_size": 64, "relation_batch": 16, "num_labelled": 4096}
        return dataclasses.replace(method, network=Stacks(hidden_slope=0.1, decoder_slope=0.1), **sizes)
    if "network" not in (field.name for field in dataclasses.fields(method)):
        kind = f"models of type {type(method).__name__}"
        raise ValueError(f"network: must be the paper's for {kind}, got small; take fewer updates instead")
    return dataclasses.replace(method, network=Stacks(hidden_slope=0.1))


def trainings_of(
    runs: Iterable, sweep: Mapping, seeds: int, network: str, sources: Mapping[str, DataSource] | None, **how
) -> list[Training]:
    """Published runs of a sweep with their files and the paper's network, or a small one with a pool of images."""
    trainings = []
    for config, _ in runs:
        config, pool = dataclasses.replace(config, source=(sources or {}).get(config.data)), None
        if network != "paper":
            config, pool = dataclasses.replace(config, method=small(config.method)), QUICK_POOL
        own = {objective: sweep[objective] for objective in config.method.trained}
        trainings.append(Training.of(config, own, seeds, pool, **how))
    return trainings


class Fact(NamedTuple):
    """A difference of protocol: what is printed and where, what is done here, and how much that was found to change."""

    where: str
    printed: str
    here: str
    effect: str = ""


class Level(NamedTuple):
    """A printed number that tells whether models are trained, such as an accuracy, and the measured one."""

    name: str
    printed: float
    measured: float


def shortfalls(study: Any, published: Any) -> list[Fact]:
    """What a study has less of than the published one, or has otherwise; none if they are the same."""
    if published is None or study == published:
        return []
    if isinstance(study, Calibration):
        names = {"seeds": "seeds", "size_seeds": "seeds of the curve over sizes", "case_samples": "samples of a case"}
        names |= {"sweep_samples": "samples of a point of a sweep", "full_size": "largest size"}
        pairs = [(words, getattr(published, name), getattr(study, name)) for name, words in names.items()]
        return [Fact("size", f"{theirs:,} {words}", f"{ours:,}") for words, theirs, ours in pairs if theirs > ours]
    kinds = {
        "data sets": lambda one: [training.config.data for training in one.trainings],
        "models": lambda one: [name for training in one.trainings for name, _ in training.sweep],
    }
    found = []
    for what, named in kinds.items():
        ours, theirs = (list(dict.fromkeys(named(one))) for one in (study, published))
        if missing := [name for name in theirs if name not in ours]:
            found.append(Fact(what, _words(theirs), f"without {_words(missing)}"))
    pairs = _alike(study, published)
    return found + _of_trainings(pairs) + _of_numbers(study, published) + _of_metrics(study, published)


def _words(names: Iterable[str]) -> str:
    return ", ".join(names).replace("_", " ")


def _alike(study: Study, published: Study) -> list[tuple[Training, Training]]:
    """Trainings with one of the same data and models in the published study."""
    by_kind: dict[tuple, Training] = {}
    for training in published.trainings:
        for name, _ in training.sweep:
            by_kind.setdefault((training.config.data, name, *sorted(training.labels)), training)
    kinds = [(one.config.data, one.sweep[0][0], *sorted(one.labels)) for one in study.trainings]
    return [(one, by_kind[kind]) for one, kind in zip(study.trainings, kinds, strict=True) if kind in by_kind]


def _of_trainings(pairs: Sequence[tuple[Training, Training]]) -> list[Fact]:
    found = []
    iterated = [(a, b) for a, b in pairs if not isinstance(a.config.method, Pca)]
    fewer = [(a.config.steps, b.config.steps) for a, b in iterated if a.config.steps < b.config.steps]
    if fewer:
        ours, theirs = max(fewer, key=lambda pair: pair[1])
        found.append(Fact("updates", f"{theirs:,}", f"{ours:,}"))
    if any(_network(a) != _network(b) for a, b in iterated):
        found.append(Fact("networks", "the paper's", "small ones"))
    if any(a.config.source is not None and a.config.source != b.config.source for a, b in pairs):
        options = {f"{n}={value}" for a, _ in pairs if a.config.source for n, value in a.config.source.options}
        found.append(Fact("images", "as published", f"with {_words(sorted(options))}"))
    pools = [a.pool for a, b in pairs if a.pool is not None and a.pool < (b.pool or np.inf)]
    if pools:
        found.append(Fact("training images", "all, or as many as published", f"{min(pools):,}, drawn once"))
    return found


def _network(training: Training):
    """What is small in small forms; methods with slots have no field for a network, and are small as a whole."""
    method = training.config.method
    if "network" not in (field.name for field in dataclasses.fields(method)):
        return method
    return [getattr(method, name, None) for name in ("network", "channels", "opponents", "batch_size")]


def _of_numbers(study: Study, published: Study) -> list[Fact]:
    """Samples, seeds, settings and combinations."""
    roles = {"train": "score on", "test": "evaluate learners on", "validation": "choose options on"}
    found = []
    for role, purpose in roles.items():
        ours, theirs = getattr(study.sampling, role), getattr(published.sampling, role)
        if ours < theirs:
            found.append(Fact("samples", f"{theirs:,} to {purpose}", f"{ours:,}"))
    counts = {
        "seeds": lambda one: max(len(training.seeds) for training in one.trainings),
        "settings of a model": lambda one: max(
            math.prod(len(values) for _, values in row) for training in one.trainings for _, row in training.sweep
        ),
        "combinations held out": lambda one: len({training.held_out for training in one.trainings} - {()}),
    }
    both = {what: (count(study), count(published)) for what, count in counts.items()}
    return found + [Fact(what, f"{theirs:,}", f"{ours:,}") for what, (ours, theirs) in both.items() if ours < theirs]


def _of_metrics(study: Study, published: Study) -> list[Fact]:
    theirs = dict(published.metrics)
    changed = {}
    for name, metric in study.metrics:
        if name in theirs and isinstance(metric, Blend | Direct):
            before = theirs[name].all_options
            options = [f"{key}={value}" for key, value in metric.all_options.items() if before.get(key) != value]
            if options:
                changed[name] = " ".join(options)
    words = "; ".join(
        f"{options} in {_words(n for n, o in changed.items() if o == options)}"
        for options in dict.fromkeys(changed.values())
    )
    return [Fact("metrics", "as published", words)] if changed else []
