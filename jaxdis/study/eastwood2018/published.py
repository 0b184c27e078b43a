"""Tables 1, 3, 4 and 5 of Eastwood & Williams 2018: one run of each model, two digits."""

from typing import NamedTuple

FACTORS = ("azimuth", "elevation", "red", "green", "blue")


class Printed(NamedTuple):
    """What is printed of one model under one regressor, as :class:`jaxdis.metrics.regression.Regression` names it.

    The disentanglement of each code, its mean weighted by importance; completeness, error on test samples and error on
    the left-out combinations of each factor, and their means.
    """

    per_code: tuple[float, ...]
    disentanglement: float
    per_factor: tuple[float, ...]
    completeness: float
    error: tuple[float, ...]
    mean_error: float
    unseen: tuple[float, ...]
    mean_unseen: float


# By regressor and model.
PUBLISHED: dict[str, dict[str, Printed]] = {
    "lasso": {
        "pca": Printed(
            (0.16, 0.5, 0.31, 0.09, 0.45, 0.6, 0.11, 1.0, 0.17, 0.51),
            0.29,
            (0.38, 0.39, 0.34, 0.24, 0.25),
            0.32,
            (0.83, 0.42, 0.32, 0.32, 0.33),
            0.44,
            (0.88, 0.8, 0.75, 0.52, 0.54),
            0.7,
        ),
        "vae": Printed(
            (1.0, 0.85, 0.95, 0.68, 0.63, 1.0, 0.3, 0.37, 0.66, 0.95),
            0.67,
            (0.54, 0.37, 0.75, 0.73, 0.73),
            0.62,
            (0.61, 0.6, 0.23, 0.21, 0.21),
            0.37,
            (0.56, 1.11, 0.52, 0.3, 0.32),
            0.56,
        ),
        "beta_vae": Printed(
            (1.0, 0.64, 1.0, 0.76, 0.39, 0.89, 0.49, 0.81, 0.45, 0.8),
            0.66,
            (0.14, 0.39, 0.7, 0.85, 0.88),
            0.59,
            (0.8, 0.41, 0.19, 0.19, 0.18),
            0.35,
            (0.81, 0.79, 0.32, 0.27, 0.25),
            0.49,
        ),
        "infogan": Printed(
            (0.83, 0.85, 0.76, 0.66, 0.78, 0.43, 1.0, 1.0, 0.64, 0.74),
            0.75,
            (0.42, 0.72, 0.75, 0.86, 0.84),
            0.72,
            (0.48, 0.13, 0.23, 0.16, 0.15),
            0.23,
            (0.49, 0.34, 0.93, 0.36, 0.33),
            0.49,
        ),
    },
    "forest": {
        "pca": Printed(
            (0.25, 0.54, 0.63, 0.1, 0.88, 0.97, 0.16, 0.9, 0.41, 0.72),
            0.5,
            (0.31, 0.51, 0.67, 0.56, 0.56),
            0.52,
            (0.36, 0.23, 0.2, 0.28, 0.28),
            0.27,
            (0.44, 0.49, 0.65, 0.56, 0.63),
            0.55,
        ),
        "vae": Printed(
            (0.98, 0.99, 0.91, 0.94, 0.75, 0.99, 0.56, 0.56, 0.92, 0.86),
            0.86,
            (0.44, 0.61, 0.9, 0.91, 0.91),
            0.75,
            (0.14, 0.09, 0.09, 0.06, 0.06),
            0.09,
            (0.13, 0.13, 0.34, 0.08, 0.07),
            0.15,
        ),
        "beta_vae": Printed(
            (0.96, 0.96, 0.95, 0.99, 0.63, 0.96, 0.69, 0.94, 0.64, 0.98),
            0.9,
            (0.28, 0.67, 0.9, 0.96, 0.97),
            0.76,
            (0.18, 0.07, 0.08, 0.09, 0.08),
            0.1,
            (0.18, 0.18, 0.21, 0.12, 0.14),
            0.16,
        ),
        "infogan": Printed(
            (0.85, 0.97, 0.91, 0.84, 0.94, 0.68, 0.86, 0.7, 0.71, 0.92),
            0.91,
            (0.59, 0.94, 0.91, 0.96, 0.95),
            0.87,
            (0.25, 0.07, 0.14, 0.09, 0.1),
            0.13,
            (0.27, 0.18, 0.63, 0.21, 0.25),
            0.31,
        ),
    },
}
