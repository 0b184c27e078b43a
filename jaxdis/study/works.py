"""The work of each kind of study: studies are values, and WORKS says what computes them."""

from collections.abc import Callable, Mapping

from jaxdis.study.certificate.calibration import Calibration
from jaxdis.study.certificate.work import CalibrationWork
from jaxdis.study.definition import Study
from jaxdis.study.eastwood2018.study import Teapots
from jaxdis.study.eastwood2018.work import TeapotsWork
from jaxdis.study.mahon2024.study import Combinations
from jaxdis.study.mahon2024.work import CombinationsWork
from jaxdis.study.trained import TrainedWork
from jaxdis.study.work import Work

WORKS: Mapping[type, Callable[..., Work]] = {
    Study: TrainedWork,
    Teapots: TeapotsWork,
    Combinations: CombinationsWork,
    Calibration: CalibrationWork,
}


def work_of(study) -> Work:
    """A study as the driver sees it; a class without a row has the work of the class that it derives from.

    Raises:
      TypeError: for anything else.
    """
    for kind in type(study).__mro__:
        if kind in WORKS:
            return WORKS[kind](study)
    kinds = ", ".join(kind.__name__ for kind in WORKS)
    raise TypeError(f"study: needs one of {kinds}, got {type(study).__name__}")
