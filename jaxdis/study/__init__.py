"""Studies: a study as a value, its results on disk, and the analyses that answer its questions."""

import importlib

from jaxdis._core.store import Store, StoreError
from jaxdis.study import _definition as _library
from jaxdis.study._definition import Sampling, Study, Training
from jaxdis.study._run_study import WORKS, Work, run, status, work_of
from jaxdis.study._trained_work import TrainedWork
from jaxdis.study.certificate import Calibration

__all__ = ["Calibration", "STUDIES", "Sampling", "Store", "StoreError", "Study", "TrainedWork", "Training", "WORKS"]
__all__ += ["Work", "run", "status", "work_of"]


def __getattr__(name: str):
    if name != "STUDIES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module("jaxdis.papers")  # which stand above, and add theirs
    return _library.STUDIES
