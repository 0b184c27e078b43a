"""What users pass to :func:`jaxdis.evaluate` and related functions, checked before anything is compiled."""

import dataclasses
import difflib
import inspect
import typing
import warnings
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core.arrays import as_numpy
from jaxdis._core.options import Count, checked_devices, checked_key, checked_value, listed, shown
from jaxdis.evaluation._given import check_codes
from jaxdis.evaluation._member import MemberCodes, Plan, Shared
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend, Direct, Metric
from jaxdis.metrics._metric import metric_seed

# Of the samples given without a test set, the share that a metric with held-out samples trains on (2 : 1).
TRAIN_SHARE = 2 / 3
SPLIT_SEED = metric_seed("train and test")

MOST_REPLICATES = 10**6
# Whole weights of no larger a sum are counts of samples.
MOST_COUNTED = 2**24
# The column of member numbers in tables.
RESERVED = "member"
# Metrics that are not of the codes of one member: what they read, and where they are.
ELSEWHERE = {
    "udr": "compares the seeds of a setting: name it in a study, or call jaxdis.metrics._unsupervised.udr",
    "structured_slots": "reads slots: name it in a study of slots, or call jaxdis.evaluate_structured",
    "segmentation": "reads masks of slots: name it in a study of slots, or call jaxdis.structured.ari",
}


def plan_of(metrics) -> Plan:
    """Names and metrics in order, each checked.

    Raises:
      ValueError: for an empty list, an unknown name, with the nearest known one, something that is not a metric, or
        names whose columns would collide.
    """
    if isinstance(metrics, Mapping):
        plan = tuple((name, _metric(name, metric)) for name, metric in metrics.items())
    else:
        names = names_of(metrics, METRICS, "metric")
        plan = tuple((name, METRICS[name]) for name in names)
    if not plan:
        raise ValueError(f"metrics: needs at least one metric, got none; the metrics are {', '.join(METRICS)}")
    _check_columns(plan)
    return plan


def names_of(names, table: Mapping, kind: str) -> list[str]:
    """Distinct names of rows of a table, in the order given; all of them for ``"all"``."""
    if isinstance(names, str):
        names = list(table) if names == "all" else [names]
    given, names = names, listed(names)
    if names is None:
        raise ValueError(f"{kind}s: needs names, got {shown(given)}")
    if not names:
        raise ValueError(f"{kind}s: needs at least one {kind}, got none; the {kind}s are {', '.join(table)}")
    for name in names:
        look_up(name, table, kind)
    return list(dict.fromkeys(names))


def look_up(name, table: Mapping, kind: str, kinds: str | None = None):
    """A row of a table by name; ``kinds`` is the plural of ``kind``, by default with an s.

    Raises:
      ValueError: for an unknown name, with the nearest known one, or with what to do instead.
    """
    kinds = kinds or f"{kind}s"
    if not isinstance(name, str):
        raise ValueError(
            f"{kinds}: needs names, got {shown(name)}; give {kinds} of your own as a mapping name → {kind}"
        )
    if table is METRICS and name in ELSEWHERE:
        raise ValueError(f"metrics: needs metrics of the codes of one member, got {name!r}, which {ELSEWHERE[name]}")
    if name not in table:
        stem, _, options = name.partition(":")
        near = difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if options and stem in table:
            options = options.replace(":", ", ")
            hint = f"; give options by {kinds.upper()}[{stem!r}].with_options({options}), in a mapping from names"
        raise ValueError(f"{kinds}: unknown {kind} {shown(name)}{hint}; the {kinds} are {', '.join(table)}")
    return table[name]


def _metric(name, metric) -> Metric:
    if not isinstance(name, str) or not name or name == RESERVED:
        raise ValueError(f"metrics: needs column names that are text other than {RESERVED!r}, got {shown(name)}")
    if isinstance(metric, str):
        return look_up(metric, METRICS, "metric")
    if not isinstance(metric, Blend | Direct):
        raise ValueError(f"metrics: needs a Blend, a Direct or a name for {shown(name)}, got {shown(metric)}")
    return metric


def _check_columns(plan: Plan) -> None:
    """``a`` has columns ``a.field``: no other metric may have the name of one of them."""
    metrics = dict(plan)
    for name in metrics:
        for place, letter in enumerate(name):
            stem, field = name[:place], name[place + 1 :]
            if letter == "." and stem in metrics and field in _fields(metrics[stem]):
                raise ValueError(f"metrics: needs names whose columns differ, got {name!r}, a column of {stem!r}")


def _fields(metric: Metric) -> set[str]:
    """The fields that a metric's result may have, by its annotation, and what a bootstrap adds."""
    function = (metric.score if isinstance(metric, Blend) else metric.function).function
    result = inspect.signature(function).return_annotation
    kinds = typing.get_args(result) or (result,)
    own = {field for kind in kinds for field in getattr(kind, "_fields", ())}
    return own | {"error", "bias", "low", "high"}


