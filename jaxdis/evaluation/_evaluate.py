"""Many members × many metrics: score every member, and name the columns."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import executor
from jaxdis._core.display import Progress, reported
from jaxdis._core.lookup import names_of
from jaxdis._core.options import Count, checked_devices, checked_key, checked_value, shown
from jaxdis._core.precision import single_precision
from jaxdis.codes import stack
from jaxdis.evaluation._affordable import OnMemory, Run, affordable, with_missing
from jaxdis.evaluation._costs import Size
from jaxdis.evaluation._described import described
from jaxdis.evaluation._each import check_each, evaluate_each, lack_values, parts_of
from jaxdis.evaluation._groups import Signs, check_groups, notes_on, signs_of
from jaxdis.evaluation._inputs import bind, is_pair
from jaxdis.evaluation._left_out import check_circular, left_out_of
from jaxdis.evaluation._member import MemberCodes, Plan, Shared, score_member_often
from jaxdis.evaluation._member_rows import check_names, member_rows
from jaxdis.evaluation._notes import known, notes_of, notes_on_codes, unjudged
from jaxdis.evaluation._null import Null, judged_by_chance, permuted
from jaxdis.evaluation._results import Scores
from jaxdis.evaluation._stages import seconds_of, shared_by, stages_of
from jaxdis.evaluation._strengths import MOST_KEPT, kept, largest, with_relations
from jaxdis.evaluation._warnings import warn_of_constant, warn_of_non_finite, warn_of_range
from jaxdis.evaluation._wide import block_of, score_by_blocks, takes_blocks
from jaxdis.factors import Factors
from jaxdis.metrics import Blend
from jaxdis.metrics._metric import axes_of, is_error
from jaxdis.metrics._plan import check_reads, check_samples, plan_of
from jaxdis.metrics._presets import preset_metrics
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES

MOST_REPLICATES = 10**6


@single_precision
def evaluate(
    codes,
    factors,
    metrics: str | Sequence | Mapping = "standard",
    key: PRNGKeyArray | int | None = None,
    *,
    test=None,
    validation=None,
    weights=None,
    variances=None,
    active=None,
    groups=None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    numbers: Sequence[int] | None = None,
    bootstrap: int = 0,
    null: int | str | tuple[str, int] = 0,
    progress: Progress = False,
    arrived: Callable[[Scores], None] | None = None,
    members=None,
    ragged: bool = False,
    preset: str | None = None,
    on_memory: OnMemory = "refuse",
    deterministic: bool = False,
) -> Scores:
    """Score one representation, or every member of a zoo, with the given metrics.

    Args:
      codes: ``[n, d]``, or ``[m, n, d]`` for a zoo of ``m`` members on the same samples; usually posterior means. NumPy
        (also memory-mapped), JAX, DLPack (torch), or sparse ``[n, d]`` (SciPy, BCOO), which are made dense. Beyond 67
        million numbers, metrics that take codes one by one read blocks (``numpy.load(path, mmap_mode="r")`` then leaves
        the codes on disk).
      factors: :class:`Factors`, or class numbers ``[n, k]``. If codes have as many samples as the table read by
        :meth:`Factors.from_table` has rows, the rows that it kept are taken. If factors lack values
        (``missing="each"``), each is scored on the samples that have it, which compiles a program for every pattern in
        which values are missing; metrics that need all of a sample's factors are refused.
      metrics: ``"standard"``: MIG, modularity, SAP, MCC, explicitness and DCI by forests, less those that need classes
        where all factors are continuous; ``"all"``; a name; names (``METRICS`` lists them); or a mapping from column
        names to metrics: ``{"mig_30": METRICS["mig"].with_options(bins=30)}``. Columns are returned in this order.
      key: PRNG key for stochastic metrics, or a seed: ``jax.random.key(0)`` and 0 are the same, and the default.
      test: held-out ``(codes, factors)`` in the same shapes. When None, metrics that need them split the samples 2 : 1
        by the key, in the same way for all members.
      validation: other samples, ``(codes, factors)`` in the same shapes, on which metrics choose an option that was
        given several values, such as ``penalty`` in ``dci_lasso`` and ``depth`` in ``dci_forest``. Required by such
        metrics; others do not read them. :func:`relate` returns what is chosen.
      weights: ``[n]`` ≥ 0, one per sample. Refused if a metric cannot weight samples.
      variances: posterior variances, shaped like codes. Metrics that sample codes read them. Without them ``rmig``,
        ``jemmig`` and sampled representations take each code as it is; ``unibound``, ``sepin`` and its kin assume a
        deviation of ``noise`` times each code's own, and say so in a note. Other metrics read only the codes.
      active: which codes are scored, ``[d]`` or ``[m, d]``; all when None.
      groups: which samples belong together, ``[n]`` whole numbers or text, such as each frame's episode, each trial's
        session, or each copy's original. Splits, folds inside metrics, bootstrap replicates and
        permutations then move whole groups. Samples count as independent when None; a note says so if they seem not to
        be, as long as they are in order.
      batch_size: members computed at once per device; chosen by backend and memory when None.
      devices: when None, one per member from ``jax.devices()``. On CPU, given devices are all used, so that zoos large
        and small share a program.
      numbers: the members' integer ids, ``[m]``, folded into each member's random key; 0 … m − 1 when None.
      bootstrap: how many replicates to draw for :meth:`Scores.error` and :meth:`Scores.interval`, each of which costs
        an evaluation. All members share the drawn samples, so that differences between members are more certain than
        each score. Stochastic metrics draw new random numbers in every replicate: their own noise is part of the error.
      null: how many permutations to draw for :meth:`Scores.null`, :meth:`Scores.above_null` and :meth:`Scores.p_value`,
        each of which costs an evaluation: what the same codes score if samples get other samples' factors, the same
        permutation for all factors and members. The best among 65,536 codes that are noise is far from 0; this says how
        far. With ``groups``, whole groups exchange their factors. ``("shift", 100)`` turns the factors around in
        time, within each group if there are any, 100 times: for stationary series whose samples are in order. Where
        signals drift without end, shifts find relations that are none; permute whole sessions there (Harris 2020).
        Nulls are scored in the same batches and blocks as the scores, without replicates: ``bootstrap`` says how sure a
        score is, ``null`` what it would be by chance. Metrics that read codes alone have none; weights and factors that
        lack values are refused.
      progress: True draws a bar over metrics and members on a terminal or in a notebook; a function is called with how
        many members are finished, and how many there are, after every chunk; ``null`` counts them again and again.
      arrived: called with the scores by some metrics for a chunk's members as soon as they are computed. Metrics that
        share what they compute are compiled together, apart from the others, quick ones first.
      members: what is known about the members, for :attr:`Scores.members`: names, a dict for each (such as a zoo's
        labels), or columns in a mapping or a data frame, where ``member`` holds the names. They are numbered when None.
      preset: another library, whose numbers the metrics reproduce by their options: ``"disentanglement_lib"``,
        ``"disent"``, ``"carbonneau"``, ``"latte"``, ``"do2020"`` or ``"drvi"``; all its metrics, or those named. drvi's
        has a column for each score and relation, and asks for a code per class: :meth:`Factors.one_hot`.
      ragged: whether ``codes`` is a list of arrays ``[n, d]``, one per member, that differ in width, and likewise
        ``variances`` and the codes in ``test`` and ``validation``; :func:`jaxdis.stack` makes them one array.
      on_memory: what happens to a metric that needs more memory than is free on the host (within a container's limits)
        or on the device, by a formula that ``jaxdis list metrics NAME`` prints. ``"refuse"`` raises an error before
        anything is computed; ``"skip"`` computes the others, its columns are NaN, and :attr:`Scores.notes` says why. An
        evaluation that will take more than a minute is announced by the logger ``jaxdis``.
      deterministic: whether scores must be the same bits in every run on a GPU. Some metrics add numbers there in an
        order that differs between runs, and with it the last digits. Other forms take longer: boosted trees take an
        estimated 70 ms a member instead of 16 on an H100. CPUs and TPUs always repeat their scores.

    Returns:
      :class:`Scores`, a mapping from columns to numbers (``[]``, or ``[m]`` for a zoo).

    Raises:
      ValueError: naming the argument, what it needs and what it got.

    A member with non-finite codes is reported by a warning, and its scores are NaN if they read these codes; other
    members are unaffected. A code whose largest value lies beyond 1e-30 … 1e30 is reported, too. Up to
    float32 rounding, no number depends on which other members or metrics are evaluated, on ``batch_size`` or on
    ``devices``.
    """
    metrics = preset_metrics(preset, metrics)
    plan, how = plan_of(metrics), _check_run(batch_size, devices, progress, deterministic)
    bootstrap, null = _check_bootstrap(bootstrap), Null.of(null, weights=weights)
    checked_value("on_memory", OnMemory, on_memory)
    checked_value("arrived", Callable | None, arrived)
    arrays = {"test": test, "validation": validation, "weights": weights, "variances": variances, "active": active}
    arrays["groups"] = groups
    if checked_value("ragged", bool, ragged):
        codes, arrays = _stacked(codes, arrays)
    given = {name: arrays[name] is not None for name in ("weights", "active", "validation", "variances")}
    standard = isinstance(metrics, str) and metrics == "standard"
    if isinstance(factors, Factors) and not standard:
        check_circular({name: metric.source for name, metric in plan}, factors)
    if lack_values(factors, test, validation):
        if null.count:
            raise ValueError("null: must have factors without missing values; read them with missing='drop'")
        return _evaluate_gaps(
            plan, codes, factors, key, arrays, numbers, members, standard, bootstrap, arrived, on_memory, how
        )
    split = any(metric.source.reads.test for _, metric in plan)
    member_codes, shared, single = bind(codes, factors, key, **arrays, numbers=numbers, split=split)
    rows = member_rows(members, len(member_codes.codes))
    check_names(rows, dict(plan))
    left_out = left_out_of(plan, shared.factors.sizes, shared.factors.periods) if standard else {}
    plan = tuple(each for each in plan if each[0] not in left_out)
    check_reads(plan, **{name: given[name] for name in ("weights", "active", "validation")})
    check_samples(plan, shared.factors, bootstrap=bool(bootstrap))
    warn_of_constant(plan, shared.factors)
    held_out = _held_out(member_codes, shared)
    size = Size.of(*member_codes.codes.shape[1:], shared.factors.sizes, held_out=_given_apart(member_codes))
    block = block_of(member_codes, bootstrap)
    judged_by_chance(plan, null.count)  # refuses before anything is computed
    moved = {"bootstrap": bootstrap, "permutations": null.count if null.kind == "permutation" else 0}
    for purpose in (name for name, count in moved.items() if count):
        check_groups(shared.groups, purpose, test, validation)
    run = Run.of(
        size, _bytes(member_codes) // len(rows), len(rows), bootstrap=bootstrap, null=null.count, block=block, **how
    )
    asked, (plan, missing) = plan, affordable(plan, run, on_memory)
    few = member_codes.codes.shape[2] * shared.factors.num_factors * len(rows) * max(1, bootstrap) <= MOST_KEPT
    listed, names = with_relations(plan) if few else plan, dict(plan)

    def computed(plan, shared, bootstrap, tell, number):
        stages, parts = stages_of(plan), []
        in_blocks = [stage for stage in stages if block is not None and takes_blocks(stage[0][1].source)]
        for stage in in_blocks:
            parts.append(score_by_blocks(stage, member_codes, shared, {**how, "progress": None}))
            if tell is not None:
                tell((stage, bootstrap), parts[-1])
        return parts + executor.map_stages(
            score_member_often,
            [(stage, bootstrap) for stage in stages if stage not in in_blocks],
            member_codes,
            lambda stage_and_count: shared_by(stage_and_count[0], shared),
            arrived=tell,
            seconds_of=lambda stage_and_count: seconds_of(stage_and_count[0]),
            **{**how, "progress": _in_turn(how["progress"], number, 1 + null.count)},
        )

    def merged(parts, place):
        return {name: result for part in parts for name, result in part[place].items()}

    def table(plan, parts):
        plan = tuple(each for each in plan if each[0] in names)
        return _table(plan, merged(parts, 0), merged(parts, 2), single, shared.factors.names)

    judged = judged_by_chance(listed, 0)
    with reported(True if progress is True else None, "scoring", "metrics × members") as show:
        counted = len(plan) + null.count * sum(name in names for name, _ in judged)
        done, total = 0, counted * len(rows)

        def came(stage_and_count, part, told=arrived):
            nonlocal done
            stage, _ = stage_and_count
            asked_for = [name for name, _ in stage if name in names]
            done += len(asked_for) * len(part[1])
            show(done, total, ", ".join(asked_for))
            if told is not None:
                told(table(stage, [part]))

        watched = progress is True
        parts = computed(listed, shared, bootstrap, came if watched or arrived is not None else None, 0)
        tell = functools.partial(came, told=None) if watched else None
        nulls, strongest = [], []
        for number in range(1, null.count + 1) if judged else ():
            again = computed(judged, permuted(shared, null, number), 0, tell, number)
            nulls.append(table(judged, again).columns)
            strongest.append(largest(merged(again, 0)))
    roles = {"codes": member_codes.codes, "test codes": member_codes.test_codes}
    roles["validation codes"] = member_codes.validation_codes
    suspects = np.flatnonzero(~np.all([sound for _, sound, _ in parts], axis=0)) if parts else ()
    warn_of_non_finite({**roles, "variances": member_codes.variances}, suspects)
    warn_of_range(roles, suspects)
    nulls = {name: np.stack([columns[name] for columns in nulls], axis=-1) for name in (nulls[0] if nulls else ())}
    errors = tuple(name for name in nulls if is_error(name, names))
    relations = kept(merged(parts, 0), merged(parts, 2), strongest, single)
    scores = dataclasses.replace(table(plan, parts), members=rows, nulls=nulls, errors=errors, relations=relations)
    described_as = member_codes.codes.shape, shared.factors, shared.key, held_out, bootstrap, null, shared.groups
    apart, samples = unjudged(shared), shared.factors.num_samples
    notes = notes_of(plan, scores, known(shared.factors), samples, apart, given["variances"])
    signs = Signs() if shared.groups is not None else signs_of(member_codes.few(1)[0][0], shared.factors)
    dependence = notes_on(plan, signs, splits=test is None, redraws=bool(bootstrap or null.count))
    notes = (*notes, *notes_on_codes(plan, member_codes), *dependence, *left_out.items())
    scores = dataclasses.replace(scores, evaluation=described(asked, *described_as), notes=notes)
    return with_missing(scores, asked, missing, single)


def _evaluate_gaps(
    plan, codes, factors, key, arrays, numbers, members, standard, bootstrap, arrived, on_memory, how
) -> Scores:
    """As :func:`evaluate`, for factors that lack values."""
    factors, key = Factors.checked(factors, gaps=True), checked_key(key)
    left_out = left_out_of(plan, factors.sizes, factors.periods) if standard else {}
    plan = tuple(each for each in plan if each[0] not in left_out)
    check_reads(plan, **{name: arrays[name] is not None for name in ("weights", "active", "validation")})
    check_each(plan, bootstrap)
    parts = parts_of(codes, factors, **arrays, numbers=numbers)
    single = parts.whole.codes.ndim == 2
    rows = member_rows(members, 1 if single else len(parts.whole.codes))
    check_names(rows, dict(plan))

    def table(plan, results):
        return _table(plan, results, {}, single, factors.names)

    size = Size.of(*parts.whole.codes.shape[-2:], factors.sizes)
    run = Run.of(size, parts.whole.codes.nbytes // len(rows), len(rows), bootstrap=bootstrap, **how)
    asked, (plan, missing) = plan, affordable(plan, run, on_memory)
    scores = table(plan, evaluate_each(evaluate, table, plan, parts, key, arrived, **how))
    shape = (len(rows), *parts.whole.codes.shape[-2:])
    whole = parts.whole.factors
    evaluation = described(asked, shape, whole, key, None, bootstrap, groups=parts.whole.arguments["groups"])
    notes = notes_of(plan, scores, known(whole), whole.num_samples, (), arrays["variances"] is not None)
    notes = (*notes, *notes_on_codes(plan, MemberCodes.of(parts.whole.codes)), *left_out.items())
    scores = dataclasses.replace(scores, members=rows, evaluation=evaluation, notes=notes)
    return with_missing(scores, asked, missing, single)


def _given_apart(members: MemberCodes) -> int | None:
    """How many held-out samples were given; None if a share is held out."""
    return None if members.test_codes is None else members.test_codes.shape[1]


def _bytes(members: MemberCodes) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(members))


def _held_out(members: MemberCodes, shared: Shared) -> int | None:
    """How many samples are held out; None if no metric reads any."""
    if members.test_codes is not None:
        return _given_apart(members)
    return None if shared.test_rows is None else len(shared.test_rows)


@single_precision
def blend_table(
    codes,
    factors,
    relations: Sequence[str] | None = None,
    scores: Sequence[str] | None = None,
    key: PRNGKeyArray | int | None = None,
    **arguments,
) -> Scores:
    """Compute every score from every relation; each relation is computed once.

    Args:
      relations: names; all when None.
      scores: names; all when None.
      arguments: passed to :func:`evaluate`.

    Returns:
      :class:`Scores` with columns ``relation/score`` and ``relation/score.field``.

    Reference: Locatello et al. 2020, §6.1 (every matrix under every aggregation). There the MIG aggregation divides any
    matrix by the factor's entropy; here each relation carries its own ceiling.
    """
    relations = names_of("all" if relations is None else relations, RELATIONS, "relation")
    scores = names_of("all" if scores is None else scores, SCORES, "score")
    check_arguments(arguments)
    table = {f"{relation}/{score}": Blend(relation, score) for relation in relations for score in scores}
    return evaluate(codes, factors, table, key, **arguments)


def check_arguments(arguments) -> dict:
    """What is passed on to :func:`evaluate`, by name.

    Raises:
      ValueError: for a name that it does not have.
    """
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ValueError(f"arguments: must be a mapping of arguments of evaluate, got {shown(arguments)}")
    parameters = inspect.signature(evaluate).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in arguments:
        if name not in names:
            raise ValueError(f"arguments: must have names among {', '.join(names)}, got {shown(name)}")
    return dict(arguments)


def _stacked(codes, arrays: dict) -> tuple[np.ndarray, dict]:
    """Codes that differ in width as one array, and all arrays beside them."""
    if arrays["active"] is not None:
        raise ValueError("active: must be left to ragged=True; to choose codes, stack them by jaxdis.stack")
    codes, active = stack(codes)
    variances = None if arrays["variances"] is None else stack(arrays["variances"]).codes
    pairs = {name: arrays[name] for name in ("test", "validation") if is_pair(arrays[name])}
    pairs = {name: (stack(given).codes, factors) for name, (given, factors) in pairs.items()}
    return codes, {**arrays, **pairs, "active": active, "variances": variances}


def _check_run(batch_size, devices, progress, deterministic) -> dict:
    """The executor's arguments."""
    checked_value("progress", Progress, progress)
    return {
        "batch_size": checked_value("batch_size", Count | None, batch_size),
        "devices": checked_devices(devices),
        "progress": progress if callable(progress) else None,
        "deterministic": checked_value("deterministic", bool, deterministic),
    }


def _in_turn(progress: Callable | None, number: int, passes: int) -> Callable | None:
    """Count members over all passes."""
    return None if progress is None else lambda done, count: progress(number * count + done, passes * count)


def _check_bootstrap(count) -> int:
    count = checked_value("bootstrap", int, count)
    if count == 1 or not 0 <= count <= MOST_REPLICATES:
        raise ValueError(f"bootstrap: must be a whole number of replicates, at least 2, got {count}")
    return count


def _table(plan: Plan, results: dict, replicates: dict, single: bool, factor_names) -> Scores:
    """Scalars become columns (``score`` takes the metric's own name), arrays become parts."""
    columns, parts, replicated = {}, {}, {}
    for metric, _ in plan:  # a compiled program returns its results in alphabetical order
        for field, values in results[metric]._asdict().items():
            if values is None:
                continue
            if values.ndim == 1:
                column = metric if field == "score" else f"{metric}.{field}"
                columns[column] = values[0] if single else values
                if replicates:
                    replicated[column] = replicates[metric][field][0] if single else replicates[metric][field]
            else:
                parts[f"{metric}.{field}"] = values[0] if single else values
    axes = {f"{name}.{field}": letters for name, metric in plan for field, letters in axes_of(metric).items()}
    return Scores(columns, parts, factor_names, replicated, axes={name: axes[name] for name in parts if name in axes})
