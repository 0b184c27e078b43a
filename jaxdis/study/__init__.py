"""Studies: a study as a value, its results on disk, and the analyses that answer its questions."""

from jaxdis.study.definition import Sampling, Study, Training
from jaxdis.study.library import STUDIES
from jaxdis.study.store import Store, StoreError

__all__ = ["STUDIES", "Sampling", "Store", "StoreError", "Study", "Training"]