def refuse_ignored(argument: str, plan: Plan) -> None:
    """Refuse an argument that some metrics do not read.

    Raises:
      ValueError: naming those metrics.
    """
    deaf = [name for name, metric in plan if not getattr(metric.source.reads, argument)]
    if deaf:
        some = ", ".join(deaf[:10]) + (", …" if len(deaf) > 10 else "")
        raise ValueError(
            f"{argument}: needs metrics that read it, got {len(deaf)} of {len(plan)} that do not ({some}); evaluate "
            f"those in a call of their own without {argument}" + _INSTEAD.get(argument, "")
        )


_INSTEAD = {"weights": ", on samples drawn in proportion to their weights"}


def check_classes(plan: Plan, factors: Factors) -> None:
    """Metrics of classes leave continuous factors out: at least one factor must be discrete.

    Raises:
      ValueError: naming those metrics.
    """
    needing = [name for name, metric in plan if metric.source.needs_classes]
    if needing and not any(factors.sizes):
        raise ValueError(
            f"factors: needs at least one discrete factor for {', '.join(needing)}, got continuous ones alone; "
            "cut them into classes by Factors.binned, or leave these metrics out"
        )


def check_validation(plan: Plan, given: bool) -> None:
    """Metrics that choose among several values of an option need validation samples.

    Raises:
      ValueError: naming those metrics.
    """
    needing = [name for name, metric in plan if metric.source.needs_validation]
    if needing and not given:
        raise ValueError(f"validation: needs samples on which {', '.join(needing)} can choose an option, got none")


def check_neighbors(options: Mapping, name: str, n: int, *, halved: bool = False) -> None:
    """Check that there are enough samples for the neighbors; ``halved``: a bootstrap passes half of them to the metric.

    Raises:
      ValueError: for as many neighbors as samples, or more.
    """
    if halved and options.get("neighbors", 0) >= n // 2:
        raise ValueError(
            f"bootstrap: needs more than {2 * options['neighbors'] + 1} samples for {name}, whose replicates are "
            f"halves of them, got {n}"
        )
    if options.get("neighbors", 0) >= n:
        raise ValueError(f"neighbors: needs fewer than the {n} samples, got {options['neighbors']} for {name}")


def check_run(batch_size, devices, progress) -> dict:
    """The arguments of the executor."""
    batch_size = checked_value("batch_size", Count | None, batch_size)
    checked_value("progress", Callable | None, progress)
    return {"batch_size": batch_size, "devices": checked_devices(devices), "progress": progress}


def check_bootstrap(count) -> int:
    count = checked_value("bootstrap", int, count)
    if count == 1 or not 0 <= count <= MOST_REPLICATES:
        raise ValueError(f"bootstrap: needs a whole number of replicates, at least 2, got {count}")
    return count


