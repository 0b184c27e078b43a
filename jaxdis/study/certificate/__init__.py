"""The certificate of a metric: its scores of representations with known properties."""

from jaxdis.study.certificate._calibrate import calibrate
from jaxdis.study.certificate._calibration import Calibration, Certificate
from jaxdis.study.certificate._calibration_work import CalibrationWork

__all__ = ["Calibration", "CalibrationWork", "Certificate", "calibrate"]
