"""Structured disentanglement for many members whose slots are in any order, over groups of similar samples."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import executor, random
from jaxdis._core.arrays import as_numpy, check_one_array, safe_divide
from jaxdis._core.display import Progress, reported
from jaxdis._core.options import (
    Count,
    Natural,
    Positive,
    Range,
    Share,
    checked,
    checked_devices,
    checked_key,
    checked_value,
    listed,
    look_up,
    shown,
)
from jaxdis._core.spec import Spec
from jaxdis.evaluation._inputs import check_codes, check_numbers, read_codes
from jaxdis.evaluation._request import warn_of_non_finite
from jaxdis.evaluation._scores import Scores
from jaxdis.factors import Factors, Sample
from jaxdis.metrics._metric import SPLIT_SEED, apply
from jaxdis.metrics._plan import check_circular
from jaxdis.relations import RELATIONS
from jaxdis.relations._learned import PRESETS
from jaxdis.scores._structure import Levels, Structure
from jaxdis.scores._structured_score import NOISE, background, drop_small, score_of
from jaxdis.structured._probing import Encoding, Start, layout_of, probe

# Dang-Nhu 2022, App. C.4: 4,000 of 5,000 samples fit the predictor.
TRAIN_SHARE = 0.8
ValidationShare = Annotated[float, Range(0, 0.2, below=True)]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is static in a compiled program; see :func:`evaluate_structured` for the fields."""

    structure: Structure
    projections: tuple[tuple[str, ...], ...]
    objects: tuple[tuple[int, ...], ...]
    background: str | None
    categorical: tuple[int, ...]
    encoding: Encoding
    start: Start
    iterations: int
    penalty: float
    threshold: float
    final: Spec
    validation_share: float


class SlotCodes(NamedTuple):
    """What differs between members: their numbers, and their slots' codes."""

    number: jax.Array
    codes: jax.Array


class Shared(NamedTuple):
    """What all members share; ``rows [g, q]``: each group's samples, training samples first."""

    key: PRNGKeyArray
    factors: Factors
    rows: jax.Array


@checked
def evaluate_structured(
    codes,
    factors,
    structure: Structure,
    *,
    key: PRNGKeyArray | None = None,
    groups=1,
    projections: Sequence[Levels] | None = None,
    background: str | None = None,
    categorical: Sequence[str | int] = (),
    encoding: Encoding = "ordered",
    start: Start = "best",
    iterations: Natural = 100,
    penalty: Positive = 1.0,
    threshold: Share = NOISE,
    final: str | Spec = PRESETS["dangnhu2022"],
    validation_share: ValidationShare = 0.0,
    numbers: Sequence[int] | None = None,
    batch_size: Count | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: Progress = False,
) -> Scores:
    """Score how disentangled and complete slots in any order are, at each level of their structure.

    In every group of samples, permutation-invariant probing (:func:`jaxdis.structured.probe`) orders the slots, and a
    relation tells how important each code is for each factor. Small importances are dropped, and the matrix is scored
    under every projection (:func:`jaxdis.structured.structured_score`). Scores are averaged over groups.

    Args:
      codes: ``[n, s, p]``, or ``[m, n, s, p]`` for a zoo: ``s`` slots with ``p`` codes each. NumPy, JAX or DLPack.
      factors: :class:`Factors`, or class numbers ``[n, k]``, in the structure's order.
      structure: the hierarchy of the ``s · p`` codes, slot after slot, and of the ``k`` factors. Slots are its first
        level.
      key: random key for the split and the final relation; ``jax.random.key(0)`` when None.
      groups: how many equally long groups follow one after the other (as ``FactorSpace.local_groups`` draws them); or
        ``[n]``, each sample's group number, for equally long groups.
      projections: a sequence whose entries are one level or several; when None, each level alone and all together
        (``identity``).
      background: the background's label among objects (``"background"``). Under the projection to the first level, its
        factors are left out, and so is the slot that is most informative about them.
      categorical: names or columns: factors whose classes have no order.
      encoding, start, iterations, penalty: options for probing; ``start="given"`` with ``iterations=0`` keeps the
        order.
      threshold: importances below this share of their factor's largest become 0.
      final: the relation, by name or spec, which sees the factors as numbers. By default, forests with 10 trees of
        depth 15.
      validation_share: which share of each group, less than a fifth, a final relation uses to choose among several
        option values, such as ``RELATIONS["random_forest"]`` among several depths. It is taken from the held-out fifth.
      numbers, batch_size, devices: as for :func:`jaxdis.evaluate`.
      progress: True draws a bar; a function is called with how many members are finished and how many there are.

    Returns:
      :class:`Scores`, with a leading axis ``m`` for a zoo.

      - Columns ``object.disentanglement``, ``object.completeness``, … for the structure's levels; all levels together
        are ``identity``.
      - Column ``informativeness``, which is the paper's prediction error here: RMSE / σ on held-out samples, averaged
        over factors. 0 is best; absent for a relation without ``fit``.
      - Parts ``object.joint`` ``[u, v]`` and ``importance`` ``[d, k]``, means over groups;
        ``informativeness.per_factor``; ``completeness.per_factor`` ``[k]`` over all codes, if all levels together are
        among the projections.
      - Parts ``probing.trace`` ``[g, iterations]``, ``probing.iterations`` ``[g]`` and ``probing.orders`` ``[n, s]``.

    Contract:

    - A fifth of each group is held out from the ridge regressions and the final relation. Its slots are still ordered
      by its own factors, so informativeness is slightly optimistic.
    - A factor that does not vary in a group is left out there. A member with non-finite codes is NaN.

    Reference: Dang-Nhu 2022, §3–4 and App. C. The paper uses 4,000/500/500 samples per group to fit, to validate the
    trees' depth and to evaluate: ``validation_share=0.1`` and ``final=Spec(random_forest)`` with several depths. By
    default the depth is 15, and all 1,000 evaluate.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> levels = jaxdis.structured.Structure.slots(3, 4, objects=2, properties=("x", "y"))
      >>> places = rng.normal(size=(200, 4)).astype(np.float32)  # x and y of two objects
      >>> slots = np.pad(places.reshape(200, 2, 2), ((0, 0), (0, 1), (0, 0)))  # one is empty
      >>> factors = jaxdis.Factors.of(places, sizes=(None,) * 4)
      >>> scores = jaxdis.evaluate_structured(np.tile(slots, 2), factors, levels)
      >>> picture = jaxdis.plots.hinton(scores.part("object.joint"), ("first", "second"))
    """
    request = SlotRequest.of(**locals())
    with reported(progress, "scoring", "members") as show:
        how = {"batch_size": batch_size, "devices": request.devices, "progress": show}
        results = executor.map_members(score_slots, request.settings, request.members, request.shared, **how)
    return _scores(request, results)


