"""The certificate of metrics: scores of representations with known properties, what follows from them, and files.

Eight boundary cases, three sweeps and a curve over sample sizes (Julka et al. 2024, §IV), for any metrics, with many
seeds in one program. Each (representation, metric) is its own cell in the study's directory, so that a run can be
resumed.
"""

import dataclasses
import functools
import itertools
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core import executor
from jaxdis._core.files import csv_text
from jaxdis._core.options import Count, Share, check_fields
from jaxdis._core.precision import single_precision
from jaxdis._core.store import Store, cell_id, number, publish
from jaxdis.data import synthetic
from jaxdis.evaluation._member import MemberCodes, Shared, scalars, score_member
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._metric import ASPECTS, TRAIN_SHARE, Column, prepared_for, sources_of
from jaxdis.metrics._plan import Plan, plan_of
from jaxdis.study._definition import FEWEST_SAMPLES, MOST_SAMPLES
from jaxdis.study._run_study import WORKS, Batch, Digest, Totals, Updates, Work, run
from jaxdis.study._trained_work import RECORD_BYTES, score_seconds

__all__ = ["Calibration", "CalibrationWork", "Certificate", "Response", "calibrate", "responses"]

# A case is expected high when it has all that the column claims, else low; this is what divides high from low.
MIDDLE = 0.5
# A column responds to an aspect when that moves its mean over the cases by this share of all that it moves.
RESPONSE_SHARE = 0.25


def claims_of(column: str) -> tuple[str, ...]:
    """The aspects that a column claims to measure, by its metric's row; none for a user's own metric."""
    name = Column.read(column, METRICS)
    about = METRICS[name.metric].about if name.metric in METRICS else None
    return about.claims.get(name.field, ()) if about else ()


class Certificate(NamedTuple):
    """Every column's scores.

    ``cases[column] [8, s]`` (seeds), ordered as :data:`jaxdis.data.synthetic.CASES`; ``sweeps[kind][column] [points,
    s]``; ``sizes[column] [sizes, 8, s]``, ``full_size`` last; ``seconds[metric] [sizes]`` per representation.
    """

    cases: dict[str, np.ndarray]
    sweeps: dict[str, dict[str, np.ndarray]]
    sizes: dict[str, np.ndarray]
    seconds: dict[str, np.ndarray]


class Row(NamedTuple):
    """One column in one case: its scores over the seeds, what its claim expects, and whether they agree.

    ``expected`` is ``"high"``, ``"low"`` or ``""`` (no claim); ``passed`` is None without a claim.
    """

    column: str
    case: str
    mean: float
    spread: float
    expected: str
    passed: bool | None


class Response(NamedTuple):
    """How far each aspect moves a column: its mean over the four pairs of cases that differ in it alone.

    ``effect`` is the difference for modularity, compactness and explicitness; NaN if a case leaves the column
    undefined. One ``responds`` where it exceeds both the noise of seeds and a quarter of the column's range.
    """

    column: str
    effect: tuple[float, float, float]
    responds: tuple[bool, bool, bool]

    @property
    def claims(self) -> tuple[str, ...]:
        """Aspects that the column claims to measure, by its metric's row; none for a user's own metric."""
        return claims_of(self.column)

    def describe(self) -> str:
        """Name the aspects to which the column responds, with a minus before one that lowers the score."""
        named = [
            f"{'-' if effect < 0 else ''}{aspect}"
            for aspect, effect, responds in zip(ASPECTS, self.effect, self.responds, strict=True)
            if responds
        ]
        return ", ".join(named) or ("undefined" if np.isnan(self.effect).any() else "none")


def table(certificate: Certificate) -> list[Row]:
    """Every column's mean and spread in every case, with the expectation."""
    rows = []
    for column, values in certificate.cases.items():
        claims = claims_of(column)
        for case, scores in zip(synthetic.CASES, values, strict=True):
            mean, spread = float(scores.mean()), float(scores.std())
            has = {aspect for aspect, digit in zip(ASPECTS, case, strict=True) if digit == "1"}
            expected = ("high" if has.issuperset(claims) else "low") if claims else ""
            passed = ((mean >= MIDDLE) if expected == "high" else (mean < MIDDLE)) if claims else None
            rows.append(Row(column, case, mean, spread, expected, passed))
    return rows


