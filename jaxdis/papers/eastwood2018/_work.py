"""The work of the study of teapots: cells like those of any study, then the paper's tables and figures."""

from pathlib import Path

from jaxdis._core.files import write_csv
from jaxdis.papers.eastwood2018._tables import rows_of
from jaxdis.study._store import Store
from jaxdis.study._trained import TrainedWork


class TeapotsWork(TrainedWork):
    """See :class:`jaxdis.study._work.Work`."""

    def finish(self, store: Store) -> Path:
        """``results.csv``, and ``tables.csv``: Tables 1, 3, 4 and 5 of every member next to the published numbers."""
        rows = rows_of(store, self._members)
        write_csv(store.root / "tables.csv", list(rows[0]), rows)
        return super().finish(store)

    def report(self, store: Store) -> Path:
        """The report of any study, and Figures 2 to 6 in ``figures``."""
        from jaxdis.papers.eastwood2018._figures import write_figures  # matplotlib is not needed to compute cells

        write_figures(self.study, store, self._members)
        return super().report(store)
