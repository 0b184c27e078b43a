"""Count the operations of products on a jaxpr: unlike XLA's count, with every turn of a loop."""

import math
from collections.abc import Callable, Iterator

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var


def operations(function: Callable, *arguments) -> int:
    """Count the floating-point operations of the matrix products and convolutions of one call.

    Args:
      function: a function of pytrees of arrays.
      arguments: arrays, or ``jax.ShapeDtypeStruct`` in their place.

    Contract:

    - A multiplication counts as two. Padded zeros of a convolution count; those between the pixels of images do not.
    - Loops count as often as they turn: ``scan``, ``map`` and ``fori_loop`` with known bounds; a ``while_loop`` once.
    - Of the branches of a condition, the most expensive one counts.
    - What no result depends on counts nothing, since compilers remove it.
    """
    return _of_jaxpr(jax.make_jaxpr(function)(*arguments).jaxpr)


def _of_jaxpr(jaxpr: Jaxpr) -> int:
    total, used = 0, {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not used.isdisjoint(equation.outvars):
            used.update(atom for atom in equation.invars if isinstance(atom, Var))
            total += _of_equation(equation)
    return total


def _of_equation(equation: JaxprEqn) -> int:
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        return 2 * equation.outvars[0].aval.size * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    if name == "conv_general_dilated":
        kernel, outputs = equation.invars[1].aval, parameters["dimension_numbers"].rhs_spec[0]
        spread = math.prod(parameters["lhs_dilation"])
        return 2 * equation.outvars[0].aval.size * kernel.size // kernel.shape[outputs] // spread
    inner = [_of_jaxpr(jaxpr) for jaxpr in _inside(parameters)]
    return max(inner) if name == "cond" else sum(inner) * (parameters["length"] if name == "scan" else 1)


def _inside(parameters: dict) -> Iterator[Jaxpr]:
    for value in parameters.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr | Jaxpr):
                yield part.jaxpr if isinstance(part, ClosedJaxpr) else part
