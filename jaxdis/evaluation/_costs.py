"""What metrics cost: one member's bytes and seconds, by formulas that read how many samples, codes and classes there
are.

Bytes are what programs for CPUs take, as the compiler analyzes them; ``tests/evaluation/test_costs.py`` compares.
Seconds were measured on one core by ``python -m benchmarks.measure_seconds``, which writes the table.
"""

import dataclasses
import functools
import json
import math
from importlib.resources import files
from typing import NamedTuple

from jaxdis._core.spec import Spec
from jaxdis._learners.boosting import bins_for
from jaxdis._learners.splits import BLOCK_NUMBERS
from jaxdis.metrics._metric import LIGHT_SECONDS, Metric
from jaxdis.relations._relation import width_of

# Classes into which a continuous factor counts as cut.
CONTINUOUS = 20
# Bins that count where there are as many as classes.
BINS = 32
# From so many codes on, seconds are those measured with thousands where other forms are used than with hundreds; with
# fewer than FEW_CODES, those measured with ten, where what does not depend on codes is most of the time.
MANY_CODES, FEW_CODES = 600, 256
# The stages of boosting that were measured.
STAGES = 100


class Size(NamedTuple):
    """The sizes that costs depend on: training and held-out samples, codes, factors, and all their classes."""

    train: int
    held_out: int
    codes: int
    factors: int
    classes: int

    @classmethod
    def of(cls, samples: int, codes: int, sizes, *, held_out: int | None = None) -> "Size":
        """``held_out`` samples are given; when None, a third is held out."""
        held = samples // 3 if held_out is None else held_out
        train = samples - held if held_out is None else samples
        return cls(train, held, codes, len(sizes), sum(size or CONTINUOUS for size in sizes))

    def whole(self) -> "Size":
        """The sizes for a metric that holds no samples out."""
        return self._replace(train=self.train + self.held_out, held_out=0)


# A common size, dSprites' factors: at this one the library says how long a metric takes.
USUAL = Size.of(10_000, 10, (3, 6, 40, 32, 32))


@dataclasses.dataclass(frozen=True)
class Terms:
    """How many numbers of 4 bytes, in units that are products of sizes; ``n`` training samples.

    Attributes:
      nd, ndk, ndv: samples × codes, held-out ones included, and these × factors or × classes.
      block, blockk: training samples × a block's codes (:mod:`jaxdis.relations._relation`), and × factors.
      tables: a block's codes × their bins × classes; dbv: all codes × bins × classes; few: 2 million of these at most.
      d, dd, ddk, dv: codes, codes², these × factors, and codes × classes.
      n, nn, nv: samples, samples², and samples × classes.
      millions: whatever the sizes are.
      least: samples × codes, if all else is less.
    """

    nd: float = 0.0
    ndk: float = 0.0
    ndv: float = 0.0
    block: float = 0.0
    blockk: float = 0.0
    tables: float = 0.0
    dbv: float = 0.0
    few: float = 0.0
    d: float = 0.0
    dd: float = 0.0
    ddk: float = 0.0
    dv: float = 0.0
    n: float = 0.0
    nn: float = 0.0
    nv: float = 0.0
    millions: float = 1.0
    least: float = 0.0

    def bytes(self, size: Size, bins: int = BINS) -> float:
        n, d, k, v = size.train, size.codes, size.factors, size.classes
        codes, width = (n + size.held_out) * d, width_of(n, d)
        numbers = (self.nd + self.ndk * k + self.ndv * v) * codes + 1e6 * self.millions
        numbers += ((self.block + self.blockk * k) * n + self.tables * bins * v) * width
        numbers += (self.d + (self.dd + self.ddk * k) * d + (self.dv + self.dbv * bins) * v) * d
        numbers += self.few * min(d * bins * v, BLOCK_NUMBERS)
        numbers += (self.n + self.nn * n + self.nv * v) * n
        return 4 * max(numbers, self.least * codes)

    def __str__(self) -> str:
        terms = [f"{getattr(self, name):g} {unit}" for name, unit in _UNITS.items() if getattr(self, name)]
        words = f"4 ({' + '.join(terms)}) bytes"
        return f"{words}, at least 4 ({self.least:g} n d) bytes" if self.least else words


