"""The work of the study of teapots: cells like those of any study, then the paper's figures."""

from pathlib import Path

from jaxdis.study._store import Store
from jaxdis.study._trained import TrainedWork


class TeapotsWork(TrainedWork):
    """See :class:`jaxdis.study.Work`."""

    def report(self, store: Store) -> Path:
        """Write the report of any study, and Figures 2 to 6 in ``figures``."""
        from jaxdis.papers.eastwood2018._figures import write_figures  # matplotlib is not needed to compute cells

        write_figures(self.study, store, self._members)
        return super().report(store)
