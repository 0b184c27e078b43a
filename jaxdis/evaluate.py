"""Many members × many metrics: check what came, score every member in one program, name the columns."""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import executor
from jaxdis.arguments import (
    Plan,
    check_active,
    check_bootstrap,
    check_neighbours,
    check_numbers,
    check_run,
    check_variances,
    check_weights,
    look_up,
    names_of,
    near_zero,
    plan_of,
    refuse_ignored,
)
from jaxdis.arrays import as_numpy
from jaxdis.member import Member, Shared, score_member, score_member_often, train_and_test
from jaxdis.metrics import Blend, apply, metric_seed, prepared
from jaxdis.options import checked_key, shown
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES
from jaxdis.spec import Spec
from jaxdis.table import Scores
from jaxdis.typing import Factors, Sample

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
        metric: ``{"mig_30": METRICS["mig"].with_options(bins=30)}``. Columns come back in this order.
      key: typed PRNG key for the stochastic metrics; ``jax.random.key(0)`` when None.
      test: held-out ``(codes, factors)`` in the same shapes. When None, a metric that needs them splits the samples
        2 : 1 by the key, the same way for all members.
      weights: ``[n]`` ≥ 0, one per sample. Refused if one of the metrics cannot weigh samples.
      variances: posterior variances in the shape of codes. The metrics of the sampled code read them; without them they
        take the codes as they are given. Other metrics read the codes alone.
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
    plan, how, bootstrap = plan_of(metrics), check_run(batch_size, devices, progress), check_bootstrap(bootstrap)
    codes, test = near_zero(codes, test)
    codes = check_codes(codes, "codes")
    single = codes.ndim == 2
    codes = codes[None] if single else codes
    factors = Factors.checked(factors)
    check_same_samples("codes", codes, factors)
    members, shared = _inputs(plan, codes, factors, key, test, weights, variances, active, numbers)
    if not bootstrap:
        results, finite = executor.map_members(score_member, plan, members, shared, **how)
        again = {}
    else:
        given = (plan, bootstrap)
        results, finite, again = executor.map_members(score_member_often, given, members, shared, **how)
    _warn_of_bad_codes(codes, finite)
    return _table(plan, results, again, single, factors.names)


def relate(
    codes,
    factors,
    relation: str | Spec,
    key: jax.Array | None = None,
    *,
    test=None,
    weights=None,
    variances=None,
    active=None,
) -> Relation:
    """One relation of one representation, by name (``RELATIONS`` lists them) or as a spec with options.

    Args and errors as :func:`evaluate`; codes and variances ``[n, d]``, ``active [d]``. An argument that the relation
    does not read is refused. ``mutual_information_sampled`` samples only if it is given ``variances``: without them it
    takes each code as it is, which for posterior means is the information in the mean and not in the sampled code.
    """
    spec = relation if isinstance(relation, Spec) else look_up(relation, RELATIONS, "relation")
    codes, test = near_zero(codes, test)
    given = {"test": test, "weights": weights, "variances": variances, "active": active}
    for name, value in given.items():
        if value is not None and not spec.takes(name):
            raise ValueError(f"{name}: needs a relation that reads it, got {spec}")
    codes = check_codes(codes, "codes")
    if codes.ndim != 2:
        raise ValueError(f"codes: needs shape [n, d] (one member), got {codes.shape}")
    factors = Factors.checked(factors)
    check_same_samples("codes", codes[None], factors)
    check_neighbours(spec.knobs, spec.name, len(codes))
    members, shared = _gathered(codes[None], factors, key, **given, split=spec.takes("test"))
    return _relate(spec, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), members), shared)


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
      options: further arguments of :func:`evaluate`.

    Returns:
      :class:`Scores` with columns ``relation/score`` and ``relation/score.field``.

    Reference: Locatello et al. 2020, §6.1 (every matrix under every aggregation). There the MIG aggregation divides any
    matrix by the factor's entropy; here each relation carries its own ceiling.
    """
    relations = names_of("all" if relations is None else relations, RELATIONS, "relation")
    scores = names_of("all" if scores is None else scores, SCORES, "score")
    check_options(options)
    table = {f"{relation}/{score}": Blend(relation, score) for relation in relations for score in scores}
    return evaluate(codes, factors, table, key, **options)


def check_options(options) -> dict:
    """Further arguments of :func:`evaluate`, by name.

    Raises:
      ValueError: for a name that it does not have.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ValueError(f"options: needs a mapping of arguments of evaluate, got {shown(options)}")
    parameters = inspect.signature(evaluate).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise ValueError(f"options: needs names among {', '.join(known)}, got {shown(name)}")
    return dict(options)