class SlotRequest(NamedTuple):
    """What :func:`evaluate_structured` is asked, checked: as :class:`jaxdis.evaluation._request.Request`, for slots."""

    settings: Settings
    members: SlotCodes
    shared: Shared
    single: bool
    devices: tuple[jax.Device, ...] | None

    @classmethod
    def of(
        cls,
        codes,
        factors,
        structure,
        *,
        key,
        groups,
        projections,
        background,
        categorical,
        numbers,
        devices,
        **options,
    ) -> "SlotRequest":
        codes, single = _check_slots(codes)
        factors = Factors.checked(factors)
        codes = factors.at_rows(codes, -3)
        n, slots, dims = codes.shape[1:]
        if factors.num_samples != n:
            raise ValueError(f"codes: must have as many samples as factors, got {n} against {factors.num_samples}")
        if (len(structure.codes), len(structure.factors)) != (slots * dims, factors.num_factors):
            needed = f"{slots} × {dims} codes and {factors.num_factors} factors"
            raise ValueError(f"structure: must have {needed}, got {structure.summary}")
        final = options.pop("final")
        static = {name: value for name, value in options.items() if name in Settings.__dataclass_fields__}
        settings = Settings(
            structure=structure,
            projections=_projections(structure, projections),
            objects=_objects(structure, background),
            background=background,
            categorical=_columns(factors, categorical),
            final=final if isinstance(final, Spec) else look_up(final, RELATIONS, "relation"),
            **static,
        )
        check_circular({settings.final.name: settings.final}, factors)
        check_choice(settings.final, settings.validation_share)
        layout_of(factors.sizes, settings.categorical, settings.encoding)  # raises if a factor cannot be encoded
        if background is not None:
            structure.where("factors", structure.levels[0], background)
        key = checked_key(key)
        rows = _rows(groups, n, key)
        if settings.validation_share and round(rows.shape[1] * settings.validation_share) < 2:
            raise ValueError(
                f"validation_share: must have at least 2 samples per group of {rows.shape[1]}, got "
                f"{settings.validation_share}"
            )
        numbers = np.arange(len(codes)) if numbers is None else numbers
        members = SlotCodes(check_numbers(numbers, len(codes)), codes)
        return cls(settings, members, Shared(key, factors, jnp.asarray(rows)), single, checked_devices(devices))


