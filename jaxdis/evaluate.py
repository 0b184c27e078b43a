"""Many members × many metrics: check what came, score every member in one program, name the columns."""

import dataclasses
import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import batching
from jaxdis.member import Member, Plan, Shared, score_member, score_member_often, train_and_test
from jaxdis.metrics import METRICS, Blend, apply, metric_seed, prepared
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES
from jaxdis.spec import Spec
from jaxdis.table import Scores
from jaxdis.typing import Factors, Sample, as_numpy

# Of the samples given without a test set, the share that a metric with held-out samples trains on (2 : 1).
TRAIN_SHARE = 2 / 3
SPLIT_SEED = metric_seed("train and test")


def evaluate(
    codes,
    factors,
    metrics: str | Sequence | Mapping = "all",
    key: jax.Array | None = None,
    *,
    test=None,
    weights=None,
    variances=None,
    active=None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    numbers: Sequence[int] | None = None,
    bootstrap: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score one representation, or every member of a zoo, with the metrics asked for.

    Args:
      codes: ``[n, d]``, or ``[m, n, d]`` for a zoo of ``m`` members on the same samples: posterior means, usually.
        NumPy (memory-mapped too), JAX or DLPack (torch).
      factors: :class:`Factors`, or an array ``[n, k]`` of class numbers.
      metrics: ``"all"``, a name, names (``METRICS`` lists them), or a mapping from a column name of your own to a
        metric: ``{"mig_30": METRICS["mig"].with_options(bins=30)}``.
      key: typed PRNG key for the stochastic metrics; ``jax.random.key(0)`` when None.
      test: held-out ``(codes, factors)`` in the same shapes. When None, a metric that needs them splits the samples
        2 : 1 by the key, the same way for all members.
      weights: ``[n]`` ≥ 0, for metrics that can weigh samples.
      variances: posterior variances in the shape of codes, for the metrics of the sampled code.
      active: which codes count, ``[d]`` or ``[m, d]``; all when None.
      batch_size: members at one time on one device; chosen by backend and memory when None.
      devices: chosen by ``jax.devices()`` when None.
      numbers: ``m`` whole numbers that stand for the members in everything random; 0, 1, … when None.
      bootstrap: replicates behind :meth:`Scores.error` and :meth:`Scores.interval`; costs that many evaluations. All
        members see the same draws of samples, so differences between members are surer than each. A stochastic metric
        draws anew in every replicate: its own noise is part of the error.
      progress: called with members done and members in all after every chunk.

    Returns:
      :class:`Scores`, a mapping from columns to numbers (``[]``, or ``[m]`` for a zoo).

    Raises:
      ValueError: naming the argument, what came and what is needed.

    A member with non-finite codes is reported by a warning and scores NaN where a score reads them; no other member is
    touched. No number depends on which other members or metrics are evaluated, nor, up to float32 rounding, on
    ``batch_size`` and ``devices``.
    """
    plan = plan_of(metrics)
    codes = check_codes(codes, "codes")
    single = codes.ndim == 2
    codes = codes[None] if single else codes
    factors = _as_factors(factors)
    check_same_samples("codes", codes, factors)
    members, shared = _inputs(plan, codes, factors, key, test, weights, variances, active, numbers)
    devices = None if devices is None else tuple(devices)
    how = {"batch_size": batch_size, "devices": devices, "progress": progress}
    if not bootstrap:
        results, finite = batching.map_members(score_member, plan, members, shared, **how)
        again = {}
    else:
        _check_bootstrap(bootstrap)
        given = (plan, int(bootstrap))
        results, finite, again = batching.map_members(score_member_often, given, members, shared, **how)
    _warn_of_bad_codes(codes, finite)
    return _table(results, again, single, factors.names)


def relate(codes, factors, relation: str | Spec, key: jax.Array | None = None, *, test=None, weights=None) -> Relation:
    """One relation of one representation, by name (``RELATIONS`` lists them) or as a spec with options.

    Args and errors as :func:`evaluate`; codes ``[n, d]``.
    """
    spec = _look_up(relation, RELATIONS, "relation") if isinstance(relation, str) else relation
    codes = check_codes(codes, "codes")
    if codes.ndim != 2:
        raise ValueError(f"codes: needs shape [n, d] (one member), got {codes.shape}")
    factors = _as_factors(factors)
    check_same_samples("codes", codes[None], factors)
    row = Blend(spec, "gap")
    member, shared = _inputs((("relation", row),), codes[None], factors, key, test, weights, None, None)
    return _relate(spec, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), member), shared)


def blend_table(
    codes,
    factors,
    relations: Sequence[str] | None = None,
    scores: Sequence[str] | None = None,
    key: jax.Array | None = None,
    **options,
) -> Scores:
    """Every relation × every score; each relation is computed once.

    Args:
      relations: names; all when None.
      scores: names; all when None.
      options: as :func:`evaluate`.

    Returns:
      :class:`Scores` with columns ``relation/score`` and ``relation/score.field``.

    Reference: Locatello et al. 2020, §6.1 (every matrix under every aggregation). There the MIG aggregation divides any
    matrix by the factor's entropy; here each relation carries its own ceiling.
    """
    relations = _names(relations, RELATIONS, "relation")
    scores = _names(scores, SCORES, "score")
    table = {f"{relation}/{score}": Blend(relation, score) for relation in relations for score in scores}
    return evaluate(codes, factors, table, key, **options)


def plan_of(metrics) -> Plan:
    """Names and metrics in order, each checked.

    Raises:
      ValueError: for an empty list or an unknown name, with the nearest known one.
    """
    if isinstance(metrics, Mapping):
        plan = tuple((str(name), metric) for name, metric in metrics.items())
    else:
        names = list(METRICS) if isinstance(metrics, str) and metrics == "all" else metrics
        names = [names] if isinstance(names, str) else list(names)
        plan = tuple((name, _look_up(name, METRICS, "metric")) for name in dict.fromkeys(names))
    if not plan:
        raise ValueError(f"metrics: needs at least one metric, got none; the metrics are {', '.join(METRICS)}")
    return plan


def _relate(spec: Spec, member: Member, shared: Shared) -> Relation:
    key = jax.random.fold_in(shared.key, 0)
    train, held_out = train_and_test(Sample(member.codes, shared.factors, shared.weights), member, shared)
    return _apply_jitted(spec, key, train, held_out)


_apply_jitted = jax.jit(apply, static_argnums=0)
_prepared = jax.jit(prepared, static_argnums=0)


def _inputs(plan, codes, factors, key, test, weights, variances, active, numbers=None) -> tuple[Member, Shared]:
    """Everything checked and split into what differs between members and what they share."""
    m, n, d = codes.shape
    key = jax.random.key(0) if key is None else key
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise ValueError(f"key: needs a typed key such as jax.random.key(0), got an array of dtype {key.dtype}")
    test_codes = test_factors = train_rows = test_rows = None
    if test is not None:
        test_codes, test_factors = _check_test(test, codes, factors)
    elif any(metric.needs("test") for _, metric in plan):
        rows = jax.random.permutation(jax.random.fold_in(key, SPLIT_SEED), n)
        cut = max(1, min(n - 1, round(n * TRAIN_SHARE)))
        train_rows, test_rows = rows[:cut], rows[cut:]
    if variances is not None:
        variances = check_codes(variances, "variances")
        variances = variances[None] if variances.ndim == 2 else variances
        if variances.shape != codes.shape:
            raise ValueError(f"variances: needs the shape of codes, {codes.shape}, got {variances.shape}")
    if active is not None:
        active = np.broadcast_to(as_numpy(active, "active").astype(bool), (m, d))
    numbers = np.arange(m) if numbers is None else np.asarray(numbers)
    if numbers.shape != (m,):
        raise ValueError(f"numbers: needs {m} entries, one a member, got shape {numbers.shape}")
    members = Member(numbers.astype(np.uint32), codes, variances, test_codes, active)
    draws = {name: _prepared(metric, key, factors) for name, metric in plan}
    shared = Shared(key, factors, _check_weights(weights, n), test_factors, train_rows, test_rows, draws)
    return members, shared


def check_codes(codes, name: str):
    """Codes as float32, ``[n, d]`` or ``[m, n, d]``, on the host unless they are JAX's already."""
    array = codes if isinstance(codes, jax.Array) else as_numpy(codes, name)
    if array.ndim not in (2, 3):
        raise ValueError(f"{name}: needs shape [n, d] or [m, n, d] (members, samples, codes), got {array.shape}")
    if array.dtype.kind not in "fiub" and array.dtype != jnp.bfloat16:
        raise ValueError(f"{name}: needs real numbers, got dtype {array.dtype}")
    if array.shape[-2] < 2:
        raise ValueError(f"{name}: needs at least 2 samples, got {array.shape[-2]} in shape {array.shape}")
    if 0 in array.shape:
        raise ValueError(f"{name}: needs at least one member and one code, got shape {array.shape}")
    return array if array.dtype == np.float32 else array.astype(np.float32)


def check_same_samples(name: str, codes, factors: Factors) -> None:
    if codes.shape[1] != factors.num_samples:
        raise ValueError(
            f"{name}: needs as many samples as factors, got {codes.shape[1]} (axis 1 of [m, n, d] or 0 of [n, d]) "
            f"against {factors.num_samples}"
        )


def _as_factors(factors) -> Factors:
    return factors if isinstance(factors, Factors) else Factors.of(factors)


def _check_test(test, codes, factors: Factors):
    try:
        test_codes, test_values = test
    except (TypeError, ValueError):
        raise ValueError(f"test: needs a pair (codes, factors), got {type(test).__name__}") from None
    test_codes = check_codes(test_codes, "test codes")
    test_codes = test_codes[None] if test_codes.ndim == 2 else test_codes
    if (test_codes.shape[0], test_codes.shape[2]) != (codes.shape[0], codes.shape[2]):
        raise ValueError(
            f"test: needs as many members and codes as the training codes, {codes.shape}, got {test_codes.shape}"
        )
    if not isinstance(test_values, Factors):
        test_values = Factors.of(test_values, factors.sizes, factors.names)
    if test_values.sizes != factors.sizes:
        raise ValueError(f"test: needs factors of sizes {factors.sizes}, got {test_values.sizes}")
    check_same_samples("test codes", test_codes, test_values)
    return test_codes, dataclasses.replace(test_values, names=factors.names)


def _check_weights(weights, n: int):
    if weights is None:
        return None
    array = as_numpy(weights, "weights").astype(np.float32)
    if array.shape != (n,):
        raise ValueError(f"weights: needs shape [{n}] (samples), got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.sum() > 0:
        raise ValueError("weights: needs finite numbers of at least 0 that are not all 0")
    return jnp.asarray(array)


def _look_up(name, table: Mapping, kind: str):
    if not isinstance(name, str):
        raise ValueError(f"{kind}s: needs names, got {name!r}; give metrics of your own as a mapping name → metric")
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{kind}s: unknown {kind} {name!r}{hint} The {kind}s are {', '.join(table)}")
    return table[name]


def _names(names, table, kind: str) -> list[str]:
    names = list(table) if names is None else [names] if isinstance(names, str) else list(names)
    if not names:
        raise ValueError(f"{kind}s: needs at least one {kind}, got none; the {kind}s are {', '.join(table)}")
    for name in names:
        _look_up(name, table, kind)
    return names


def _warn_of_bad_codes(codes, finite: np.ndarray) -> None:
    members = np.flatnonzero(~finite)
    if len(members):
        count = sum(int((~np.isfinite(np.asarray(codes[member]))).sum()) for member in members)
        shown = ", ".join(map(str, members[:10])) + (", …" if len(members) > 10 else "")
        warnings.warn(
            f"codes: {count} non-finite values in {len(members)} of {len(finite)} members ({shown}); "
            "scores that read them are NaN, other members are not touched",
            RuntimeWarning,
            stacklevel=3,
        )


def _check_bootstrap(count) -> None:
    if isinstance(count, bool) or count != int(count) or count < 2:
        raise ValueError(f"bootstrap: needs a whole number of replicates, at least 2, got {count!r}")


def _table(results: dict, again: dict, single: bool, factor_names) -> Scores:
    """Scalars become columns (``score`` takes the metric's own name), arrays become parts."""
    columns, parts, replicated = {}, {}, {}
    for metric, result in results.items():
        for field, values in result._asdict().items():
            if values is None:
                continue
            if values.ndim == 1:
                column = metric if field == "score" else f"{metric}.{field}"
                columns[column] = values[0] if single else values
                if again:
                    replicated[column] = again[metric][field][0] if single else again[metric][field]
            else:
                parts[f"{metric}.{field}"] = values[0] if single else values
    return Scores(columns, parts, factor_names, replicated)
