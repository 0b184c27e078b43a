"""Floating-point operations of a function, counted on its jaxpr: unlike XLA's count, with every turn of a loop."""

import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var

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

    - A product counts two operations per multiplication, a convolution also those with padded zeros, but not
      those with zeros between the pixels of its images.
    - Loops count as often as they turn: ``scan``, ``map`` and ``fori_loop`` with known bounds; a ``while_loop`` once.
    - Of the branches of a condition, the most expensive one counts.
    - What no result depends on counts nothing, since compilers remove it.
    - Integer arithmetic and moving numbers are free.
    """
    return _of_jaxpr(jax.make_jaxpr(function)(*arguments).jaxpr)


def _of_jaxpr(jaxpr: Jaxpr) -> int:
    total, used = 0, set(_variables(jaxpr.outvars))
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not used.isdisjoint(equation.outvars):
            used.update(_variables(equation.invars))
            total += _of_equation(equation)
    return total


def _variables(atoms) -> Iterator[Var]:
    return (atom for atom in atoms if isinstance(atom, Var))


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
        spread = math.prod(parameters["lhs_dilation"])
        return 2 * result.size * kernel.size // kernel.shape[outputs] // spread
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
