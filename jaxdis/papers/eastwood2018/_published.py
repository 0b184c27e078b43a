"""Tables 1, 3, 4 and 5 of Eastwood & Williams 2018: one run of each model, two digits."""

from typing import NamedTuple

from jaxdis.papers.harness._printed import printed_in

FACTORS = ("azimuth", "elevation", "red", "green", "blue")


class Printed(NamedTuple):
    """What is printed of one model under one regressor, as :class:`jaxdis.papers.eastwood2018._regression.Regression`
    names it.

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


def printed(regressor: str, model: str) -> Printed | None:
    """The paper's numbers for a model (``pca``, ``vae``, …) under ``lasso`` or ``forest``; None if it has none."""
    full, zero_shot = {"lasso": ("3", "5a"), "forest": ("4", "5b")}[regressor]
    tables = printed_in(__package__).tables
    if all(row.key["model"] != model for row in tables["table_5a"].rows):
        return None
    codes, factors, errors, unseen = (
        tables[f"table_{name}"].row(model=model).values for name in (f"{full}a", f"{full}b", f"{full}c", zero_shot)
    )
    per_code = tuple(value for name, value in codes.items() if name != "weighted_average")
    each = [(tuple(row[name] for name in FACTORS), row["average"]) for row in (factors, errors, unseen)]
    return Printed(per_code, codes["weighted_average"], *each[0], *each[1], *each[2])
