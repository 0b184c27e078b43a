"""The certificate of a metric: its scores of representations with known properties."""

from jaxdis.study.certificate._calibration import Calibration, CalibrationWork, calibrate
from jaxdis.study.certificate._certificate import Certificate, Response, responses

__all__ = ["Calibration", "CalibrationWork", "Certificate", "Response", "calibrate", "responses"]
