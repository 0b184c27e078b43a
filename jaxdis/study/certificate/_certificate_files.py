"""What a calibration writes: tables, four figures, and which aspects each column responds to."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from jaxdis._core.files import write_csv
from jaxdis.study._store import publish
from jaxdis.study.certificate._calibration import Calibration, Certificate
from jaxdis.study.certificate._conclusions import ASPECTS, Response, responses, table

# What each sweep's parameter is, and the figure of Julka et al. 2024 that it redraws.
SWEEPS = {
    "warp": "α: how non-linear each code is (Figure 1)",
    "rotation": "α: how much of its neighbor each code holds (Figure 2)",
    "noise": "α: how much of each code is noise (Figure 3)",
}


def write_certificate(calibration: Calibration, certificate: Certificate, out: str | Path) -> list[Path]:
    """Write the tables ``cases.csv``, ``responses.csv``, ``sweeps.csv`` and ``sizes.csv`` and the four figures.

    Returns:
      The files written; parts that were left out have no figures and tables.
    """
    from jaxdis import plots
    from jaxdis.plots._canvas import png

    out = Path(out)
    tables, figures = {}, {}
    if certificate.cases:
        tables = {"cases.csv": _cases(certificate), "responses.csv": _responses(certificate)}
    if certificate.sweeps:
        tables["sweeps.csv"] = _sweeps(calibration, certificate)
    for kind, columns in certificate.sweeps.items():
        figures[f"{kind}.png"] = plots.curves(getattr(calibration, kind), columns, SWEEPS[kind])
    if certificate.sizes:
        sizes = (*calibration.sizes, calibration.full_size)
        differences = {name: differences_of(values) for name, values in certificate.sizes.items()}
        tables["sizes.csv"] = _sizes(sizes, differences, certificate)
        figures["resources.png"] = plots.resources(sizes, differences, certificate.seconds)
    for name, (head, *rows) in tables.items():
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
        marked = zip(response.effect, response.responds, strict=True)
        effects = (
            "-  " if np.isnan(effect) else f"{effect:+.2f}{'*' if responds else ' '}" for effect, responds in marked
        )
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


def _cases(certificate):
    yield "column", "case", "mean", "spread", "expected", "passed"
    for row in table(certificate):
        passed = "" if row.passed is None else ("pass" if row.passed else "fail")
        yield row.column, row.case, f"{row.mean:.6g}", f"{row.spread:.6g}", row.expected, passed


def _responses(certificate):
    heads, rows = response_table(certificate)
    yield heads
    yield from rows


def _sweeps(calibration, certificate):
    yield "sweep", "alpha", "column", "mean", "spread"
    for kind, columns in certificate.sweeps.items():
        for column, values in columns.items():
            for alpha, scores in zip(getattr(calibration, kind), values, strict=True):
                yield kind, f"{alpha:g}", column, f"{scores.mean():.6g}", f"{scores.std():.6g}"


def _sizes(sizes, differences, certificate):
    yield "what", "samples", "name", "value"
    for column, values in differences.items():
        for size, scores in zip(sizes, values, strict=False):
            yield "distance from full size", size, column, f"{scores.mean():.6g}"
    for name, seconds in certificate.seconds.items():
        for size, value in zip(sizes, seconds, strict=True):
            yield "seconds", size, name, f"{value:.6g}"
