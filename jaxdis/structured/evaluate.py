"""Structured disentanglement of many members whose slots come in any order, over groups of similar samples."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jaxdis import executor
from jaxdis.arrays import as_numpy, safe_divide
from jaxdis.evaluation.inputs import SPLIT_SEED, check_codes, look_up
from jaxdis.evaluation.results import Scores
from jaxdis.metrics.metric import apply
from jaxdis.options import (
    Count,
    Natural,
    Positive,
    Share,
    checked,
    checked_devices,
    checked_key,
    checked_value,
    listed,
    shown,
)
from jaxdis.relations import RELATIONS
from jaxdis.relations.trees import PRESETS
from jaxdis.scores.projection import NOISE, background, drop_small, score_of
from jaxdis.scores.structure import Levels, Structure
from jaxdis.spec import Spec
from jaxdis.structured.probing import Probe, Start, probe
from jaxdis.structured.targets import Encoding, make_plan
from jaxdis.typing import Factors, Sample

# Dang-Nhu 2022, App. C.4: 4,000 of 5,000 samples to fit the predictor.
TRAIN_SHARE = 0.8


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a compiled program is keyed by; the words are those of :func:`evaluate_structured`."""

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


class Member(NamedTuple):
    """What differs between members."""

    number: jax.Array
    codes: jax.Array


class Shared(NamedTuple):
    """What all members read; ``rows [g, q]``, the samples of each group, those to train on first."""

    key: jax.Array
    factors: Factors
    rows: jax.Array