def _relate(spec: Spec, member: Member, shared: Shared) -> Relation:
    key = jax.random.fold_in(shared.key, 0)
    whole = Sample(member.codes, shared.factors, shared.weights, member.variances)
    train, held_out = train_and_test(whole, member, shared)
    return _apply_jitted(spec, key, train if spec.takes("test") else whole, held_out, member.active)


_apply_jitted = jax.jit(apply, static_argnums=0)
_prepared = jax.jit(prepared, static_argnums=0)


def _inputs(plan, codes, factors, key, test, weights, variances, active, numbers=None) -> tuple[Member, Shared]:
    """Everything checked and split into what differs between members and what they share, for a plan of metrics."""
    for name, value in (("weights", weights), ("active", active)):
        if value is not None:
            refuse_ignored(name, plan)
    for name, metric in plan:
        check_neighbours(metric.knobs, name, codes.shape[1])
    split = any(metric.needs("test") for _, metric in plan)
    members, shared = _gathered(codes, factors, key, test, weights, variances, active, numbers, split=split)
    draws = {name: _prepared(metric, shared.key, factors) for name, metric in plan}
    return members, shared._replace(draws=draws)


def _gathered(
    codes, factors, key, test, weights, variances, active, numbers=None, *, split: bool
) -> tuple[Member, Shared]:
    """The arguments of one or many members, checked; ``split``: whether something asks for held-out samples."""
    m, n, d = codes.shape
    key = checked_key(key)
    test_codes = test_factors = train_rows = test_rows = None
    if test is not None:
        test_codes, test_factors = _check_test(test, codes, factors)
    elif split:
        rows = jax.random.permutation(jax.random.fold_in(key, SPLIT_SEED), n)
        cut = max(1, min(n - 1, round(n * TRAIN_SHARE)))
        train_rows, test_rows = rows[:cut], rows[cut:]
    if variances is not None:
        variances = check_variances(check_codes(variances, "variances"), codes.shape)
    if active is not None:
        active = check_active(active, m, d)
    members = Member(check_numbers(numbers, m), codes, variances, test_codes, active)
    return members, Shared(key, factors, check_weights(weights, n), test_factors, train_rows, test_rows, {})


def check_codes(codes, name: str):
    """Codes as float32, ``[n, d]`` or ``[m, n, d]``, on the host unless they are JAX's already."""
    on_device = isinstance(codes, jax.Array) and not isinstance(codes, jax.core.Tracer)
    array = codes if on_device else as_numpy(codes, name)
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


def _check_test(test, codes, factors: Factors):
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise ValueError(f"test: needs a pair (codes, factors), got {type(test).__name__}")
    test_codes, test_values = test
    test_codes = check_codes(test_codes, "test codes")
    test_codes = test_codes[None] if test_codes.ndim == 2 else test_codes
    if (test_codes.shape[0], test_codes.shape[2]) != (codes.shape[0], codes.shape[2]):
        raise ValueError(
            f"test: needs as many members and codes as the training codes, {codes.shape}, got {test_codes.shape}"
        )
    try:
        given = isinstance(test_values, Factors)
        test_values = Factors.checked(test_values) if given else Factors.of(test_values, factors.sizes, factors.names)
    except ValueError as error:
        raise ValueError(f"test {error}") from None
    if test_values.sizes != factors.sizes:
        raise ValueError(f"test: needs factors of sizes {factors.sizes}, got {test_values.sizes}")
    check_same_samples("test codes", test_codes, test_values)
    return test_codes, dataclasses.replace(test_values, names=factors.names)


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


def _table(plan: Plan, results: dict, again: dict, single: bool, factor_names) -> Scores:
    """Scalars become columns (``score`` takes the metric's own name), arrays become parts."""
    columns, parts, replicated = {}, {}, {}
    for metric, _ in plan:  # a compiled program returns its results in alphabetical order
        for field, values in results[metric]._asdict().items():
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
