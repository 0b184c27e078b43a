"""The conclusions of a certificate: the claims of each column, whether they hold, and which aspects it responds to."""

from typing import NamedTuple

import numpy as np

from jaxdis.data import synthetic
from jaxdis.metrics import METRICS
from jaxdis.metrics._metric import ASPECTS
from jaxdis.study.certificate._calibration import Certificate

# A case is expected high when it has all that the column claims, else low; this is what divides high from low.
MIDDLE = 0.5
# A column responds to an aspect when that moves its mean over the cases by this share of all that it moves.
RESPONSE_SHARE = 0.25


def claims_of(column: str) -> tuple[str, ...]:
    """The aspects that a column claims to measure, by the row of its metric; none for a user's own metric."""
    name, _, field = column.partition(".")
    about = METRICS[name].about if name in METRICS else None
    return about.claims.get(field or "score", ()) if about else ()


class Row(NamedTuple):
    """One column in one case: its scores over the seeds, the expectation of its claim, and whether they agree.

    ``expected`` is ``"high"``, ``"low"`` or ``""`` (no claim); ``passed`` is None without a claim.
    """

    column: str
    case: str
    mean: float
    spread: float
    expected: str
    passed: bool | None


class Response(NamedTuple):
    """How much each aspect moves a column from low to high: mean over the four pairs of cases that differ in it alone.

    ``effect`` and ``responds`` hold one entry per aspect: modularity, compactness, explicitness.
    """

    column: str
    effect: tuple[float, float, float]
    responds: tuple[bool, bool, bool]


def table(certificate: Certificate) -> list[Row]:
    """Mean and spread of every column in every case, with the expectation."""
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
    """The aspects to which each column responds, by the eight cases; none for a column that is undefined in one."""
    judged = []
    for column, values in certificate.cases.items():
        cube = values.mean(axis=1).reshape(2, 2, 2)
        effect = tuple(float(np.diff(cube, axis=axis).mean()) for axis in range(3))
        moved, noise = np.ptp(cube), 2 * values.std(axis=1).mean()
        responds = tuple(abs(e) > max(RESPONSE_SHARE * moved, noise, 1e-3) for e in effect)
        judged.append(Response(column, effect, responds))
    return judged


def describe_response(response: Response) -> str:
    """The aspects by name, with a minus before one that lowers the score."""
    named = [
        f"{'-' if effect < 0 else ''}{aspect}"
        for aspect, effect, responds in zip(ASPECTS, response.effect, response.responds, strict=True)
        if responds
    ]
    return ", ".join(named) or ("undefined" if np.isnan(response.effect).any() else "none")