@checked
def evaluate_structured(
    codes,
    factors,
    structure: Structure,
    *,
    key: Key[Array, ""] | None = None,
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
    batch_size: Count | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> Scores:
    """Disentanglement and completeness of slots at each level of their structure, whatever the order of the slots.

    In every group of samples the slots are put in order by permutation-invariant probing
    (:func:`jaxdis.structured.probe`), a relation gives the importance of each code for each factor, small importances
    are dropped, and the matrix is scored under every projection (:func:`jaxdis.structured.structured_score`). Scores
    are averaged over groups.

    Args:
      codes: ``[n, s, p]``, or ``[m, n, s, p]`` for a zoo: ``s`` slots of ``p`` codes. NumPy, JAX or DLPack.
      factors: :class:`Factors`, or an array ``[n, k]`` of class numbers, in the order of the structure.
      structure: of the ``s · p`` codes, slot after slot, and of the ``k`` factors. Its first level is that of slots.
      key: for the split and the final relation; ``jax.random.key(0)`` when None.
      groups: how many groups the samples are, each as long as the others and one after the other (as
        ``FactorSpace.local_groups`` makes them); or ``[n]``, the number of each sample's group, groups of
        equal length.
      projections: each a level or several; when None every level alone, and all of them (``identity``).
      background: the label of the background among objects (``"background"``). Under the projection to the first level
        its factors are left out, and with them the slot that speaks of them most.
      categorical: names or columns of the factors whose classes have no order.
      encoding, start, iterations, penalty: of probing; ``start="given"`` with ``iterations=0`` leaves the order alone.
      threshold: strengths below this share of the largest of their factor become 0.
      final: the relation, by name or spec; factors come to it as numbers. Forests of 10 trees of depth 15 by default.
      batch_size, devices: as :func:`jaxdis.evaluate`.

    Returns:
      :class:`Scores` with columns ``object.disentanglement``, ``object.completeness``, … (levels of the structure; all
      of them are ``identity``) and ``informativeness``, which here is the paper's prediction error: the mean over
      factors of RMSE / σ on held-out samples, 0 is best (absent for a relation without ``fit``). Parts:
      ``object.joint`` ``[u, v]`` and ``importance`` ``[d, k]``, means over groups; ``informativeness.per_factor``;
      ``probing.trace`` ``[g, iterations]``, ``probing.iterations`` ``[g]`` and ``probing.orders`` ``[n, s]``. With a
      leading axis ``m`` for a zoo.

    Raises:
      ValueError: naming the argument, what came and what is needed.

    A fifth of each group is held out from the ridge regressions and the final relation, but put in order by its own
    factors like the rest; informativeness is therefore a little too good. A factor that does not vary in a group is
    left out there. A member with non-finite codes is NaN.

    Reference: Dang-Nhu 2022, §3–4 and App. C (4,000/500/500 samples a group to fit, validate the depth of trees, and
    evaluate; the depth is given here, and all 1,000 evaluate).

    Example:
      >>> structure = Structure.slots(5, 16, objects=4, properties=("red", "x", "y"), background=("red",))
      >>> scores = jaxdis.evaluate_structured(codes, factors, structure, groups=10, background="background")
      >>> picture = jaxdis.plots.hinton(scores.part("object.joint"), object_names)
    """
    codes, single = _check_slots(codes)
    factors = Factors.checked(factors)
    n, slots, dims = codes.shape[1:]
    if factors.num_samples != n:
        raise ValueError(f"codes: needs as many samples as factors, got {n} against {factors.num_samples}")
    if (len(structure.codes), len(structure.factors)) != (slots * dims, factors.num_factors):
        raise ValueError(
            f"structure: needs {slots} × {dims} codes and {factors.num_factors} factors, got {structure.summary}"
        )
    settings = Settings(
        structure,
        _projections(structure, projections),
        _objects(structure, background),
        background,
        _columns(factors, categorical),
        encoding,
        start,
        iterations,
        penalty,
        threshold,
        final if isinstance(final, Spec) else look_up(final, RELATIONS, "relation"),
    )
    make_plan(factors.sizes, settings.categorical, encoding)  # refuses what cannot be encoded
    if background is not None:
        structure.where("factors", structure.levels[0], background)
    key = checked_key(key)
    rows = _rows(groups, n, key)
    members = Member(np.arange(len(codes), dtype=np.uint32), codes)
    shared = Shared(key, factors, jnp.asarray(rows))
    devices = checked_devices(devices)
    found = executor.map_members(score_slots, settings, members, shared, batch_size=batch_size, devices=devices)
    orders = np.empty((len(codes), n, slots), np.int32)
    orders[:, rows.ravel()] = found.pop("probing.orders").reshape(len(codes), -1, slots)
    found["probing.orders"] = orders
    named = {name: found[name][0] if single else found[name] for name in _in_order(settings, found)}
    columns = {name: values for name, values in named.items() if found[name].ndim == 1}
    return Scores(columns, {name: named[name] for name in named if name not in columns}, factors.names)


def _in_order(settings: Settings, names) -> list[str]:
    """Columns and parts by projection, as asked; a compiled program returns them in alphabetical order."""
    asked = [_name(settings.structure, levels) for levels in settings.projections]
    fields = [f"{name}.{field}" for name in asked for field in ("disentanglement", "completeness", "joint")]
    return list(dict.fromkeys([*fields, *names]))


def score_slots(settings: Settings, member: Member, shared: Shared) -> dict[str, jax.Array]:
    """All columns and parts of one member. Traced, pure."""
    finite = jnp.isfinite(member.codes).all()
    codes = jnp.where(finite, member.codes, 0.0)
    key = jax.random.fold_in(shared.key, member.number)

    def one(group):
        number, rows = group
        return _score_group(settings, jax.random.fold_in(key, number), codes[rows], shared.factors.take(rows))

    numbers = jnp.arange(shared.rows.shape[0], dtype=jnp.uint32)
    found, says, found_by = jax.lax.map(one, (numbers, shared.rows))
    weights = safe_divide(says, says.sum())

    def average(values):
        return jnp.where(finite, jnp.einsum("g,g...->...", weights, values, precision="highest"), jnp.nan)

    results = {name: average(values) for name, values in found.items()}
    if "informativeness" in results:  # of each factor over the groups in which it varies
        per_factor = found["informativeness.per_factor"]
        counted = jnp.isfinite(per_factor)
        mean = jnp.where(counted, per_factor, 0.0).sum(axis=0) / counted.sum(axis=0).astype(jnp.float32)
        results["informativeness.per_factor"] = jnp.where(finite, mean, jnp.nan)
    trace = jnp.where(finite, found_by.trace, jnp.nan)
    return results | {
        "probing.trace": trace,
        "probing.iterations": found_by.iterations,
        "probing.orders": found_by.orders,
    }


def _score_group(settings: Settings, key, codes, factors: Factors):
    """Scores of one group; whether any factor varies in it, as 0 or 1; and what probing found (without the codes)."""
    n = codes.shape[0]
    cut = max(1, min(n - 1, round(n * TRAIN_SHARE)))
    found = probe(
        codes,
        factors,
        train=jnp.arange(n) < cut,
        categorical=settings.categorical,
        encoding=settings.encoding,
        objects=settings.objects,
        start=settings.start,
        penalty=settings.penalty,
        iterations=settings.iterations,
    )
    ordered = found.codes.reshape(n, -1)
    numbers = (None,) * found.targets.shape[1]
    names = tuple(map(str, range(len(numbers))))
    samples = [Sample(ordered[part], Factors(found.targets[part], numbers, names)) for part in _parts(cut)]
    relation = apply(settings.final, key, *samples)
    # Targets of a factor have variances that add to 1: they are the weights of its importances and errors.
    owner = jnp.asarray(make_plan(factors.sizes, settings.categorical, settings.encoding).owner)
    varies = relation.ceiling > 0
    shares = jnp.where(varies, found.targets[:cut].var(axis=0), 0.0)
    strength = jnp.dot(jnp.where(varies[None], relation.strength, 0.0) * shares[None], owner, precision="highest")
    valid = shares @ owner > 0
    strength = drop_small(strength, settings.threshold)
    results = {"importance": strength}
    for levels in settings.projections:
        code_mask, factor_mask = jnp.ones(strength.shape[0], bool), valid
        if settings.background is not None and levels == settings.structure.levels[:1]:
            code_mask, others = background(strength, settings.structure, settings.background)
            factor_mask = valid & others
        score = score_of(strength, settings.structure, levels, codes=code_mask, factors=factor_mask)
        name = _name(settings.structure, levels)
        results |= {
            f"{name}.disentanglement": score.disentanglement,
            f"{name}.completeness": score.completeness,
            f"{name}.joint": score.joint,
        }
    if relation.fit is not None:
        squares = jnp.where(varies, shares * (1 - relation.fit) ** 2, 0.0)
        errors = jnp.sqrt(safe_divide(squares @ owner, shares @ owner))
        results["informativeness"] = safe_divide(jnp.where(valid, errors, 0.0).sum(), valid.sum().astype(jnp.float32))
        results["informativeness.per_factor"] = jnp.where(valid, errors, jnp.nan)
    empty = jnp.zeros((0,))
    light = Probe(found.orders, empty, empty, found.trace, found.iterations)
    return results, valid.any().astype(jnp.float32), light


def _parts(cut: int) -> tuple[slice, slice]:
    return slice(None, cut), slice(cut, None)


def _name(structure: Structure, levels: tuple[str, ...]) -> str:
    return "identity" if levels == structure.levels and len(levels) > 1 else "+".join(levels)


def _projections(structure: Structure, projections) -> tuple[tuple[str, ...], ...]:
    if projections is None:
        projections = [*structure.levels, structure.levels]
    projections, given = listed(projections), projections
    if projections is None:
        raise ValueError(f"projections: needs a sequence of levels or of several levels each, got {shown(given)}")
    return tuple(dict.fromkeys(structure.chosen(levels) for levels in projections))


def _objects(structure: Structure, background: str | None) -> tuple[tuple[int, ...], ...]:
    """Columns of the factors of each object in one order, if all objects have the same properties; else none."""
    number, names = structure.groups("factors", structure.levels[0])
    rests = [row[1:] for row in structure.factors]
    columns = [sorted(np.flatnonzero(number == o).tolist(), key=rests.__getitem__) for o in range(len(names))]
    columns = [own for own, (label,) in zip(columns, names, strict=True) if label != background]
    same = len({tuple(rests[j] for j in own) for own in columns}) == 1
    return tuple(map(tuple, columns)) if same else ()


def _columns(factors: Factors, names) -> tuple[int, ...]:
    entries = listed(names)
    if entries is None:
        raise ValueError(f"categorical: needs a sequence of names or columns of factors, got {shown(names)}")
    return tuple(_column(factors, checked_value("categorical", str | int, name)) for name in entries)


def _column(factors: Factors, name: str | int) -> int:
    if isinstance(name, str):
        if name not in factors.names:
            raise ValueError(f"categorical: needs names among {factors.names}, got {name!r}")
        return factors.names.index(name)
    if not 0 <= name < factors.num_factors:
        raise ValueError(f"categorical: needs columns from 0 to {factors.num_factors - 1}, got {name}")
    return int(name)


def _rows(groups, n: int, key) -> np.ndarray:
    """Samples of each group ``[g, q]``, shuffled within it."""
    if isinstance(groups, bool | str) or groups is None or np.ndim(groups) == 0:
        groups = checked_value("groups", Count, groups)
        if n % groups:
            raise ValueError(f"groups: needs a number of groups that divides the {n} samples, got {groups}")
        numbers = np.repeat(np.arange(groups), n // groups)
    else:
        numbers = as_numpy(groups, "groups")
        if numbers.shape != (n,):
            raise ValueError(f"groups: needs shape [{n}] (samples), got {numbers.shape}")
        if numbers.dtype.kind not in "fiu" or (numbers % 1 != 0).any():
            raise ValueError(f"groups: needs whole numbers, got {shown(numbers)}")
    counts = np.unique(numbers, return_counts=True)[1]
    if len(set(counts)) > 1:
        raise ValueError(f"groups: needs groups of equal length, got {counts.tolist()}")
    if counts[0] < 5:
        raise ValueError(f"groups: needs at least 5 samples in a group, got {counts[0]}")
    shuffled = np.asarray(jax.random.permutation(jax.random.fold_in(key, SPLIT_SEED), n))
    return shuffled[np.argsort(numbers[shuffled], kind="stable")].reshape(len(counts), -1).astype(np.int32)


def _check_slots(codes):
    """Codes as float32 ``[m, n, s, p]``, and whether there was one member alone."""
    on_device = isinstance(codes, jax.Array) and not isinstance(codes, jax.core.Tracer)
    array = codes if on_device else as_numpy(codes, "codes")
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise ValueError(f"codes: needs shape [n, s, p] or [m, n, s, p] (slots of codes), got {array.shape}")
    flat = check_codes(array.reshape(*array.shape[:-2], -1), "codes")
    return flat.reshape(-1, *array.shape[-3:]), array.ndim == 3