def _scores(request: SlotRequest, results: dict) -> Scores:
    """Columns and parts in the projections' order, and a warning for members whose codes are not finite."""
    settings, (m, n, slots, _), rows = request.settings, request.members.codes.shape, request.shared.rows
    orders = np.empty((m, n, slots), np.int32)
    orders[:, np.asarray(rows).ravel()] = results.pop("probing.orders").reshape(m, -1, slots)
    results["probing.orders"] = orders
    asked = [_name(settings.structure, levels) for levels in settings.projections]
    fields = [f"{name}.{field}" for name in asked for field in ("disentanglement", "completeness", "joint")]
    order = dict.fromkeys([*fields, *results])  # a compiled program returns them in alphabetical order
    named = {name: results[name][0] if request.single else results[name] for name in order}
    columns = {name: values for name, values in named.items() if results[name].ndim == 1}
    undefined = np.any([np.isnan(np.atleast_1d(values)) for values in columns.values()], axis=0)
    warn_of_non_finite({"codes": request.members.codes}, np.flatnonzero(undefined))
    parts = {name: named[name] for name in named if name not in columns}
    return Scores(columns, parts, request.shared.factors.names)


def check_choice(final: Spec, validation_share: float) -> None:
    """A relation that chooses an option needs samples for it."""
    if final.needs_validation and not validation_share:
        raise ValueError(f"validation_share: must be a share on which {final.name} can choose an option, got 0")


def score_slots(settings: Settings, member: SlotCodes, shared: Shared) -> dict[str, jax.Array]:
    """All columns and parts for one member. Traced, pure."""
    finite = jnp.isfinite(member.codes).all()
    codes = jnp.where(finite, member.codes, 0.0)
    key = jax.random.fold_in(shared.key, member.number)

    def one_group(group):
        number, rows = group
        return _score_group(settings, jax.random.fold_in(key, number), codes[rows], shared.factors.take(rows))

    numbers = jnp.arange(shared.rows.shape[0], dtype=jnp.uint32)
    scores, varies, probed = jax.lax.map(one_group, (numbers, shared.rows))
    weights = safe_divide(varies, varies.sum())

    def average(values):
        return jnp.where(finite, jnp.einsum("g,g...->...", weights, values, precision="highest"), jnp.nan)

    results = {name: average(values) for name, values in scores.items()}
    for name in [name for name in results if name.endswith(".per_factor")]:  # over the groups in which a factor varies
        counted = jnp.isfinite(scores[name])
        mean = jnp.where(counted, scores[name], 0.0).sum(axis=0) / counted.sum(axis=0).astype(jnp.float32)
        results[name] = jnp.where(finite, mean, jnp.nan)
    return results | {
        "probing.trace": jnp.where(finite, probed.trace, jnp.nan),
        "probing.iterations": probed.iterations,
        "probing.orders": probed.orders,
    }


def _score_group(settings: Settings, key, codes, factors: Factors):
    """One group's scores; whether any factor varies in it, as 0 or 1; and what probing returned, without the codes."""
    n = codes.shape[0]
    cut = max(1, min(n - 1, round(n * TRAIN_SHARE)))
    names = ("categorical", "encoding", "objects", "start", "penalty", "iterations")
    options = {name: getattr(settings, name) for name in names}
    probed = probe(codes, factors, train=jnp.arange(n) < cut, **options)
    ordered = probed.codes.reshape(n, -1)
    numbers = (None,) * probed.targets.shape[1]
    names = tuple(map(str, range(len(numbers))))
    # Rows to fit on, to evaluate on, and to choose options on.
    chosen = min(round(n * settings.validation_share), n - cut - 1)
    parts = slice(None, cut), slice(cut + chosen, None), slice(cut, cut + chosen)
    samples = [Sample(ordered[part], Factors(probed.targets[part], numbers, names)) for part in parts]
    relation = apply(settings.final, key, *samples[:2], validation=samples[2] if settings.validation_share else None)
    # The variances of a factor's targets add to 1 and weight its importances and errors.
    owner = jnp.asarray(layout_of(factors.sizes, settings.categorical, settings.encoding).owner)
    varies = relation.ceiling > 0
    shares = jnp.where(varies, probed.targets[:cut].var(axis=0), 0.0)
    strength = jnp.dot(jnp.where(varies[None], relation.strength, 0.0) * shares[None], owner, precision="highest")
    valid = shares @ owner > 0
    strength = drop_small(strength, settings.threshold)
    results = {"importance": strength}
    for levels in settings.projections:
        code_mask, factor_mask = jnp.ones(strength.shape[0], bool), valid
        if settings.background is not None and levels == settings.structure.levels[:1]:
            code_mask, in_objects = background(strength, settings.structure, settings.background)
            factor_mask = valid & in_objects
        score = score_of(strength, settings.structure, levels, codes=code_mask, factors=factor_mask)
        name = _name(settings.structure, levels)
        results |= {
            f"{name}.disentanglement": score.disentanglement,
            f"{name}.completeness": score.completeness,
            f"{name}.joint": score.joint,
        }
        if levels == settings.structure.levels:
            number = jnp.asarray(settings.structure.groups("factors", levels).number)
            results["completeness.per_factor"] = jnp.where(valid, score.per_factor_group[number], jnp.nan)
    if relation.fit is not None:
        squares = jnp.where(varies, shares * (1 - relation.fit) ** 2, 0.0)
        errors = jnp.sqrt(safe_divide(squares @ owner, shares @ owner))
        results["informativeness"] = safe_divide(jnp.where(valid, errors, 0.0).sum(), valid.sum().astype(jnp.float32))
        results["informativeness.per_factor"] = jnp.where(valid, errors, jnp.nan)
    return results, valid.any().astype(jnp.float32), probed._replace(codes=None, targets=None)