def responses(certificate: Certificate) -> list[Response]:
    """Tell which aspects each column responds to, by the eight cases; none for a column that is undefined in one.

    Example: ``[(one.column, one.describe()) for one in responses(calibrate(Calibration.of("mig"), "certificate"))]``.
    """
    judged = []
    for column, values in certificate.cases.items():
        cube = values.mean(axis=1).reshape(2, 2, 2)
        effect = tuple(float(np.diff(cube, axis=axis).mean()) for axis in range(3))
        moved, noise = np.ptp(cube), 2 * values.std(axis=1).mean()
        responds = tuple(abs(e) > max(RESPONSE_SHARE * moved, noise, 1e-3) for e in effect)
        judged.append(Response(column, effect, responds))
    return judged


# What each sweep's parameter is, and the figure of Julka et al. 2024 that it redraws.
SWEEPS = {
    "warp": "α: how non-linear each code is (Figure 1)",
    "rotation": "α: how much of its neighbor each code holds (Figure 2)",
    "noise": "α: how much of each code is noise (Figure 3)",
}


def write_certificate(calibration, certificate: Certificate, out: str | Path) -> list[Path]:
    """Write the tables ``cases.csv``, ``responses.csv``, ``sweeps.csv`` and ``sizes.csv`` and the four figures, as far
    as there are such parts; returns the files."""
    from jaxdis import plots
    from jaxdis.plots import png

    out = Path(out)
    tables, figures = {}, {}
    if certificate.cases:
        tables = {"cases.csv": _cases(certificate), "responses.csv": response_table(certificate)}
    if certificate.sweeps:
        tables["sweeps.csv"] = _sweeps(calibration, certificate)
    for kind, columns in certificate.sweeps.items():
        figures[f"{kind}.png"] = plots.curves(getattr(calibration, kind), columns, SWEEPS[kind])
    if certificate.sizes:
        sizes = (*calibration.sizes, calibration.full_size)
        differences = {name: differences_of(values) for name, values in certificate.sizes.items()}
        tables["sizes.csv"] = _sizes(sizes, differences, certificate)
        figures["resources.png"] = plots.resources(sizes, differences, certificate.seconds)
    for name, (head, rows) in tables.items():
        csv_text(head, rows, out / name)
    for name, content in figures.items():
        publish(out / name, png(content), replace=True)
    return [out / name for name in (*tables, *figures)]


def differences_of(values: np.ndarray) -> np.ndarray:
    """Mean distance over the cases from the full size's score, ``[sizes − 1, seeds]``."""
    return np.abs(values[:-1] - values[-1:]).mean(axis=1)


def response_table(certificate: Certificate) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Heads and text rows: each column, the aspects it responds to, each one's effect, and the cases passed."""
    rows = []
    for response, (passed, count) in _judged(certificate):
        effects = (f"{effect:+.2f}" for effect in response.effect)
        verdict = f"{passed} of {count}" if count else "no claim"
        rows.append((response.column, response.describe(), *effects, verdict))
    return ("column", "responds to", *ASPECTS, "cases passed"), rows


def short_response_table(certificate: Certificate) -> tuple[Sequence[str], list[Sequence[str]]]:
    """As :func:`response_table`, for a terminal with 80 columns: a star after the effect to which a column responds."""
    rows = []
    for response, (passed, count) in _judged(certificate):
        marks = [f"{effect:+.2f}{'*' if moved else ' '}" for effect, moved in zip(*response[1:], strict=True)]
        effects = ("-  " if "nan" in mark else mark for mark in marks)
        rows.append((response.column, *effects, f"{passed}/{count}" if count else ""))
    return ("column", "modular", "compact", "explicit", "passed"), rows


def _judged(certificate: Certificate) -> Iterator[tuple[Response, tuple[int, int]]]:
    """The aspects to which each column responds; how many cases passed, and how many have a claim."""
    claimed = [row for row in table(certificate) if row.passed is not None]
    for response in responses(certificate):
        passes = [row.passed for row in claimed if row.column == response.column]
        yield response, (sum(passes), len(passes))


Rows = tuple[Sequence[str], list[Sequence]]


def _cases(certificate: Certificate) -> Rows:
    verdict = {None: "", True: "pass", False: "fail"}
    rows = [
        (row.column, row.case, f"{row.mean:.6g}", f"{row.spread:.6g}", row.expected, verdict[row.passed])
        for row in table(certificate)
    ]
    return ("column", "case", "mean", "spread", "expected", "passed"), rows


