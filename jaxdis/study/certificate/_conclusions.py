"""A certificate's conclusions: each column's claims, whether they hold, and which aspects it responds to."""

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
    """The aspects that a column claims to measure, by its metric's row; none for a user's own metric."""
    name, _, field = column.partition(".")
    about = METRICS[name].about if name in METRICS else None
    return about.claims.get(field or "score", ()) if about else ()


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
