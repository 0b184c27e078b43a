"""Class numbers as metrics read them: those that no sample has cost time, and tip learners' ties, as would another
order of classes that have none."""

import dataclasses
from collections.abc import Iterable
from typing import Literal

import jax.numpy as jnp
import numpy as np

from jaxdis._core.spec import Spec
from jaxdis.evaluation._member import Shared
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS
from jaxdis.relations import RELATIONS

# Functions that take class numbers as values: the distances between them matter, and how many there are does not.
OF_VALUES = {RELATIONS[name].function for name in ("correlation", "r2", "lasso_importance", "random_forest")}
OF_VALUES |= {
    METRICS[name].source.function for name in ("r2_linear", "r2_kernel", "mcc_test", "monotonicity", "dci_es")
}
# Functions that only ask which samples have the same class. What others make of class numbers is not known.
_OF_CLASSES = {spec.function for spec in (*RELATIONS.values(), *(metric.source for metric in METRICS.values()))}
_OF_CLASSES -= OF_VALUES


def without_order(source: Spec) -> str:
    """What a function does with a factor whose classes have no order, in words."""
    if source.needs_order:
        return "are left out"
    return "have an indicator for each class" if source.function in OF_VALUES else "count by class"


def numbered(sources: Iterable[Spec], shared: Shared) -> Shared:
    """Number the classes that occur in training, held-out or validation samples from 0, in order.

    Each size becomes how many classes occur, whatever is declared. Nominal classes are numbered as they first occur: a
    learner's rounding and first weights then do not depend on the table's order, either. For functions that take class
    numbers as values those of ordered factors stay, and so does everything for users' functions and for binned classes.
    """
    sources = tuple(sources)
    functions = {spec.function for spec in sources}
    in_bins = any(spec.all_options.get("factor_bins") is not None for spec in sources)
    nominal = shared.factors.nominal is not None
    if not functions <= _OF_CLASSES | OF_VALUES or (in_bins and not nominal):
        return shared
    roles = ("factors", "test_factors", "validation_factors")
    given = {role: getattr(shared, role) for role in roles if getattr(shared, role) is not None}
    keeps = "sizes" if in_bins else "values" if functions & OF_VALUES else None
    sizes, numbers = _occurring(given.values(), keeps)
    if sizes == shared.factors.sizes and not numbers:
        return shared

    def counted(factors):
        values = np.array(factors.values)
        for j, of_class in numbers.items():
            values[:, j] = of_class[values[:, j].astype(np.int32)]
        return dataclasses.replace(factors, values=jnp.asarray(values), sizes=sizes)

    return shared._replace(**{role: counted(factors) for role, factors in given.items()})


def _occurring(roles: Iterable[Factors], keeps: Literal["sizes", "values"] | None) -> tuple:
    """Each factor's size by the classes that occur, and its classes' numbers where these change."""
    roles = tuple(roles)
    sizes, numbers = list(roles[0].sizes), {}
    nominal = roles[0].nominal or (False,) * len(sizes)
    for j, size in enumerate(roles[0].sizes):
        if size is None:
            continue
        column = np.concatenate([np.asarray(factors.values)[:, j].astype(np.int32) for factors in roles])
        occurs = np.bincount(column, minlength=size) > 0
        if nominal[j]:
            classes, first = np.unique(column, return_index=True)
            sizes[j], numbers[j] = len(classes), np.zeros(size, int)
            numbers[j][classes[np.argsort(first)]] = np.arange(len(classes))
            continue
        if occurs.all() or keeps == "sizes":
            continue
        sizes[j] = int(occurs.nonzero()[0][-1]) + 1 if keeps == "values" else int(occurs.sum())
        if keeps is None:
            numbers[j] = np.cumsum(occurs) - 1
    return tuple(sizes), numbers