def _sweeps(calibration, certificate: Certificate) -> Rows:
    rows = [
        (kind, f"{alpha:g}", column, f"{scores.mean():.6g}", f"{scores.std():.6g}")
        for kind, columns in certificate.sweeps.items()
        for column, values in columns.items()
        for alpha, scores in zip(getattr(calibration, kind), values, strict=True)
    ]
    return ("sweep", "alpha", "column", "mean", "spread"), rows


def _sizes(sizes, differences, certificate: Certificate) -> Rows:
    rows = [
        ("distance from full size", size, column, f"{scores.mean():.6g}")
        for column, values in differences.items()
        for size, scores in zip(sizes, values, strict=False)
    ]
    for name, seconds in certificate.seconds.items():
        rows += [("seconds", size, name, f"{value:.6g}") for size, value in zip(sizes, seconds, strict=True)]
    return ("what", "samples", "name", "value"), rows


# Raised whenever a number may change for the same specification.
NUMERICS = 13
# Of the factors of sweeps, for metrics that hold a factor: what the released configuration of IRS takes.
FACTOR_BINS = 20

MOST_SEEDS = 10_000


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What is drawn and scored. The defaults are the paper's, except that it has 50 seeds and its code 25.

    Attributes:
      metrics: (name, metric) pairs; see :meth:`of`.
      seeds: how many seeds per case and per point in a sweep.
      case_samples, sweep_samples: samples per representation; no cases if ``case_samples`` is 0.
      num_factors: how many factors, and codes, a sweep has.
      warp, rotation, noise: the points in the sweeps.
      sizes: sample sizes, each compared with ``full_size`` on the same draw; no curve if empty.
      size_seeds: how many seeds that curve has, which averages over all eight cases.
    """

    metrics: tuple[tuple[str, Metric], ...]
    seeds: int = 25
    case_samples: int = 50_000
    sweep_samples: int = 20_000
    num_factors: Count = 6
    warp: tuple[Share, ...] = tuple(n / 10 for n in range(11))
    rotation: tuple[Share, ...] = tuple(n / 10 for n in range(6))
    noise: tuple[Share, ...] = tuple(n / 10 for n in range(11))
    sizes: tuple[int, ...] = (100, 1000, 10_000, 50_000)
    full_size: int = 100_000
    size_seeds: int = 10

    name: ClassVar = "calibration"
    title: ClassVar = "What each metric responds to: modularity, compactness or explicitness"

    def __post_init__(self):
        check_fields(self)
        for name in ("seeds", "size_seeds"):
            if not 0 < getattr(self, name) <= MOST_SEEDS:
                raise ValueError(f"{name}: must be 1 to {MOST_SEEDS:,}, got {getattr(self, name):,}")
        samples = {"case_samples": self.case_samples, "sweep_samples": self.sweep_samples, "full_size": self.full_size}
        for name, n in [*samples.items(), *(("sizes", size) for size in self.sizes)]:
            if not FEWEST_SAMPLES <= n <= MOST_SAMPLES and not (name == "case_samples" and n == 0):
                raise ValueError(f"{name}: must have {FEWEST_SAMPLES} to {MOST_SAMPLES:,} samples, got {n:,}")
        if not self.parts():
            raise ValueError("parts: needs cases, sweeps or sizes, got none")
        if self.sizes and max(self.sizes) > self.full_size:
            raise ValueError(f"sizes: must be at most the full size, {self.full_size:,}, got {max(self.sizes):,}")

    @classmethod
    def of(cls, metrics="all", **sizes) -> "Calibration":
        """``metrics``: ``"all"``, a name, names, or a mapping from column names to metrics."""
        return cls(plan_of(metrics), **sizes)

    def resized(self, seeds: int | None = None, samples: int | None = None) -> "Calibration":
        """The same parts with more or fewer seeds, or samples in every representation."""
        changes: dict = {} if seeds is None else {"seeds": seeds, "size_seeds": seeds}
        if samples is not None:
            sizes = tuple(size for size in self.sizes if size < samples) or ((samples // 3,) if self.sizes else ())
            cases = samples if self.case_samples else 0
            changes |= {"case_samples": cases, "sweep_samples": samples, "sizes": sizes, "full_size": samples}
        return dataclasses.replace(self, **changes)

    def describe(self) -> dict:
        """A directory's identity: all sizes, but not the metrics, since a directory may hold any of them."""
        sizes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del sizes["metrics"]
        return {"name": "calibration", "numerics": NUMERICS, **sizes}

    def parts(self) -> list["Part"]:
        names = synthetic.CASES if self.case_samples else ()
        cases = [Part("calibration", case, self.case_samples, self.seeds) for case in names]
        points = {kind: getattr(self, kind) for kind in SWEEPS}
        shape = ("", self.sweep_samples, self.seeds)
        sweeps = [Part(kind, *shape, alphas, self.num_factors) for kind, alphas in points.items() if alphas]
        sizes = itertools.product((*self.sizes, self.full_size) if self.sizes else (), synthetic.CASES)
        return cases + sweeps + [Part("calibration", c, self.full_size, self.size_seeds, rows=n) for n, c in sizes]


