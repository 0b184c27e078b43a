"""Studies: a study as a value, its results on disk, and the analyses that answer its questions."""

from jaxdis.study._definition import Sampling, Study, Training
from jaxdis.study._library import STUDIES
from jaxdis.study._run_study import WORKS, Work, run, status, work_of
from jaxdis.study._store import Store, StoreError
from jaxdis.study._trained_work import TrainedWork
from jaxdis.study.certificate import Calibration

__all__ = ["Calibration", "STUDIES", "Sampling", "Store", "StoreError", "Study", "TrainedWork", "Training", "WORKS"]
__all__ += ["Work", "run", "status", "work_of"]
