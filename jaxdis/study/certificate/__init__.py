"""The certificate of a metric: its scores of representations with known properties."""

from jaxdis.study.certificate._calibrate import calibrate
from jaxdis.study.certificate._calibration import Calibration, Certificate
from jaxdis.study.certificate._calibration_work import CalibrationWork
from jaxdis.study.certificate._conclusions import Response, responses

__all__ = ["Calibration", "CalibrationWork", "Certificate", "Response", "calibrate", "responses"]
