"""Class numbers as metrics read them: those that no sample has cost time, and tip learners' ties."""

import dataclasses
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np

from jaxdis._core.spec import Spec
from jaxdis.evaluation._member import Shared
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS
from jaxdis.relations import RELATIONS

# Functions that take class numbers as values: the distances between them matter, and how many there are does not.
_OF_VALUES = {RELATIONS[name].function for name in ("correlation", "r2", "lasso_importance", "random_forest")}
_OF_VALUES |= {
    METRICS[name].source.function for name in ("r2_linear", "r2_kernel", "mcc_test", "monotonicity", "dci_es")
}
# Functions that only ask which samples have the same class. What others make of class numbers is not known.
_OF_CLASSES = {spec.function for spec in (*RELATIONS.values(), *(metric.source for metric in METRICS.values()))}
_OF_CLASSES -= _OF_VALUES


def numbered(sources: Iterable[Spec], shared: Shared) -> Shared:
    """Number the classes that occur in training, held-out or validation samples from 0, in order.

    Each size becomes how many classes occur, whatever is declared. For functions that take class numbers as values
    these stay, and so does everything for users' functions and for binned classes.
    """
    sources = tuple(sources)
    functions = {spec.function for spec in sources}
    in_bins = any(spec.all_options.get("factor_bins") is not None for spec in sources)
    if in_bins or not functions <= _OF_CLASSES | _OF_VALUES:
        return shared
    roles = ("factors", "test_factors", "validation_factors")
    given = {role: getattr(shared, role) for role in roles if getattr(shared, role) is not None}
    sizes, numbers = _occurring(given.values(), keep_values=bool(functions & _OF_VALUES))
    if sizes == shared.factors.sizes:
        return shared

    def counted(factors):
        values = np.array(factors.values)
        for j, of_class in numbers.items():
            values[:, j] = of_class[values[:, j].astype(np.int32)]
        return dataclasses.replace(factors, values=jnp.asarray(values), sizes=sizes)

    return shared._replace(**{role: counted(factors) for role, factors in given.items()})


def _occurring(roles: Iterable[Factors], *, keep_values: bool) -> tuple[tuple[int | None, ...], dict[int, np.ndarray]]:
    """Each factor's size by the classes that occur, and where that changes it, each class's number."""
    roles = tuple(roles)
    sizes, numbers = list(roles[0].sizes), {}
    for j, size in enumerate(roles[0].sizes):
        if size is None:
            continue
        columns = (np.asarray(factors.values)[:, j].astype(np.int32) for factors in roles)
        occurs = sum(np.bincount(column, minlength=size) for column in columns) > 0
        if occurs.all():
            continue
        sizes[j] = int(occurs.nonzero()[0][-1]) + 1 if keep_values else int(occurs.sum())
        if not keep_values:
            numbers[j] = np.cumsum(occurs) - 1
    return tuple(sizes), numbers
