"""Scoring an encoder: images are drawn from a data set and encoded, and interventions are made in the data set."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core.arrays import as_numpy
from jaxdis._core.display import Progress, reported
from jaxdis._core.options import BatchSize, Count, checked_key, checked_value, look_up, shown
from jaxdis._core.precision import single_precision
from jaxdis.data import DATASETS, DataSource, FactorSpace
from jaxdis.data._folder import PictureSpace
from jaxdis.encoders import _simulated as simulated
from jaxdis.encoders._libraries import Layout, as_function, is_model
from jaxdis.evaluation._costs import OnMemory
from jaxdis.evaluation._groups import as_groups
from jaxdis.evaluation._request import Request, warn
from jaxdis.evaluation._run import run, stages_of
from jaxdis.evaluation._score_core import member_rows
from jaxdis.evaluation._scores import Scores
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._metric import metric_seed
from jaxdis.metrics._plan import STANDARD_OF_ENCODERS, left_out_of, plan_of
from jaxdis.models._images import Images, check_unit_values
from jaxdis.models._zoo import Encoder, Zoo

# Metrics that change a factor and encode again, by the function of their row in METRICS.
INTERVENTIONS = {
    metric.source.function: vars(simulated)[metric.source.name]
    for metric in METRICS.values()
    if metric.about is not None and metric.about.intervenes
}


def intervened(metric: Metric, options: Mapping, encode: Callable, space: FactorSpace, render, key) -> tuple:
    judge = INTERVENTIONS[metric.source.function]
    judged = functools.partial(judge, space=space, render=render, **options)
    result = judged(jax.random.fold_in(key, metric_seed(metric.source.name)), encode=encode)
    return jax.tree.map(np.asarray, result)


def images_of(options: Mapping, space: FactorSpace) -> int:
    if "num_pairs" in options:  # consistency, restrictiveness
        return options["num_pairs"] * (1 + 2 * space.num_factors)
    if "num_samples" in options:  # IRS
        sizes = (space.sizes[j] or options["factor_bins"] for j in simulated.free_factors(space))
        return options["num_samples"] + options["num_given"] * sum(sizes)
    batches = (options["num_train"] + options["num_eval"]) * options["batch"]
    return batches + options["num_variance"] if "num_variance" in options else 2 * batches


# From so many images on, interventions are announced.
MANY_IMAGES = 100_000
# Folded into the key: each role is drawn independently of the others.
_TEST, _INTERVENTION = 1, 2


@single_precision
def evaluate_encoder(
    encode,
    data,
    metrics: str | Sequence | Mapping = "standard",
    key: PRNGKeyArray | int | None = None,
    *,
    source=None,
    samples: Count = 10_000,
    test_samples: Count = 5_000,
    batch: BatchSize = 256,
    layout: Layout | None = None,
    groups=None,
    progress: Progress = False,
    bootstrap: int = 0,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    arrived: Callable[[Scores], None] | None = None,
    members=None,
    on_memory: OnMemory = "refuse",
    deterministic: bool = False,
) -> Scores:
    """Score an encoder on a data set: draw images, encode them, and evaluate the codes.

    FactorVAE, BetaVAE and IRS hold a factor fixed, redraw the others, and encode the new images, as in their papers;
    :func:`evaluate`, which has only samples, resamples these instead.

    Args:
      encode: a function, from any library, that maps images ``[n, h, w, c]`` to codes ``[n, d]`` (usually posterior
        means); a ``torch.nn.Module`` or a Keras model, which is called in evaluation mode, and torch's without
        gradients, on its device and in its precision; a pair (``flax.linen`` module, variables); several of these with
        equally many codes, which are scored as members; or a trained zoo. Images are float32 in [0, 1], JAX arrays for
        a function that JAX can trace, else NumPy arrays of its own.
      data: a data set's name in ``jaxdis.data.DATASETS``, or a pair ``(space, render)``. From a picture folder
        (:func:`jaxdis.data.folder`), at most ``samples`` and two thirds are scored, and others are held out.
      metrics: as in :func:`evaluate`; ``"standard"`` also has IRS, which intervenes with few images, but not in stored
        pictures.
      key: PRNG key for samples, interventions and metrics, or a seed; as in :func:`evaluate`.
      source: path to the official file, for a data set that is read from one, or a :class:`~jaxdis.data.DataSource`.
      samples, test_samples: on how many samples metrics are computed and learners are trained, and on how many held-out
        ones the learners are evaluated. Unless options say otherwise, metrics that intervene train on as many image
        batches as there are samples, and are evaluated on as many as there are held-out ones (FactorVAE and BetaVAE, 64
        images or pairs a batch). They measure how codes spread on as many images as there are samples, rounded down to
        a multiple of 32. The papers' numbers are the most, and the defaults.
      batch: images encoded at once (``batch_size`` counts members).
      layout: how the encoder orders the axes of images: ``"nchw"``, the default for a torch module, or ``"nhwc"``, the
        default for all others.
      groups: which pictures in a folder belong together, one entry for each as in :func:`evaluate`, such as each
        frame's video. A third of up to ``samples`` and ``test_samples`` pictures together is then held out, in whole
        groups. Images that are drawn do not depend on each other.
      progress: called with how many images are encoded and how many there are, for interventions too; True draws a bar.
        Without it, a warning names how many images interventions need if they are more than 100,000.
      bootstrap, batch_size, devices, arrived, on_memory, deterministic: as in :func:`evaluate`; a bootstrap leaves out
        metrics that intervene.
      members: as in :func:`evaluate`; a zoo's labels when None.

    Returns:
      :class:`Scores`: numbers ``[]``, or ``[m]`` for several members.

    Raises:
      ValueError: for codes that are not ``[n, d]``, naming the shapes, and as :func:`evaluate`.
    """
    for name, value in (("samples", samples), ("test_samples", test_samples)):
        checked_value(name, Count, value)
    checked_value("batch", BatchSize, batch)
    space, render = _opened(data, source)
    stored, standard = isinstance(space, PictureSpace), isinstance(metrics, str) and metrics == "standard"
    key, plan = checked_key(key), dict(plan_of(STANDARD_OF_ENCODERS if standard and not stored else metrics))
    moved = _interventions(plan, space, samples, test_samples)
    groups = _of_pictures(groups, space)
    periods = [period for _, period in space.circular]
    left_out = left_out_of(tuple(plan.items()), space.sizes, periods) if standard else {}
    plan = {name: metric for name, metric in plan.items() if name not in left_out}
    encoders, single = _encoders(encode, checked_value("layout", Layout | None, layout))
    labels = encode.labels if members is None and isinstance(encode, Zoo) else members
    of_members = member_rows(labels, len(encode) if isinstance(encode, Zoo) else len(encoders), plan)
    if isinstance(encode, Zoo):
        _warn_of_stopped(encode)
    if stored:
        rows, test_rows = space.split(key, samples, test_samples, groups)
    else:
        rows = space.sample(key, samples)
        test_rows = space.sample(jax.random.fold_in(key, _TEST), test_samples)
    images, counts = Images.of(render), {name: images_of(options, space) for name, options in moved.items()}
    if not progress and sum(counts.values()) > MANY_IMAGES:
        _warn_of_images(counts)
    total, done = len(rows) + len(test_rows) + sum(counts.values()), 0
    with reported(progress, "encoding", "images") as show:

        def tell(count: int) -> None:
            nonlocal done
            done += count
            show(done, total)

        look = functools.partial(_encoded, encoders, images, space, batch=batch, tell=tell)
        codes, factors = look(key, rows)
        test = None if groups is not None else look(jax.random.fold_in(key, _TEST), test_rows)
        request = Request.of(
            codes,
            factors,
            key=key,
            plan=tuple((name, metric) for name, metric in plan.items() if name not in moved),
            test=test,
            groups=None if groups is None else groups[np.asarray(rows)[:, 0]],
            members=of_members,
            **{"bootstrap": bootstrap, "batch_size": batch_size, "devices": devices, "arrived": arrived},
            **{"on_memory": on_memory, "deterministic": deterministic},
        )
        request = dataclasses.replace(request, single=single, left_out=left_out)
        arriving = arrived and Scores.arriving(request)
        results = run(request, arriving)
        joint = _jointly(encoders, images, space, tell if progress else None)
        moving = jax.random.fold_in(key, _INTERVENTION)
        for name, options in moved.items():
            results.metrics[name] = intervened(plan[name], options, joint, space, render, moving)
            if arriving is not None:
                arriving(((name, plan[name]),), results)
        jax.effects_barrier()  # the last images are told from inside a program
    scores = Scores.of(request.with_interventions(tuple(plan.items())), results)
    of_data = {"data": data} if isinstance(data, str) else {}
    return dataclasses.replace(scores, evaluation=scores.evaluation | of_data)


def _interventions(
    plan: Mapping[str, Metric], space: FactorSpace, samples: int, test_samples: int
) -> dict[str, dict[str, Any]]:
    """The options of each metric that intervenes, with as many images as samples at most, before anything is drawn.

    Options that only apply to given samples, such as bins, are refused.
    """
    limits = dict.fromkeys(("num_train", "num_variance", "num_samples", "num_pairs"), samples)
    limits["num_eval"] = test_samples
    options_by_name: dict[str, dict[str, Any]] = {}
    for name, metric in _apart(plan)[1].items():
        parameters = inspect.signature(INTERVENTIONS[metric.source.function]).parameters
        given = {option: value for option, value in metric.all_options.items() if value is not None}
        if unread := [option for option in given if option not in parameters]:
            raise ValueError(f"{unread[0]}: {name} holds the factors of the data set itself and has no such option")
        options = {option: p.default for option, p in parameters.items() if p.kind is p.KEYWORD_ONLY} | given
        for option in limits.keys() & options.keys() - dict(metric.source.options).keys():
            if limits[option] < options[option]:
                # Images are encoded in chunks of equal size: a prime number would be encoded one by one.
                options[option] = limits[option] // 32 * 32 or limits[option]
        options_by_name[name] = options
    if options_by_name and isinstance(space, PictureSpace):
        raise ValueError(
            f"metrics: must not intervene in stored pictures, got {', '.join(options_by_name)}; leave these out, or "
            "score codes by evaluate, which looks for pictures that share a factor instead"
        )
    return options_by_name


def _of_pictures(groups, space: FactorSpace) -> np.ndarray | None:
    if groups is None:
        return None
    if not isinstance(space, PictureSpace):
        raise ValueError("groups: must be left out for images that are drawn, independently of each other")
    return as_groups(groups, space.labels)


def _warn_of_images(drawn: Mapping[str, int]) -> None:
    counts = ", ".join(f"{count:,} ({name})" for name, count in drawn.items())
    warn(
        f"metrics: interventions draw and encode {counts} images; fewer samples and test_samples mean fewer, and "
        "progress=True shows how far it is"
    )


def names_in_turn(metrics: Mapping[str, Metric]) -> list[tuple[str, ...]]:
    """The metrics that :func:`evaluate_encoder` computes together; those that intervene come last."""
    still, moved = _apart(metrics)
    return [*(tuple(dict(stage)) for stage in stages_of(tuple(still.items()))), *((name,) for name in moved)]


def _apart(plan: Mapping[str, Metric]) -> tuple[dict[str, Metric], dict[str, Metric]]:
    """The metrics that read codes, and those that intervene."""
    moved = {name: metric for name, metric in plan.items() if metric.source.function in INTERVENTIONS}
    return {name: metric for name, metric in plan.items() if name not in moved}, moved


def _opened(data, source) -> tuple[FactorSpace, Callable]:
    if isinstance(data, str):
        row = look_up(data, DATASETS, "data set")
        given = source if source is None or isinstance(source, DataSource) else DataSource.of(source)
        return row.open(data, given)
    if source is not None:
        raise ValueError("source: goes with the name of a data set, got it beside a pair (space, render)")
    if not isinstance(data, tuple | list) or len(data) != 2 or not isinstance(data[0], FactorSpace):
        raise ValueError(f"data: must be the name of a data set or a pair (space, render), got {shown(data)}")
    return tuple(data)


def _encoders(encode, layout: Layout | None) -> tuple[list[Callable], bool]:
    """All members' encoders, and whether there is one member; a zoo is one encoder for many members."""
    if isinstance(encode, Zoo):
        if layout == "nchw":
            raise ValueError("layout: must be None for a zoo, which reads images as it was trained on them, got 'nchw'")
        return [Encoder.of(encode)], False
    several = isinstance(encode, Sequence) and not is_model(encode)
    encoders = [each if is_model(each) or callable(each) else None for each in (encode if several else [encode])]
    if not encoders or None in encoders:
        raise ValueError(f"encode: must be a function of images, several of them, or a zoo, got {shown(encode)}")
    return [as_function(each, layout) for each in encoders], not several