@dataclasses.dataclass(frozen=True)
class Part:
    """Representations that one program draws and scores: all seeds for a case, or for all points in a sweep."""

    kind: str
    case: str
    num_samples: int
    seeds: int
    points: tuple[float, ...] = (0.0,)
    num_factors: int = 0
    rows: int = 0

    def readable(self, metrics: Plan) -> Plan:
        """The metrics; those that would leave out a sweep's continuous factors cut them into bins."""
        if self.kind not in SWEEPS:
            return metrics
        in_bins = {
            name: metric.with_options(factor_bins=FACTOR_BINS)
            for name, metric in metrics
            if metric.all_options.get("factor_bins", 0) is None
        }
        return tuple((name, in_bins.get(name, metric)) for name, metric in metrics)

    def cell(self, metric: Metric) -> dict:
        return {"kind": "score", "part": dataclasses.asdict(self), "metric": metric.describe(), "numerics": NUMERICS}


@single_precision
def score_part(part: Part, plan: Plan) -> dict[str, dict]:
    """All seeds and points in a part: each metric's columns as lists, and seconds per representation, compiled."""
    count = len(part.points) * part.seeds
    alike, which = _alike(part)
    members = {
        "number": np.tile(np.arange(part.seeds, dtype=np.uint32), len(part.points)),
        "point": np.repeat(np.array(part.points, np.float32), part.seeds),
        "which": np.full(count, which, np.int32),
    }
    program = (plan, alike)
    results = executor.map_members(_score, program, members, ())
    seconds = None
    if part.rows:  # the curve over sizes also measures time: once more, compiled
        started = time.perf_counter()
        executor.map_members(_score, program, members, ())
        seconds = (time.perf_counter() - started) / count
    found = {}
    for name, fields in results.items():
        columns = {name if field == "score" else f"{name}.{field}": each.tolist() for field, each in fields.items()}
        found[name] = {"columns": columns, "seconds": seconds}
    return found


class Alike(NamedTuple):
    """Representations with one shape, which share a program: kinds and cases, samples drawn, samples kept, factors."""

    names: tuple[tuple[str, str], ...]
    num_samples: int
    rows: int
    num_factors: int

    def draw(self, name: tuple[str, str], point, key):
        kind, case = name
        if kind == "calibration":
            codes, factors = synthetic.calibration(case, key, self.num_samples)
        else:
            codes, factors = getattr(synthetic, kind)(point, key, self.num_samples, num_factors=self.num_factors)
        return codes[: self.rows], factors.take(jnp.arange(self.rows))


def _alike(part: Part) -> tuple[Alike, int]:
    """The representations that share a program with a part, and the part's place among them."""
    if part.kind == "calibration":
        shape = _shape_of(part.case)
        names = tuple(("calibration", case) for case in synthetic.CASES if _shape_of(case) == shape)
    else:
        names = tuple((kind, "") for kind in SWEEPS)
    alike = Alike(names, part.num_samples, part.rows or part.num_samples, part.num_factors)
    return alike, names.index((part.kind, part.case))


@functools.cache
def _shape_of(case: str) -> tuple[int, int]:
    """How many codes and factors a case has."""
    codes, factors = jax.eval_shape(lambda: synthetic.calibration(case, jax.random.key(0), 2))
    return codes.shape[1], factors.num_factors


def _score(program: tuple[Plan, Alike], member: Mapping, shared: tuple) -> dict:
    """One representation, drawn and scored. Traced."""
    plan, alike = program
    draw_key, key = jax.random.split(jax.random.fold_in(jax.random.key(0), member["number"]))
    draws = [functools.partial(alike.draw, name) for name in alike.names]
    codes, factors = jax.lax.switch(member["which"], draws, member["point"], draw_key)
    n = alike.rows
    rows = jax.random.permutation(jax.random.fold_in(key, 1), n)
    cut = round(n * TRAIN_SHARE)
    sources = sources_of(metric for _, metric in plan)
    member_codes = MemberCodes(jnp.uint32(0), codes, None, None, None)
    split = (rows[:cut], rows[cut:]) if any(spec.reads.test for spec in sources) else (None, None)
    shared = Shared(key, factors, None, None, *split, prepared_for(sources, key, factors))
    results, _ = score_member(plan, member_codes, shared)
    return {name: scalars(result) for name, result in results.items()}


