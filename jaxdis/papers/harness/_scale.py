"""The scale of a reproduction: a published protocol with fewer updates, seeds, data sets and samples, or others."""

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from jaxdis._core.options import Count, check_fields
from jaxdis.metrics import Blend, Direct, Metric
from jaxdis.models import Pca
from jaxdis.papers.harness._differences import shortfalls
from jaxdis.papers.harness._small_forms import small
from jaxdis.study._definition import FEWEST_SAMPLES, Sampling, Training
from jaxdis.study._library import QUICK_POOL
from jaxdis.study._work import Work
from jaxdis.study.certificate._calibration import Calibration

# Operations per second that training on an H100 is taken to reach where sizes are cut to an hour or a day: a tenth of
# its peak in float32. Not measured.
H100_RATE = 6e12


@dataclasses.dataclass(frozen=True)
class Scale:
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

    def __post_init__(self):
        check_fields(self)

    def within(self, other: "Scale") -> "Scale":
        """Take what this scale leaves open from another one."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return dataclasses.replace(
            other, **{name: value for name, value in given.items() if value not in (None, (), {})}
        )

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a piece, lowered to this scale: ``steps``, ``seeds``, ``samples`` and an image ``pool``."""
        limits = {"steps": self.updates, "seeds": self.seeds, "samples": self.samples, "pool": self.samples}
        return {name: min(value, limits[name]) if limits.get(name) else value for name, value in given.items()}


def check_data(studies: Iterable, scale: Scale) -> None:
    """Check that some study has a scale's data sets.

    Raises:
      ValueError: for another one.
    """
    known = dict.fromkeys(t.config.data for study in studies for t in getattr(study, "trainings", ()))
    for name in scale.data:
        if name not in known:
            raise ValueError(
                f"data: must be some of {', '.join(known)}, got {name!r}; give the files of others as sources"
            )


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
    others = {
        role: max(FEWEST_SAMPLES, round(size * train / sampling.train))
        for role in ("test", "validation")
        if (size := getattr(sampling, role))
    }
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
    defaults = {
        name: p.default for name, p in inspect.signature(settings).parameters.items() if name.endswith("_steps")
    }
    counts = {name: row.get(name, (default,)) for name, default in defaults.items()}
    scaled_counts = {name: tuple(share * n for n in values) for name, values in counts.items() if any(values)}
    return tuple({**row, **scaled_counts}.items())


def in_words(work: Work, published: Any) -> Iterator[str]:
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
        yield f"less than published, {fact.where}: {fact.here} (published: {fact.printed})"
