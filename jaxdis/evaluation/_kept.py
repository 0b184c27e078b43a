"""Scores that are kept on disk and found by content, so that nothing is computed twice.

What decides a member's numbers is hashed: its codes, the factors, the metric with its options, the key where chance
plays a part, and the numbers' version. Names, batches and devices have no influence. A record holds a metric's numbers
for members that were computed together, and is written entirely or not at all.
"""

import collections
import functools
import hashlib
import inspect
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdis._core import runtime
from jaxdis._core.executor import FEW, even_size
from jaxdis._core.store import Store, StoreError, cell_id, locked
from jaxdis._core.version import NUMERICS
from jaxdis.evaluation._costs import seconds_at
from jaxdis.evaluation._member import PACKAGE, Results, Strengths
from jaxdis.evaluation._request import Request
from jaxdis.metrics import Metric
from jaxdis.metrics._metric import sources_of
from jaxdis.metrics._plan import Plan

# The folder's; another one is another version's.
FORMAT = 1
# Computing that a run loses at most when it is stopped, in seconds on a CPU core, and members in a record.
SECONDS, MOST = 30.0, 256
MOST_ON_ACCELERATORS = 1024


class Address(NamedTuple):
    """Where a metric's numbers are: ``samples`` says what all members share, and ``members [m]`` which these are."""

    samples: dict[str, Any]
    members: list[str]


def batches_of(request: Request, turn: Plan) -> Iterator[np.ndarray]:
    """The rows of members that are computed and kept together: always the same, so that records are, too."""
    load, m = request.load, len(request.rows)
    if load.devices[0].platform == "cpu":
        seconds = sum(seconds_at(spec, load.size) for spec in sources_of(metric for _, metric in turn))
        most = int(SECONDS / max(seconds * (1 + load.replicates + load.nulls), SECONDS / MOST))
        size = even_size(m, max(FEW, most), 1)
    else:
        size = even_size(m, MOST_ON_ACCELERATORS, 1)
    for start in range(0, m, size):
        yield np.arange(start, min(start + size, m))


