"""Tables' factors beside other arrays: the rows that a table kept, and two tables' classes numbered alike."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxdis._core.lookup import some_of
from jaxdis._core.options import shown
from jaxdis.factors import Factors


def at_rows(array, factors: Factors, axis: int = -2):
    """The rows in an array that a factor table kept, if the array has all rows of the table."""
    if array is None or factors.rows is None:
        return array
    array = array if hasattr(array, "shape") else np.asarray(array)
    if len(array.shape) < abs(axis) or array.shape[axis] != factors.num_rows:
        return array
    return array[factors.rows] if axis == 0 else array[(..., factors.rows, *(slice(None),) * (-axis - 1))]


def as_numbered(role: str, values: Factors, factors: Factors) -> Factors:
    """One table's factors in the order and with the class numbers of another.

    Raises:
      ValueError: for other names or kinds, or a class that the other table lacks.
    """
    if values.classes is None or factors.classes is None:
        return values
    if sorted(values.names) != sorted(factors.names):
        raise ValueError(
            f"{role}: must have the factors {some_of(factors.names)}, got {some_of(values.names)}; choose them by "
            "columns="
        )
    places = [values.names.index(name) for name in factors.names]
    array, given = np.array(values.values)[:, places], [values.classes[place] for place in places]
    for j, (name, wanted, classes) in enumerate(zip(factors.names, factors.classes, given, strict=True)):
        if (wanted is None) != (classes is None):
            raise ValueError(f"{role}: must hold classes of {name} in both tables or in none; say which by kinds=")
        if wanted is None or wanted == classes:
            continue
        numbers = {value: number for number, value in enumerate(wanted)}
        if unknown := [value for value in classes if value not in numbers]:
            raise ValueError(
                f"{role}: must have classes of {name} that training has, got {shown(unknown[0])}; declare all of them, "
                "as categories of pandas or by reading both from one table"
            )
        of_class = np.array([numbers[value] for value in classes])
        array[:, j] = of_class[array[:, j].astype(np.int32)]
    present = None if values.present is None else values.present[:, places]
    return dataclasses.replace(factors, values=jnp.asarray(array), rows=None, num_rows=None, present=present)