_UNITS = {
    "nd": "n d",
    "ndk": "n d k",
    "ndv": "n d v",
    "block": "min(n d, 8e6)",
    "blockk": "min(n d, 8e6) k",
    "tables": "min(d, 8e6 / n) bins v",
    "dbv": "d bins v",
    "few": "min(d bins v, 2e6)",
    "d": "d",
    "dd": "d²",
    "ddk": "d² k",
    "dv": "d v",
    "n": "n",
    "nn": "n²",
    "nv": "n v",
    "millions": "million",
}


class Seconds(NamedTuple):
    """``seconds`` for 10,000 samples × ``of_codes`` codes with five factors of 100 classes together, and the powers
    with which they grow in these.
    """

    seconds: float
    samples: float
    codes: float
    classes: float
    factors: float = 0.0
    of_codes: int = 1000

    def of(self, size: Size) -> float:
        samples, classes = size.train + size.held_out, max(size.classes, 2)
        shares = samples / 10_000, size.codes / self.of_codes, classes / 100, size.factors / 5
        return self.seconds * math.prod(share**power for share, power in zip(shares, self[1:5], strict=True))

    def __str__(self) -> str:
        letters = zip(("n / 10,000", f"d / {self.of_codes:,}", "v / 100", "k / 5"), self[1:5], strict=True)
        return " ".join([f"{self.seconds:.2g} s ×", *(f"({letter})^{power:.2g}" for letter, power in letters if power)])


def terms_of(spec: Spec) -> Terms:
    """The formula for a function that reads samples; one outside the library is taken for a few copies of codes."""
    histograms = spec.all_options.get("splitter") == "histogram"
    return (_BY_HISTOGRAMS if histograms else TERMS).get(spec.name, Terms(nd=4.0))


def bytes_of(spec: Spec, size: Size) -> float:
    size, options = size if spec.reads.test else size.whole(), spec.all_options
    terms = _OF_FEW_SAMPLES.get(spec.name) if size.codes > size.train else None
    # Training sets of downstream trees begin at a hundred samples.
    edges = bins_for(size.train if spec.name == "boosted_trees" else 0) if "splitter" in options else BINS
    bins = options.get("bins") or options.get("max_bins") or edges
    return (terms or terms_of(spec)).bytes(size, bins)


def seconds_of(spec: Spec, codes: int = 0) -> Seconds | None:
    """None for a function that was not measured. Boosting takes as long as its stages."""
    form = "many codes" if codes >= MANY_CODES else "few codes" if 0 < codes < FEW_CODES else ""
    splitter, found = spec.all_options.get("splitter"), _measured()
    names = [f"{spec.name}, {splitter}"] if splitter == "histogram" else [f"{spec.name}, {form}", spec.name]
    row = next((found[name] for name in names if name in found), None)
    stages = spec.all_options.get("stages", STAGES)
    return Seconds(row[0] * stages / STAGES, *row[1:]) if row else None


def seconds_at(spec: Spec, size: Size) -> float:
    """Seconds for one member; 0 for a function that was not measured.

    With more codes than samples, what factors a matrix of codes factors one of samples, whose products grow with codes.
    """
    seconds, samples = seconds_of(spec, size.codes), size.train + (0 if spec.reads.test else size.held_out)
    if seconds is None:
        return 0.0
    if spec.name in _FACTORED and size.codes > samples:
        return seconds.of(size._replace(codes=samples)) * size.codes / samples
    return seconds.of(size)


