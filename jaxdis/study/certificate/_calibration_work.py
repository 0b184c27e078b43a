"""The work in a calibration: no training, one cell per part and metric, and tables and figures from them all."""

from collections.abc import Hashable, Iterator
from pathlib import Path

from jaxdis.metrics._plan import Plan
from jaxdis.study._cost import RECORD_BYTES, score_seconds
from jaxdis.study._store import Store, cell_id
from jaxdis.study._work import WORKS, Batch, Digest, Totals, Updates
from jaxdis.study.certificate._calibration import Calibration, Certificate, Part, certificate_of, score_part
from jaxdis.study.certificate._certificate_files import short_response_table, write_certificate


class CalibrationWork:
    """See :class:`jaxdis.study.Work`. A batch's members are a part's number and metric names."""

    def __init__(self, study: Calibration):
        self.study = study
        self._parts = study.parts()

    def describe(self) -> dict:
        return self.study.describe()

    def wanted(self) -> dict[str, set[str]]:
        return {"score": {name for part in self._parts for name in self._ids(part).values()}}

    def missing(self, store: Store) -> Iterator[Batch]:
        done = store.ids("score")
        for number, part in enumerate(self._parts):
            ids = self._ids(part)
            for plan in _plans(part, part.readable(self.study.metrics)):
                names = tuple(name for name, _ in plan if ids[name] not in done)
                if names:
                    yield Batch("score", (number, *names), len(names))

    def compute(self, store: Store, batch: Batch, on_updates: Updates | None = None) -> None:
        number, *names = batch.members
        part = self._parts[number]
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

    def report(self, store: Store) -> Path:
        return self.finish(store)

    def certificate(self, store: Store) -> Certificate:
        """All scores, from the records."""
        results = {}
        for part in self._parts:
            results |= {(part, name): store.result("score", cell) for name, cell in self._ids(part).items()}
        return certificate_of(self.study, results)

    def costs(self) -> dict[str, Totals]:
        seconds = sum(
            len(part.points)
            * part.seeds
            * (2 if part.rows else 1)
            * score_seconds(self.study.metrics, part.rows or part.num_samples, part.num_factors or 10)
            for part in self._parts
        )
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
