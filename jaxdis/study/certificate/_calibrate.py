"""A calibration from one call: run it, and read its certificate."""

from pathlib import Path

from jaxdis.study._run_study import run
from jaxdis.study._store import Store
from jaxdis.study.certificate._calibration import Calibration, Certificate
from jaxdis.study.certificate._calibration_work import CalibrationWork


def calibrate(calibration: Calibration, out: str | Path, **arguments) -> Certificate:
    """Score every representation with every metric and write tables and figures; stored cells are not recomputed.

    Args:
      out: a directory for this calibration alone; another choice of metrics may share it, other sizes may not.
      arguments: ``executor`` and ``progress`` of :func:`jaxdis.study.run`.

    Raises:
      StoreError: if the directory holds something else.
    """
    run(calibration, out, **arguments)
    return CalibrationWork(calibration).certificate(Store(out))