class CalibrationWork(Work):
    """See :class:`jaxdis.study.Work`. A batch's members are a part's number and metric names."""

    def __init__(self, study: Calibration):
        self.study = study
        self._parts = study.parts()

    def wanted(self) -> dict[str, set[str]]:
        return {"score": {name for part in self._parts for name in self._ids(part).values()}}

    def missing(self, store: Store) -> Iterator[Batch]:
        done = store.ids("score")
        for place, part in enumerate(self._parts):
            ids = self._ids(part)
            for plan in _plans(part, part.readable(self.study.metrics)):
                if names := tuple(name for name, _ in plan if ids[name] not in done):
                    yield Batch("score", (place, *names), len(names))

    def compute(self, store: Store, batch: Batch, on_updates: Updates | None = None) -> None:
        place, *names = batch.members
        part = self._parts[place]
        metrics = dict(part.readable(self.study.metrics))
        results = score_part(part, tuple((name, metrics[name]) for name in names))
        for name in names:
            store.publish("score", part.cell(metrics[name]), results[name])

    def finish(self, store: Store) -> Path:
        return write_certificate(self.study, self.certificate(store), store.root)[0]

    def digest(self, store: Store) -> Digest | None:
        certificate = self.certificate(store)
        if not certificate.cases:
            return None
        title = "How far each aspect moves each score from low to high"
        return Digest(title, *short_response_table(certificate), "* responds to it")

    def certificate(self, store: Store) -> Certificate:
        """All scores, from the records."""
        cases, sweeps, sizes, seconds = {}, {}, {}, {}
        results = ((part, *cell) for part in self._parts for cell in self._ids(part).items())
        for part, name, cell in results:
            result = store.result("score", cell)
            if part.rows:
                seconds.setdefault(name, []).append(result["seconds"])
            for column, stored in result["columns"].items():
                values = np.array([number(value) for value in stored])
                if part.rows:
                    sizes.setdefault(column, []).append(values)
                elif part.kind == "calibration":
                    cases.setdefault(column, []).append(values)
                else:
                    sweeps.setdefault(part.kind, {})[column] = values.reshape(len(part.points), part.seeds)
        by_size = (-1, len(synthetic.CASES))
        return Certificate(
            {column: np.stack(values) for column, values in cases.items()},
            sweeps,
            {column: np.stack(values).reshape(*by_size, self.study.size_seeds) for column, values in sizes.items()},
            {name: np.reshape(values, by_size).mean(axis=1) for name, values in seconds.items()},
        )

    def costs(self) -> dict[str, Totals]:
        seconds = 0.0
        for part in self._parts:
            times = len(part.points) * part.seeds * (2 if part.rows else 1)
            each = score_seconds(self.study.metrics, part.rows or part.num_samples, part.num_factors or 10)
            seconds += times * each
        return {"score": Totals(0.0, seconds, float(RECORD_BYTES * len(self.wanted()["score"])))}

    def _ids(self, part: Part) -> dict[str, str]:
        return {name: cell_id(part.cell(metric)) for name, metric in part.readable(self.study.metrics)}


def _plans(part: Part, metrics: Plan) -> list[Plan]:
    """Metrics that share a program: those on one relation, which is computed once; none if time is measured."""
    if part.rows:
        return [(pair,) for pair in metrics]
    sharing: dict[Hashable, list] = {}
    for name, metric in metrics:
        sharing.setdefault(getattr(metric, "relation", metric), []).append((name, metric))
    return [tuple(plan) for plan in sharing.values()]


WORKS[Calibration] = CalibrationWork


def calibrate(calibration: Calibration, out: str | Path, **arguments) -> Certificate:
    """Score every representation with every metric and write tables and figures; stored cells are not recomputed.

    Args:
      out: a directory for this calibration alone; another choice of metrics may share it, other sizes may not.
      arguments: ``executor`` and ``progress`` of :func:`jaxdis.study.run`.

    Raises:
      StoreError: if the directory holds something else.
    """
    run(calibration, out, **arguments)
    return CalibrationWork(calibration).certificate(Store(out))