def check_weights(weights, n: int):
    if weights is None:
        return None
    array = _numbers(weights, "weights")
    if array.shape != (n,):
        raise ValueError(f"weights: needs shape [{n}] (samples), got {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all() or (array < 0).any() or not array.max() > 0:
        raise ValueError("weights: needs finite numbers of at least 0 that are not all 0")
    counts = (array == np.round(array)).all() and array.sum() <= MOST_COUNTED
    return jnp.asarray(array if counts else effective(array), jnp.float32)


def effective(weights: np.ndarray) -> np.ndarray:
    """Weights rescaled to sum to the effective sample size, ``(Σ w)² / Σ w²`` (Kish 1965, §11.7)."""
    shares = weights / weights.max()
    shares = shares / shares.sum()
    return shares / (shares**2).sum()


def check_variances(variances, shape: tuple[int, int, int]):
    """Posterior variances in the shape of codes, ``[m, n, d]``."""
    variances = variances[None] if variances.ndim == 2 else variances
    if variances.shape != shape:
        raise ValueError(f"variances: needs the shape of codes, {shape}, got {variances.shape}")
    if (variances < 0).any():
        raise ValueError(
            f"variances: needs numbers of at least 0, got {float(variances.min()):g}; of log-variances, give numpy.exp"
        )
    return variances


def check_active(active, m: int, d: int) -> np.ndarray:
    """Truth values ``[m, d]``."""
    array = _numbers(active, "active")
    if array.shape not in ((d,), (m, d)):
        raise ValueError(f"active: needs shape [{d}] or [{m}, {d}] (members, codes), got {array.shape}")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise ValueError("active: needs truth values (or 0 and 1), got other numbers")
    return np.broadcast_to(array.astype(bool), (m, d))


def check_numbers(numbers, m: int) -> np.ndarray:
    """Integer ids ``[m]`` that fit 32 bits."""
    if numbers is None:
        return np.arange(m, dtype=np.uint32)
    array = _numbers(numbers, "numbers")
    if array.shape != (m,):
        raise ValueError(f"numbers: needs {m} entries, one per member, got shape {array.shape}")
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= 2**32:
        raise ValueError(f"numbers: needs whole numbers from 0 to 2^32 - 1, got {shown(array.tolist())}")
    return array.astype(np.uint32)


def check_same_samples(name: str, codes, factors: Factors) -> None:
    if codes.shape[1] != factors.num_samples:
        raise ValueError(
            f"{name}: needs as many samples as factors, got {codes.shape[1]} (axis 1 of [m, n, d] or 0 of [n, d]) "
            f"against {factors.num_samples}"
        )


def warn_of_constant(plan: Plan, factors: Factors) -> None:
    """Warn the caller's caller if a metric reads factors of which none varies, so that there is nothing to score."""
    values = np.asarray(factors.values)
    reads = any(metric.about is None or metric.about.reads_factors for _, metric in plan)
    if reads and (values == values[0]).all():
        warnings.warn(
            f"factors: must vary, got one value alone in {', '.join(factors.names)}; scores that need a factor are NaN",
            RuntimeWarning,
            stacklevel=3,
        )


def _numbers(values, name: str) -> np.ndarray:
    array = as_numpy(values, name)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: needs real numbers, got dtype {array.dtype}")
    return array


def inputs_of(
    plan, codes, factors, key, test, weights, variances, active, numbers=None, *, validation=None, bootstrap: int = 0
) -> tuple[MemberCodes, Shared]:
    """The checked arguments of a plan of metrics, split into what differs between members and what they share."""
    for name, value in (("weights", weights), ("active", active)):
        if value is not None:
            refuse_ignored(name, plan)
    for name, metric in plan:
        halved = bool(bootstrap) and metric.source.distinct_samples
        check_neighbors(metric.all_options, name, codes.shape[1], halved=halved)
    check_classes(plan, factors)
    check_validation(plan, validation is not None)
    split = any(metric.source.reads.test for _, metric in plan)
    return gathered(codes, factors, key, test, weights, variances, active, numbers, validation, split=split)


def gathered(
    codes, factors, key, test, weights, variances, active, numbers=None, validation=None, *, split: bool
) -> tuple[MemberCodes, Shared]:
    """The checked arguments of one or many members; ``split``: whether a metric needs held-out samples."""
    m, n, d = codes.shape
    key = checked_key(key)
    test_codes = test_factors = train_rows = test_rows = validation_codes = validation_factors = None
    if test is not None:
        test_codes, test_factors = _check_others("test", test, codes, factors)
    elif split:
        rows = jax.random.permutation(jax.random.fold_in(key, SPLIT_SEED), n)
        cut = max(1, min(n - 1, round(n * TRAIN_SHARE)))
        train_rows, test_rows = rows[:cut], rows[cut:]
    if validation is not None:
        validation_codes, validation_factors = _check_others("validation", validation, codes, factors)
    if variances is not None:
        variances = check_variances(check_codes(variances, "variances"), codes.shape)
    if active is not None:
        active = check_active(active, m, d)
    members = MemberCodes(check_numbers(numbers, m), codes, variances, test_codes, active, validation_codes)
    shared = Shared(key, factors, check_weights(weights, n), test_factors, train_rows, test_rows)
    return members, shared._replace(validation_factors=validation_factors)


def _check_others(role: str, pair, codes, factors: Factors):
    """Codes ``[m, n, d]`` and factors of other samples than the training samples."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{role}: needs a pair (codes, factors), got {type(pair).__name__}")
    others, values = check_codes(pair[0], f"{role} codes"), pair[1]
    others = others[None] if others.ndim == 2 else others
    if (others.shape[0], others.shape[2]) != (codes.shape[0], codes.shape[2]):
        raise ValueError(
            f"{role}: needs as many members and codes as the training codes, {codes.shape}, got {others.shape}"
        )
    try:
        if not isinstance(values, Factors):
            values = as_numpy(values, "factors")
            if values.ndim == 2 and values.shape[1] != factors.num_factors:
                raise ValueError(f"factors: needs {factors.num_factors} columns, got {values.shape[1]}")
            values = Factors.of(values, factors.sizes, factors.names)
        values = Factors.checked(values)
    except ValueError as error:
        raise ValueError(f"{role} {error}{_enough_sizes(values, factors)}") from None
    if values.sizes != factors.sizes:
        raise ValueError(f"{role}: needs factors of sizes {factors.sizes}, got {values.sizes}")
    check_same_samples(f"{role} codes", others, values)
    return others, dataclasses.replace(values, names=factors.names)


def _enough_sizes(values, factors: Factors) -> str:
    """The advice to declare classes that training lacks, if held-out class numbers are beyond its sizes."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" or values.ndim not in (1, 2):
        return ""
    highest = values.reshape(len(values), -1).max(axis=0, initial=0).tolist()
    pairs = list(zip(factors.sizes, highest, strict=False))
    if len(pairs) != len(highest) or not any(size is not None and high >= size for size, high in pairs):
        return ""
    sizes = tuple(size if size is None else max(size, high + 1) for size, high in pairs)
    return f"; declare classes that training lacks: Factors.of(values, sizes={sizes})"
