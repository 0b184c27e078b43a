"""Scores during a training: codes come in batches, and an epoch ends in a table."""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxdis._core.arrays import as_one_array
from jaxdis._core.options import Count, checked_value
from jaxdis.evaluation._evaluate import check_arguments, evaluate
from jaxdis.evaluation._scores import Scores
from jaxdis.factors import Factors
from jaxdis.metrics._plan import plan_of


class Monitor:
    """Score a validation set's codes, which come in batches, when an epoch ends.

    Batches must come in the factors' order: from a loader that does not shuffle.

    Args:
      factors: for all ``n`` samples, as in :func:`jaxdis.evaluate`.
      metrics, arguments: as :func:`jaxdis.evaluate`.
      every: epochs from one computation to the next; batches from the epochs between are not kept.

    Raises:
      ValueError: as :func:`jaxdis.evaluate`, and for batches that are not ``[b, d]`` or not ``n`` samples in all.

    Example:
      >>> values = np.random.default_rng(0).integers(0, 3, (200, 2))
      >>> monitor, log = jaxdis.Monitor(values, ["mig", "mcc"], every=2), []
      >>> for epoch in range(4):
      ...     for batch in np.split(values.astype(np.float32), 4):
      ...         monitor.update(batch)  # the codes of a batch
      ...     if (scores := monitor.compute()) is not None:
      ...         log.append(scores.to_dict(prefix="val/"))  # with Weights & Biases: wandb.log(…)
      >>> len(log), list(log[0])
      (2, ['val/mig', 'val/mcc'])

    With Lightning::

      class Model(lightning.LightningModule):
          def on_fit_start(self):
              self.monitor = jaxdis.Monitor(validation_factors, ["mig", "mcc"], every=10)

          def validation_step(self, batch, batch_idx):
              self.monitor.update(self.encode(batch).detach().cpu())

          def on_validation_epoch_end(self):
              if (scores := self.monitor.compute()) is not None:
                  self.log_dict(scores.to_dict(prefix="val/"))
    """

    def __init__(
        self, factors, metrics: str | Sequence | Mapping = "standard", key=None, *, every: int = 1, **arguments
    ):
        self.factors = Factors.checked(factors)
        plan_of(metrics)  # raises now, not after an epoch
        self._arguments = {"metrics": metrics, "key": key, **check_arguments(arguments)}
        self._every = checked_value("every", Count, every)
        self._epochs = 0
        self._batches: list[np.ndarray] = []

    @property
    def due(self) -> bool:
        """Whether this epoch is scored, so that its codes are needed."""
        return (self._epochs + 1) % self._every == 0

    def update(self, codes) -> None:
        """Add a batch's codes ``[b, d]``: NumPy, JAX or DLPack (torch)."""
        if not self.due:
            return
        batch = as_one_array(codes, "codes")
        widths = {batch.shape[-1], *(each.shape[1] for each in self._batches)} if batch.ndim else set()
        if batch.ndim != 2 or len(widths) != 1:
            needed = f"[b, {self._batches[0].shape[1]}]" if self._batches else "[b, d]"
            raise ValueError(f"codes: must have shape {needed} (samples, codes), got {batch.shape}")
        self._batches.append(np.array(batch))  # the next batch may be written into the same memory

    def compute(self) -> Scores | None:
        """Score this epoch's codes, and begin the next; None for an epoch that is not due."""
        batches, due = self._batches, self.due
        self._batches, self._epochs = [], self._epochs + 1
        if not due:
            return None
        count = sum(map(len, batches))
        if count not in (self.factors.num_samples, self.factors.num_rows):
            raise ValueError(
                f"codes: must be {self.factors.num_samples} samples in all, got {count}; call update first"
            )
        return evaluate(np.concatenate(batches), self.factors, **self._arguments)