def _warn_of_stopped(zoo: Zoo) -> None:
    if len(rows := np.flatnonzero(zoo.stopped >= 0)):
        listing = ", ".join(f"{row} at update {zoo.stopped[row]}" for row in rows[:5].tolist())
        warn(
            f"training of {len(rows)} of {len(zoo)} members stopped at an update that was not finite ({listing}"
            f"{', …' if len(rows) > 5 else ''}); their scores are those of the parameters before it"
        )


def _encoded(
    encoders, images: Images, space: FactorSpace, key, rows, *, batch: int, tell
) -> tuple[np.ndarray, Factors]:
    """Codes ``[m, n, d]`` for images with factors ``rows [n, k]``, batch by batch, and these factors; their noise is
    drawn with the key."""
    seen, parts = _jointly(encoders, images, space), []
    for start in range(0, len(rows), batch):
        batch_rows = rows[start : start + batch]
        drawn = simulated.drawn(images, batch_rows, jax.random.fold_in(key, start))
        if not start:
            check_unit_values(drawn, "data")
        parts.append(as_numpy(seen(drawn), "codes"))
        tell(len(batch_rows))
    return np.concatenate(parts, axis=1), space.wrap(rows)


def _jointly(encoders: Sequence[Callable], images: Images, space: FactorSpace, tell: Callable | None = None):
    """One encoder for all members, ``[n, h, w, c] → [m, n, d]``, compiled if JAX can trace every member.

    ``tell`` is called with how many images are encoded, from inside the compiled program too.
    """
    traced = all(simulated.traceable(encode, images, space) for encode in encoders)
    widths = []

    def joint(drawn):
        # Torch warns of arrays that cannot be written, such as views of JAX's.
        seen = drawn if traced else np.require(drawn, requirements="W")
        if tell is not None:
            jax.debug.callback(functools.partial(tell, drawn.shape[0])) if traced else tell(drawn.shape[0])
        codes_by_encoder = [_checked(encode(seen), drawn, traced, isinstance(encode, Encoder)) for encode in encoders]
        if len({codes.shape[-1] for codes in codes_by_encoder}) > 1:
            counts = ", ".join(str(codes.shape[-1]) for codes in codes_by_encoder)
            raise ValueError(f"encode: must have members with equally many codes, got {counts}")
        widths.append(codes_by_encoder[0].shape[-1])
        if widths[-1] != widths[0]:
            counts = f"{widths[0]} and then {widths[-1]}"
            raise ValueError(f"encode: must return equally many codes for every batch, got {counts}")
        return (jnp if traced else np).concatenate(codes_by_encoder)

    return jax.jit(joint) if traced else joint


def _checked(codes, drawn, traced: bool, many: bool):
    """Codes ``[m, n, d]``; ``many``: from an encoder for many members, which have this shape already."""
    if isinstance(codes, tuple):
        raise ValueError(
            f"encode: must be one array of codes, got a tuple of {len(codes)}; of means and variances, return the means"
        )
    codes = codes if traced else as_numpy(codes, "codes")
    if getattr(codes, "ndim", 0) != 2 + many or codes.shape[-2] != drawn.shape[0]:
        got = getattr(codes, "shape", shown(codes))
        raise ValueError(
            f"encode: must have codes [{drawn.shape[0]}, d] of images of shape {tuple(drawn.shape)}, got {got}"
        )
    if not (jnp.issubdtype(codes.dtype, jnp.floating) or codes.dtype.kind in "iub"):
        raise ValueError(f"encode: must be codes of real numbers, got dtype {codes.dtype}")
    codes = codes if many else codes[None]
    return codes.astype(np.float32) if traced else codes
