"""Verdicts on claims, by one rule for all papers.

A claim consists of one or more statistics, each expected above or below a threshold (or between two). Each statistic
has a 90 % interval (:func:`jaxdis.study.report._statistics.student_interval`).

- *holds*: the intervals of all statistics lie on the expected side.
- *does not hold*: the interval of at least one lies entirely on the other side.
- *not seen at this size*: the same, of models for which less was done than is published, so that nothing is refuted.
- *cannot be decided at this size*: otherwise, and where a statistic or its interval is undefined.

Statistics on settings are resampled by seed, those on members by member. An exact statistic's interval is a point.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxdis._core.finite import finite
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._printed import Claim, printed_in, words_in
from jaxdis.study.report._statistics import Interval, Table, over_seeds, student_interval

LEVEL = 0.9
REPLICATES = 500
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be decided at this size"
UNSEEN = "not seen at this size"


class Part(NamedTuple):
    """A statistic with its interval, expected inside (``above``, ``below``)."""

    name: str
    interval: Interval
    above: float = -math.inf
    below: float = math.inf

    @property
    def verdict(self) -> str:
        value, low, high = self.interval
        if not all(map(math.isfinite, (value, low, high))):
            return OPEN
        if low > self.above and high < self.below:
            return HOLDS
        return FAILS if high <= self.above or low >= self.below else OPEN


class Finding(NamedTuple):
    """A claim with what was found, and a remark on what differs from its wording or why it failed.

    ``study`` names the study whose trained models the claim is about; it is empty for claims that need no training.
    ``unmet`` is what that study lacks of the published one.
    """

    claim: Claim
    parts: tuple[Part, ...]
    remark: str = ""
    study: str = ""
    unmet: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        verdicts = [self.verdict_of(part) for part in self.parts]
        if verdicts and all(verdict == HOLDS for verdict in verdicts):
            return HOLDS
        return next((verdict for verdict in (FAILS, UNSEEN) if verdict in verdicts), OPEN)

    def verdict_of(self, part: Part) -> str:
        """The verdict on a part, which refutes nothing while something is unmet."""
        return UNSEEN if part.verdict == FAILS and self.unmet else part.verdict


def findings(
    package: str,
    parts: Mapping[str, Sequence[Part]],
    study: str = "",
    *,
    untrained: Collection[str] = (),
    small: bool = False,
) -> list[Finding]:
    """The claims of a paper that have statistics, with its remarks, of the small form too if ``small``.

    All are about the models of ``study``, except for those that need no training, ``untrained``.
    """
    claims, words = printed_in(package).claims, words_in(package)
    remarks = words.get("remarks", {}) | (words.get("remarks_small", {}) if small else {})
    return [
        Finding(claims[name], tuple(found), remarks.get(name, ""), "" if name in untrained else study)
        for name, found in parts.items()
        if found
    ]


def exact(value: float | int) -> Interval:
    """Take a statistic as free of sampling error."""
    return Interval(float(value), float(value), float(value))


def by_seed(table: Table, statistic: Callable[[Table], float]) -> Interval:
    """A statistic, with an interval from redrawing whole seeds with replacement (undefined below three seeds)."""
    return over_seeds(table, statistic, replicates=REPLICATES, level=LEVEL)


def by_member(table: Table, statistic: Callable[[Table], float]) -> Interval:
    """A statistic, with an interval from redrawing members of any settings (undefined for fewer than three)."""
    count = len(next(iter(table.values())))
    return resampled(count, lambda rows: statistic({name: column[rows] for name, column in table.items()}))


def per_data(
    table: Table,
    statistic: Callable | Mapping[str, Callable],
    name: str = "",
    *,
    models: Collection[str] = (),
    by: Callable = by_seed,
    **expected,
) -> list[Part]:
    """A statistic, or several by name, of each data set, or of each of these models on each data set that has it."""
    parts, statistics = [], statistic if isinstance(statistic, Mapping) else {name: statistic}
    for data, rows in readings.each_data(table):
        present = [model for model in models if model in readings.models_of(rows)]
        groups = {f", {m}": readings.of(rows, model=m) for m in present} if models else {"": rows}
        for (group, own), (words, one) in itertools.product(groups.items(), statistics.items()):
            parts.append(Part(f"{data}{group}{', ' + words if words else ''}", by(own, one), **expected))
    return parts


def of_values(values: Sequence[float] | np.ndarray, statistic: Callable[[np.ndarray], float] = np.mean) -> Interval:
    """A statistic of numbers; numbers that are not finite are left out."""
    defined = finite(values)
    return resampled(len(defined), lambda rows: statistic(defined[rows]))


def resampled(count: int, statistic: Callable[[np.ndarray], float]) -> Interval:
    """A statistic of row numbers; undefined for no rows, and without an interval for fewer than three."""
    return student_interval(count, statistic, replicates=REPLICATES, level=LEVEL)


def share(won: Sequence | np.ndarray) -> Interval:
    """The share of cells that are won, with its exact (Clopper–Pearson) interval at :data:`LEVEL`."""
    from scipy.stats import binomtest

    if len(won) == 0:
        return Interval(math.nan, math.nan, math.nan)
    found = binomtest(int(np.sum(won)), len(won))
    return Interval(float(found.statistic), *map(float, found.proportion_ci(LEVEL)))


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    verdicts = [finding.verdict for finding in findings]
    counted = {verdict: verdicts.count(verdict) for verdict in (HOLDS, FAILS, UNSEEN, OPEN)}
    return {verdict: count for verdict, count in counted.items() if count or verdict != UNSEEN}