def usual_seconds(metric: Metric) -> float:
    """Seconds for one member of 10,000 samples × 10 codes with dSprites' factors, at least :data:`LIGHT_SECONDS`.

    For a metric outside the library, what its row states.
    """
    stated = metric.about.measured_seconds if metric.about is not None else None
    return max(LIGHT_SECONDS, stated or seconds_at(metric.source, USUAL))


@functools.cache
def _measured() -> dict[str, list[float]]:
    return json.loads((files(__package__) / "seconds.json").read_text())


_FACTORED = {"total_correlation", "linear_prediction"}
TERMS: dict[str, Terms] = {
    "mutual_information": Terms(tables=5.0, least=1.03),
    "mutual_information_equal_count": Terms(block=6.9, tables=1.3, least=1.03),
    "mutual_information_sampled": Terms(tables=4.4, least=1.03),
    "mutual_information_neighbors": Terms(nd=1.03, n=74.0),
    "mutual_information_neural": Terms(ndk=2.0),
    "impact_intensity": Terms(nd=3.0),
    "correlation": Terms(nd=1.03),
    "r2": Terms(nd=1.03),
    "svm_accuracy": Terms(nd=1.0, block=8.0),
    "lasso_importance": Terms(nd=1.3, dd=2.4, ddk=1.15, millions=4.0),
    "logistic_accuracy": Terms(nd=2.1, nv=3.0),
    "logistic_importance": Terms(nd=2.5, dv=80.0, nv=4.0),
    "threshold_accuracy": Terms(block=6.9, tables=1.3, least=1.03),
    "boosted_trees": Terms(nd=6.0, ndv=0.244, dv=759.0),
    "random_forest": Terms(nd=2.5, millions=13.0),
    "explicitness": Terms(nd=3.2, dv=78.0, nv=4.0),
    "downstream_trees": Terms(nd=7.0, ndv=0.25, dv=1100.0),
    "snc": Terms(nd=1.7, blockk=1.72),
    "nk": Terms(nd=1.8, blockk=1.45),
    "linear_probe": Terms(nd=1.2, ddk=4.0),
    "mlp_probe": Terms(nd=2.3, d=6800.0),
    "factor_vae": Terms(nd=3.3, d=15_000.0),
    "beta_vae": Terms(d=38_000.0, n=20.0),
    "irs": Terms(nd=3.2, ndk=1.5),
    "total_correlation": Terms(nd=1.25, dd=12.5),
    "code_information": Terms(nd=0.8, dd=2.9, millions=22.0),
    "infoe": Terms(nd=3.1, nv=6.3, dv=28.0),
    "mcc_test": Terms(nd=2.15),
    "linear_prediction": Terms(nd=2.5, dd=1.54),
    "kernel_prediction": Terms(nd=0.82, block=1.9),
    "dependent_information": Terms(nd=0.08, dv=24.0, millions=17.0),
    "separation": Terms(nd=41.5),
    "unibound": Terms(nd=42.5),
    "factor_paths": Terms(nd=2.02),
    "neighbor_alignment": Terms(nd=2.3, n=660.0),
    "z_max": Terms(nd=3.5),
    "consistency": Terms(nd=3.0),
    "restrictiveness": Terms(nd=4.0),
    "dci_es": Terms(nd=4.2, n=1300.0, millions=3.0),
}
_BY_HISTOGRAMS = {
    "boosted_trees": Terms(nd=3.7, dbv=4.0, few=9.0, nv=6.7, millions=0.1),
    "downstream_trees": Terms(nd=2.0, dbv=4.3, few=12.0, nv=7.1, millions=0.1),
}
# More codes than samples.
_OF_FEW_SAMPLES = {
    "total_correlation": Terms(nd=1.0, nn=1.0),
    "linear_prediction": Terms(nd=2.0, nn=1.0),
    "logistic_importance": Terms(nd=1.5, nn=4.0, nv=75.0),
    "explicitness": Terms(nd=2.2, nn=4.0, nv=70.0),
    "infoe": Terms(nd=2.0, nn=3.0, nv=50.0),
}