def _name(structure: Structure, levels: tuple[str, ...]) -> str:
    return "identity" if levels == structure.levels and len(levels) > 1 else "+".join(levels)


def _projections(structure: Structure, projections) -> tuple[tuple[str, ...], ...]:
    if projections is None:
        projections = [*structure.levels, structure.levels]
    projections, given = listed(projections), projections
    if not projections:
        raise ValueError(f"projections: must be a sequence of levels, or of several levels each, got {shown(given)}")
    return tuple(dict.fromkeys(structure.chosen(levels) for levels in projections))


def _objects(structure: Structure, background: str | None) -> tuple[tuple[int, ...], ...]:
    """Each object's factor columns, in a common order, if all objects have the same properties; otherwise none."""
    number, names = structure.groups("factors", structure.levels[0])
    rests = [row[1:] for row in structure.factors]
    columns = [sorted(np.flatnonzero(number == o).tolist(), key=rests.__getitem__) for o in range(len(names))]
    columns = [own for own, (label,) in zip(columns, names, strict=True) if label != background]
    same = len({tuple(rests[j] for j in own) for own in columns}) == 1
    return tuple(map(tuple, columns)) if same else ()


def _columns(factors: Factors, names) -> tuple[int, ...]:
    entries = listed(names)
    if entries is None:
        raise ValueError(f"categorical: must be a sequence of names or columns of factors, got {shown(names)}")
    columns = []
    for entry in entries:
        name = checked_value("categorical", str | int, entry)
        if isinstance(name, str) and name not in factors.names:
            raise ValueError(f"categorical: must have names among {factors.names}, got {name!r}")
        columns.append(factors.names.index(name) if isinstance(name, str) else int(name))
        if not 0 <= columns[-1] < factors.num_factors:
            raise ValueError(f"categorical: must have columns from 0 to {factors.num_factors - 1}, got {name}")
    return tuple(columns)


def _rows(groups, n: int, key) -> np.ndarray:
    """Each group's samples ``[g, q]``, shuffled within it."""
    if isinstance(groups, bool | str) or groups is None or np.ndim(groups) == 0:
        groups = checked_value("groups", Count, groups)
        if n % groups:
            raise ValueError(f"groups: must be a number of groups that divides the {n} samples, got {groups}")
        numbers = np.repeat(np.arange(groups), n // groups)
    else:
        numbers = as_numpy(groups, "groups")
        if numbers.shape != (n,):
            raise ValueError(f"groups: must have shape [{n}] (samples), got {numbers.shape}")
        if numbers.dtype.kind not in "fiu" or (numbers % 1 != 0).any():
            raise ValueError(f"groups: must be whole numbers, got {shown(numbers)}")
    counts = np.unique(numbers, return_counts=True)[1]
    if len(set(counts)) > 1:
        raise ValueError(f"groups: must have groups of equal length, got {counts.tolist()}")
    if counts[0] < 5:
        raise ValueError(f"groups: must have at least 5 samples in a group, got {counts[0]}")
    shuffled = np.asarray(random.split_rows(key, SPLIT_SEED, n, n)[0])
    return shuffled[np.argsort(numbers[shuffled], kind="stable")].reshape(len(counts), -1).astype(np.int32)


def _check_slots(codes):
    """Codes as float32 ``[m, n, s, p]``, and whether there was only one member."""
    check_one_array(codes, "codes")
    on_device = isinstance(codes, jax.Array) and not isinstance(codes, jax.core.Tracer)
    array = codes if on_device else as_numpy(codes, "codes")
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise ValueError(f"codes: must have shape [n, s, p] or [m, n, s, p] (slots of codes), got {array.shape}")
    check_codes(array.reshape(*array.shape[:-2], -1), "codes")
    # A code has one offset in all slots, which are exchangeable.
    flat, *_ = read_codes(array.reshape(*array.shape[:-3], -1, array.shape[-1]))
    return flat.reshape(-1, *array.shape[-3:]), array.ndim == 3
