"""The certificate of a metric: its scores of representations with known properties."""

from jaxdis.study.certificate._certificate import (
    Calibration,
    CalibrationWork,
    Certificate,
    Response,
    calibrate,
    responses,
)

__all__ = ["Calibration", "CalibrationWork", "Certificate", "Response", "calibrate", "responses"]
