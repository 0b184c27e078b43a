"""Floating-point operations of a function, counted on its jaxpr: unlike XLA's count, with every turn of a loop."""

import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

# Primitives that move numbers; all others cost one operation per number of their result.
_FREE = frozenset(
    ("broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put", "dynamic_slice", "gather", "pad")
    + ("dynamic_update_slice", "reshape", "rev", "select_n", "slice", "sort", "split", "squeeze", "stop_gradient")
    + ("transpose",)
)


def operations(function: Callable, *arguments) -> int:
    """Floating-point operations of one call.

    Args:
      function: a function of pytrees of arrays.
      arguments: arrays, or ``jax.ShapeDtypeStruct`` in their place.

    Contract:

    - A product counts two operations per multiplication, a convolution also those with padded zeros.
    - Loops count as often as they turn: ``scan``, ``map`` and ``fori_loop`` with known bounds; a ``while_loop`` once.
    - Of the branches of a condition, the most expensive one counts.
    - Integer arithmetic and moving numbers are free.
    """
    return _of_jaxpr(jax.make_jaxpr(function)(*arguments).jaxpr)


def _of_jaxpr(jaxpr: Jaxpr) -> int:
    return sum(_of_equation(equation) for equation in jaxpr.eqns)


def _of_equation(equation: JaxprEqn) -> int:
    name, parameters = equation.primitive.name, equation.params
    inner = [_of_jaxpr(jaxpr) for jaxpr in _inside(parameters)]
    if name == "scan":
        return parameters["length"] * sum(inner)
    if name == "cond":
        return max(inner)
    # Reductions and scatters carry a function of two numbers; they cost one operation per number that they read.
    if inner and not name.startswith(("reduce", "scatter")):
        return sum(inner)
    if not equation.outvars:  # a callback that only looks
        return 0
    result = equation.outvars[0].aval
    if not jnp.issubdtype(getattr(result, "dtype", jnp.int32), jnp.floating):
        return 0
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        return 2 * result.size * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    if name == "conv_general_dilated":
        kernel, outputs = equation.invars[1].aval, parameters["dimension_numbers"].rhs_spec[0]
        return 2 * result.size * kernel.size // kernel.shape[outputs]
    if name.startswith(("reduce", "cum")):
        return equation.invars[0].aval.size
    if name.startswith("scatter"):
        return equation.invars[2].aval.size if name != "scatter" else 0
    return 0 if name in _FREE else result.size


def _inside(parameters: dict) -> Iterator[Jaxpr]:
    for value in parameters.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part
