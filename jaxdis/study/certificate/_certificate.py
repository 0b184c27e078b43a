"""The certificate of metrics: scores of representations with known properties, what follows from them, and files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis._core.files import write_csv
from jaxdis.data import synthetic
from jaxdis.metrics import METRICS
from jaxdis.metrics._metric import ASPECTS, Column
from jaxdis.study._store import publish

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

    Attributes:
      column: its name in the certificate.
      effect: the difference for modularity, compactness and explicitness; NaN if a case leaves the column undefined.
      responds: whether each difference exceeds both the noise of seeds and a quarter of the column's range.
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
    from jaxdis.plots._canvas import png

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
        write_csv(out / name, head, rows)
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
    verdicts: dict[str, list[bool]] = {}
    for row in table(certificate):
        if row.passed is not None:
            verdicts.setdefault(row.column, []).append(row.passed)
    for response in responses(certificate):
        passes = verdicts.get(response.column, [])
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
