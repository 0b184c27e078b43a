"""Samples that belong together, such as one episode's frames: as named, and signs of them where nobody named any."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdis._core.options import shown
from jaxdis._core.table_columns import columns_of
from jaxdis.evaluation._member import MemberCodes
from jaxdis.factors import Factors


def as_groups(groups, factors: Factors) -> np.ndarray | None:
    """Number groups ``[n]`` from 0 as they occur, from whole numbers, text or a table's column; None for None."""
    if groups is None:
        return None
    if isinstance(groups, str):
        raise ValueError(
            f"groups: must have one entry per sample, got {shown(groups)}; of a table, give its column: "
            f"groups=table[{groups!r}]"
        )
    try:
        (column,) = columns_of({"groups": groups}).values()
    except ValueError as error:
        raise ValueError(f"groups: must be whole numbers or text, one entry per sample; {error}") from None
    if odd := [entry for entry in column.entries if entry is None or (isinstance(entry, float) and entry % 1)]:
        got = "none for some" if odd[0] is None else f"{odd[0]:g}"
        raise ValueError(f"groups: must be whole numbers or text, one entry per sample, got {got}")
    numbers = factors.at_rows(_numbered(column.entries), 0)
    if len(numbers) != factors.num_samples:
        raise ValueError(f"groups: must have one entry for each of {factors.num_samples} samples, got {len(numbers)}")
    return _numbered(numbers.tolist())


def _numbered(labels: list) -> np.ndarray:
    """Numbers from 0 in the labels' order, whatever the order of samples."""
    ordered = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    numbers = {label: number for number, label in enumerate(ordered)}
    return np.array([numbers[label] for label in labels], np.int32)


def check_groups(groups, purpose: str, *others) -> None:
    """Check that several groups can move, and that there are no ``others``, samples whose groups are not known."""
    if groups is None:
        return
    if groups.max() == 0:
        raise ValueError(f"groups: must be at least two for {purpose}, got one")
    if any(other is not None for other in others):
        raise ValueError(
            f"groups: must be of all samples for {purpose}, got test or validation samples whose groups are not known; "
            "give all samples together, and whole groups are held out"
        )


Notes = list[tuple[str, str]]
# Series are looked for in so many samples, and beside so many factors.
MOST_ROWS, MOST_SLOW = 20_000, 16
# The share of samples that repeat others from which on copies are looked for.
LEAST_COPIES = 0.05
# The correlation with the sample before, or agreement beyond chance, from which on samples are a series, and the share
# of a code that factors do not explain from which on it says so.
LEAST_KEPT, LEAST_SHARE = 0.3, 0.05
# Standard errors beyond which repetitions are no chance.
CERTAIN = 6.0


class Signs(NamedTuple):
    """Signs that samples depend on each other, or None: ``copies``, the share that repeats others; ``series``, the
    correlation with the sample before."""

    copies: float | None = None
    series: float | None = None


def notes_on_dependence(names: Sequence[str], members: MemberCodes, factors: Factors, redraws: bool) -> Notes:
    """Note for metrics that take samples for independent that they seem not to be, as one member's codes show."""
    signs, texts = signs_of(members.few(1)[0][0], factors), []
    if signs.series is not None:
        texts.append(
            "each sample resembles the one before it, in factors and in codes beyond what factors explain (correlation "
            f"{signs.series:.2f}), as frames of one episode do, and is taken as independent; give groups=, such as the "
            "episode of each sample" + (", or null=('shift', 100) for one stationary series" if redraws else "")
        )
    if signs.copies is not None:
        texts.append(
            f"{signs.copies:.0%} of the samples are exact copies of others, and are taken as independent; leave copies "
            "out, or give groups=, equal for all copies of a sample"
        )
    return [(name, text) for name in names for text in texts]


def signs_of(codes, factors: Factors) -> Signs:
    """Look for copies among one member's samples ``[n, d]``, and for series, such as an episode's frames.

    Independent samples show neither sign, also where images repeat by chance, are all listed in order, or are sorted by
    a factor.
    """
    codes = np.nan_to_num(np.asarray(codes, np.float32))
    values = np.asarray(factors.values, np.float64)
    if len(codes) < 50:
        return Signs()
    return Signs(_copies(codes, values, factors.sizes), _series(codes[:MOST_ROWS], values[:MOST_ROWS], factors))


