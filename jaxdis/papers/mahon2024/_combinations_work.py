"""The work of the study ``mahon2024``: cells like those of any study, then the paper's tables and figures."""

from pathlib import Path

from jaxdis.papers.mahon2024._alignment import write_alignments
from jaxdis.papers.mahon2024._study import METRICS
from jaxdis.papers.mahon2024._tables import write_tables
from jaxdis.study._store import Store
from jaxdis.study._trained import TrainedWork


class CombinationsWork(TrainedWork):
    """See :class:`jaxdis.study.Work`."""

    def report(self, store: Store) -> Path:
        """The report of any study, the Hinton diagrams of collisions and, if it has their metrics, the tables."""
        if {*METRICS, "novel_combination"}.issubset(dict(self.study.metrics)):
            write_tables(self.study, store.root)
        write_alignments(self.study, store.root)
        return super().report(store)