class Kept:
    """A folder with scores: where each member's numbers by each metric are."""

    def __init__(self, root: Path):
        self.store = Store(root)
        if self.store.begun:
            held = self.store.description().get("scores") if self.store.described else None
            if held != FORMAT:
                other = "a study" if held is None else f"scores in the format {held} of another version of jaxdis"
                raise StoreError(f"{root}: must be a folder of scores, or a new one, got one with {other}")
        self.store.open({"scores": FORMAT})
        self._read: set[str] = set()
        # Of each metric on certain samples, by member: the record, and the place in it.
        self._places: dict[str, dict[str, tuple[str, int]]] = collections.defaultdict(dict)

    def refresh(self) -> None:
        """Read the records that this process has not seen."""
        names = self.store.ids("score")
        if self._read - names:  # somebody removed some
            self._read.clear()
            self._places.clear()
        for name in sorted(names - self._read):
            try:
                cell = self.store.record("score", name)["cell"]
                samples, members = cell["samples"], cell["members"]
            except (StoreError, KeyError) as error:
                self._remove(name, error)
                self.refresh()
                return
            self._read.add(name)
            places = self._places[cell_id(samples)]
            for place, member in enumerate(members):
                places.setdefault(member, (name, place))

    def lacking(self, address: Address, rows: np.ndarray) -> np.ndarray:
        """The rows whose numbers are not here; if members have the same codes, the first alone."""
        places = self._places[cell_id(address.samples)]
        first = {address.members[row]: row for row in rows[::-1]}
        return np.sort(np.array([row for member, row in first.items() if member not in places], int))

    def fill(self, request: Request, turn: Plan, rows: np.ndarray, addresses: dict[str, Address], compute: Callable):
        """Compute some metrics for those members that lack them, and keep the results."""
        if not self._missing(turn, rows, addresses, afresh=False):
            return
        batch = cell_id({name: [addresses[name].members[row] for row in rows] for name, _ in turn})
        lock = self.store.root / "partial" / f"{batch}.lock"
        with locked(lock):
            missing = self._missing(turn, rows, addresses)  # another process may have computed it
            if missing:
                asked = np.unique(np.concatenate(list(missing.values())))
                plan = tuple(each for each in turn if each[0] in missing)
                results = compute(request.some(asked, plan))
                for name, metric in plan:
                    chosen, (samples, members) = missing[name], addresses[name]
                    cell = {"kind": "scores", "samples": samples, "members": [members[row] for row in chosen]}
                    arrays = _arrays_of(results, name, metric, np.searchsorted(asked, chosen))
                    self.store.publish("score", cell, {}, arrays)
        lock.unlink(missing_ok=True)
        runtime.forget_programs_if_many()  # a folder may be of many shapes

    def _missing(
        self, turn: Plan, rows: np.ndarray, addresses: dict[str, Address], *, afresh: bool = True
    ) -> dict[str, np.ndarray]:
        """By metric, the rows that lack numbers; ``afresh`` looks for records of other processes."""
        if afresh:
            self.refresh()
        found = {name: self.lacking(addresses[name], rows) for name, _ in turn}
        return {name: lacking for name, lacking in found.items() if len(lacking)}

    def results(self, request: Request, plan: Plan, rows: np.ndarray, addresses: dict[str, Address]) -> Results:
        """Some metrics' kept results for some members, as a run returns them."""
        if self._missing(plan, rows, addresses, afresh=False):
            self.refresh()
        arrays = {name: self._arrays(addresses[name], rows) for name, _ in plan}
        metrics = {name: _as_tuple(_fields(found, "metrics")) for name, found in arrays.items()}
        replicates = {name: _fields(found, "replicates") for name, found in arrays.items()}
        relations, by_chance = {}, {}
        for name, metric in plan if request.relations else ():
            if fields := _fields(arrays[name], "relations"):
                by_chance[repr(metric.source)] = fields.pop("null", None)
                relations[repr(metric.source)] = Strengths(**fields)
        drawn, nulls = {name: _fields(found, "nulls") for name, found in arrays.items()}, []
        for number in range(request.null.count):
            own = {name: {field: each[..., number] for field, each in fields.items()} for name, fields in drawn.items()}
            scores = {name: _as_tuple(fields) for name, fields in own.items() if fields}
            largest = {label: null[:, None, :, number] for label, null in by_chance.items() if null is not None}
            strengths = {label: relations[label]._replace(strength=strength) for label, strength in largest.items()}
            nulls.append(Results(scores, relations=strengths))
        sound = np.all([found["sound"] for found in arrays.values()], axis=0)
        return Results(metrics, sound, {n: of for n, of in replicates.items() if of}, relations, tuple(nulls))

    def _arrays(self, address: Address, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Some members' arrays, from the records that hold them."""
        places = self._places[cell_id(address.samples)]
        wanted = [places.get(address.members[row]) for row in rows]
        if None in wanted:
            raise StoreError(f"{self.store.root}: lacks numbers that were kept")
        found: dict[str, np.ndarray] = {}
        for name in dict.fromkeys(name for name, _ in wanted):
            try:
                arrays = self.store.arrays("score", name)
            except (StoreError, FileNotFoundError) as error:  # the latter if another process has removed it
                self._remove(name, error)
                raise StoreError(f"{self.store.root}: lacks numbers that were kept") from error
            here = [(row, place) for row, (record, place) in enumerate(wanted) if record == name]
            to, taken = np.array(here).T
            for field, array in arrays.items():
                whole = found.setdefault(field, np.zeros((len(rows), *array.shape[1:]), array.dtype))
                whole[to] = array[taken]
        return found

    def _remove(self, name: str, error: Exception) -> None:
        path = self.store.path("score", name)
        warnings.warn(f"{path}: is damaged and computed again ({error})", RuntimeWarning, stacklevel=2)
        for suffix in (".npz", ".json"):
            self.store.path("score", name, suffix).unlink(missing_ok=True)
        self._read.clear()
        self._places.clear()


# One at a time: what a folder holds is read once in a process.
opened = functools.lru_cache(maxsize=1)(Kept)


def _fields(arrays: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    return {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{kind}/")}


def _as_tuple(fields: dict[str, np.ndarray]) -> tuple:
    return collections.namedtuple("Kept", fields)(**fields)


def _arrays_of(results: Results, name: str, metric: Metric, places: np.ndarray) -> dict[str, np.ndarray]:
    """A metric's arrays for the members at some places, by what they are and their field."""
    label, found = repr(metric.source), {"sound": results.sound}
    fields = results.metrics[name]._asdict()
    found |= {f"metrics/{field}": array for field, array in fields.items() if array is not None}
    found |= {f"replicates/{field}": array for field, array in results.replicates.get(name, {}).items()}
    if label in results.relations:
        fields = results.relations[label]._asdict()
        found |= {f"relations/{field}": array for field, array in fields.items() if array is not None}
    nulls = [null for null in results.nulls if name in null.metrics]
    if nulls:
        scalars = [field for field, array in nulls[0].metrics[name]._asdict().items() if np.ndim(array) == 1]
        drawn = {field: [getattr(null.metrics[name], field) for null in nulls] for field in scalars}
        found |= {f"nulls/{field}": np.stack(arrays, axis=-1) for field, arrays in drawn.items()}
    if nulls and label in nulls[0].relations:
        largest = [np.fmax.reduce(null.relations[label].strength, axis=1) for null in nulls]
        found["relations/null"] = np.stack(largest, axis=-1)
    return {field: np.asarray(array)[places] for field, array in found.items()}


def addresses_of(request: Request) -> dict[str, Address]:
    """What decides the numbers of each metric, hashed: arrays that it does not read are left out."""

    @functools.cache
    def of_role(role: str) -> list[str]:
        """A hash for each member; an empty text where there is no array."""
        array = getattr(request.members, role)
        return [""] * len(request.rows) if array is None else [content(np.asarray(member)) for member in array]

    @functools.cache
    def members(roles: tuple[str, ...], random: bool) -> list[str]:
        found = [content(*each) for each in zip(*map(of_role, roles), strict=True)]
        if random:  # a member's number is part of its random key
            numbers = np.asarray(request.members.number).tolist()
            found = [f"{member}-{number}" for member, number in zip(found, numbers, strict=True)]
        return found

    return {name: _address(request, metric, members) for name, metric in request.plan}


def _address(request: Request, metric: Metric, members: Callable) -> Address:
    shared, sources = request.shared, [spec for spec in (metric.source.base, metric.source) if spec is not None]
    reads = {name for spec in sources for name, read in spec.reads._asdict().items() if read}
    drawn = request.bootstrap or request.null.count
    random = bool(drawn) or bool(reads & {"key", "prepared"})
    given: dict[str, Any] = {"samples": shared.factors.num_samples}
    if metric.reads_factors:
        given["factors"] = _of_factors(shared.factors)
        given["parts"] = [[list(part.columns), _of_factors(part.shared.factors)] for part in request.parts]
    if "weights" in reads:
        given["weights"] = content(shared.weights)
    if "test" in reads:
        given["test"] = [_of_factors(shared.test_factors), content(shared.train_rows, shared.test_rows)]
        given["test"] += [content(part.shared.train_rows, part.shared.test_rows) for part in request.parts]
    if "validation" in reads:
        given["validation"] = _of_factors(shared.validation_factors)
    if drawn or "groups" in reads:
        given["groups"] = content(shared.groups)
    if random:
        given["key"] = np.asarray(jax.random.key_data(shared.key)).tolist()
    if drawn:
        given |= {"bootstrap": request.bootstrap, "null": list(request.null)}
    roles = ["codes", "offset", "active"]
    roles += ["variances"] * ("variances" in reads) + ["test_codes"] * ("test" in reads)
    roles += ["validation_codes"] * ("validation" in reads)
    described = json.loads(json.dumps(metric.describe(), default=str))
    foreign = [_code_of(spec.function) for spec in metric.specs if not spec.function.__module__.startswith(PACKAGE)]
    samples = {"metric": described, "code": foreign, "given": given, "numerics": NUMERICS}
    return Address(samples, members(tuple(roles), random))


def _of_factors(factors) -> str | None:
    if factors is None:
        return None
    known = json.dumps([factors.sizes, factors.periods, factors.nominal])
    return content(factors.values, factors.present, known)


def content(*values) -> str:
    """Hash arrays, with their types and shapes, and texts, to 128 bits."""
    hashed = hashlib.sha256()
    for value in values:
        if isinstance(value, str) or value is None:
            hashed.update(f"{value}\n".encode())
            continue
        array = np.ascontiguousarray(value)
        hashed.update(f"{array.dtype.str}{array.shape}\n".encode())
        hashed.update(array.data)
    return hashed.hexdigest()[:32]


def _code_of(function: Callable) -> str:
    """Hash the text that defines a user's function, whose numbers change with it."""
    try:
        return content(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):  # typed at a prompt, or no function
        code = getattr(function, "__code__", None)
        return content(repr(function) if code is None else code.co_code.hex() + repr(code.co_consts))