def _copies(codes: np.ndarray, values: np.ndarray, sizes) -> float | None:
    """The share that repeats other samples more regularly, or more in some classes, than drawn images would.

    Samples drawn from finitely many images occur a Poisson number of times, and equally often in all classes.
    """
    combinations, seen = _hashes(values), _hashes(codes)
    _, first, where, times = np.unique(
        combinations * np.uint64(3) ^ seen, return_index=True, return_inverse=True, return_counts=True
    )
    n, distinct = len(codes), len(times)
    # Factors with classes may say all about an image. Of continuous ones no two samples have the same values by chance.
    determined = None not in sizes and len(np.unique(combinations)) == distinct
    if n - distinct < LEAST_COPIES * n or determined:
        return None
    if max(len(np.unique(code)) for code in codes.T) < 0.9 * distinct:  # codes with few values repeat by themselves
        return None
    images = _images(np.array([n]), distinct)
    rate = n / images
    pairs, expected = (times * (times - 1) / 2).sum(), n * rate / 2
    regular = (expected - pairs) / np.sqrt(images * (rate**2 / 2 + rate**3))
    uneven = [0.0]
    for column, size in zip(values.T, sizes, strict=True):
        if size is not None and size <= distinct:
            classes = column.astype(int)
            drawn, found = (np.bincount(each, minlength=size) for each in (classes, classes[first]))
            of_class = _images(drawn, distinct)
            rates = drawn / of_class
            spread = of_class * np.exp(-rates) * (1 - (1 + rates) * np.exp(-rates))
            uneven.append(np.abs((found - of_class * -np.expm1(-rates)) / np.sqrt(spread + 1)).max())
    return float((times[where] > 1).mean()) if max(regular, *uneven) > CERTAIN else None


def _images(drawn: np.ndarray, distinct: int) -> float:
    """How many images each class has if ``distinct`` in all occur among so many drawn in each."""
    low, high = distinct / len(drawn), 1e12
    for _ in range(100):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if (-middle * np.expm1(-drawn / middle)).sum() < distinct else (low, middle)
    return float(high)


def _hashes(rows: np.ndarray, found: np.ndarray | None = None) -> np.ndarray:
    """A number for each row that others have only if they are equal, after others already ``found``."""
    found = np.zeros(len(rows), np.uint64) if found is None else found
    for column in rows.T:
        bits = (column + 0.0).astype(np.float32).view(np.uint32).astype(np.uint64)  # -0 is 0
        found = (found ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found


def _series(codes: np.ndarray, values: np.ndarray, factors: Factors) -> float | None:
    """How far codes keep from sample to sample what factors do not explain, if factors keep their values, too."""
    least = max(LEAST_KEPT, CERTAIN / np.sqrt(len(codes)))
    periods = factors.periods or (None,) * values.shape[1]
    kept = np.array([_kept(*each) for each in zip(values.T, factors.sizes, periods, strict=True)])
    slow = [j for j in np.argsort(-kept)[:MOST_SLOW] if kept[j] > least]
    if not slow or _in_order(values, factors.sizes) or _in_order(values[:, ::-1], factors.sizes[::-1]):
        return None
    centered = codes - codes.mean(axis=0, dtype=np.float64)
    combinations, of_row = np.unique(_hashes(values), return_inverse=True)
    if len(combinations) <= len(codes) / 4:
        counts = np.bincount(of_row)[:, None]
        sums = np.stack([np.bincount(of_row, weights=code) for code in centered.T], axis=1)
        rest = centered - (sums / counts)[of_row]
    else:
        design = np.concatenate([_pieces(values[:, j]) for j in slow], axis=1)
        rest = centered - design @ np.linalg.lstsq(design, centered, rcond=None)[0]
    left = (rest**2).sum(axis=0)
    unexplained = left > LEAST_SHARE * (centered**2).sum(axis=0)
    after = (rest[1:] * rest[:-1]).sum(axis=0)[unexplained] / left[unexplained]
    return float(after.max()) if after.size and after.max() > least else None


def _kept(column: np.ndarray, size: int | None, period: float | None) -> float:
    """How far a factor agrees with its value in the sample before: beyond chance for classes, else the correlation."""
    if size is not None:
        chance = ((np.bincount(column.astype(int)) / len(column)) ** 2).sum()
        return (np.mean(column[1:] == column[:-1]) - chance) / (1 - chance) if chance < 1 else 0.0
    if period is not None:
        angle = 2 * np.pi * column / period
        return max(_kept(wave, None, None) for wave in (np.sin(angle), np.cos(angle)))
    column = column - column.mean()
    return column[1:] @ column[:-1] / (column @ column) if column.any() else 0.0


def _in_order(values: np.ndarray, sizes: Sequence[int | None]) -> bool:
    """Whether the samples list each combination once: one factor's values in turn, for each value the next factor's,
    and so on."""
    prefix = np.zeros(len(values), np.uint64)
    for column, size in zip(values.T, sizes, strict=True):
        along = column[1:][prefix[1:] == prefix[:-1]] - column[:-1][prefix[1:] == prefix[:-1]]
        prefix = _hashes(column[:, None], prefix)
        if size is None and (along < 0).any() and (along > 0).any():
            return False
        if size is not None and (prefix[1:] != prefix[:-1]).sum() + 1 > len(np.unique(prefix)):
            return False
    return len(np.unique(prefix)) == len(prefix)


def _pieces(column: np.ndarray) -> np.ndarray:
    """Indicators for 20 intervals, and the values within each: a regression on these follows any smooth function."""
    edges = np.unique(np.quantile(column, np.linspace(0, 1, 21)[1:-1]))
    inside = np.searchsorted(edges, column)[:, None] == np.arange(len(edges) + 1)
    return np.concatenate([inside, inside * (column - column.mean())[:, None]], axis=1).astype(float)
