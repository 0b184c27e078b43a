"""A study's plan before it runs: how many cells are missing, and what they cost."""

from pathlib import Path
from typing import NamedTuple

from jaxdis.study._run_study import status
from jaxdis.study._work import work_of


class Cost(NamedTuple):
    """What remains to be computed for one kind of cell."""

    cells: int
    missing: int
    flops: float
    seconds: float
    disk_bytes: float
    memory_bytes: float


def plan(study, out: str | Path | None = None, *, extend: bool = False) -> dict[str, Cost]:
    """What the cells missing in ``out`` cost, by kind (all cells when None).

    - ``flops``: for training, the products in one update (:func:`~jaxdis._core.operations.operations`, without
      rendering) times updates times members. Operations in scores are not counted, since their loops depend on the
      data; ``flops`` is then 0.
    - ``seconds``: if this machine does nothing else. Training runs at :data:`~jaxdis.study._cost.TRAINING_EFFICIENCY`
      of a matrix product's rate, measured now; scores take the times in a table. Expect a factor of two either way.
    - ``disk_bytes``: for records, without checkpoints.
    - ``memory_bytes``: for one member, with the largest model and metric, see
      :func:`~jaxdis._core.operations.live_bytes`. A CPU device holds one member at a time, an accelerator as many as
      fit.

    Raises:
      StoreError: if ``out`` holds another study; with ``extend``, other than a smaller version of this one.
    """
    work = work_of(study)
    total = {kind: len(names) for kind, names in work.wanted().items()}
    done = dict.fromkeys(total, 0) if out is None else status(work, out, extend=extend).done
    left = {kind: 1 - done[kind] / total[kind] for kind in total}
    return {
        kind: Cost(
            total[kind], total[kind] - done[kind], *(left[kind] * value for value in totals[:3]), totals.memory_bytes
        )
        for kind, totals in work.costs().items()
    }
