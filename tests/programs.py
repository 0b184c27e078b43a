"""What stands in traced programs."""

import functools
from collections.abc import Callable, Iterator

import jax
import numpy as np

PRODUCTS = {"dot_general", "conv_general_dilated"}
PLACE = object()


def equations_of(jaxpr) -> Iterator:
    """Every operation of a program, and of the programs that it calls."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations_of(inner)


def check_products(function, *arguments) -> None:
    """Fail at a product of float32 whose operands an accelerator may round."""
    check_products_of(jax.make_jaxpr(function)(*arguments).jaxpr)


def check_products_of(jaxpr) -> None:
    """As :func:`check_products`, for a traced program."""
    for equation in equations_of(jaxpr):
        if equation.primitive.name in PRODUCTS and equation.invars[0].aval.dtype == np.float32:
            assert "HIGHEST" in str(equation.params["precision"]), equation.source_info.traceback


def compiled_whole(function: Callable) -> Callable:
    """The function as one program of the arrays among its arguments; all else is part of the program.

    Called as it is, each of its operations is compiled, once for every shape.
    """

    @functools.partial(jax.jit, static_argnums=(0, 1))
    def program(tree, fixed, arrays):
        remaining = iter(arrays)
        leaves = [next(remaining) if value is PLACE else value for value in fixed]
        arguments, options = jax.tree.unflatten(tree, leaves)
        return function(*arguments, **options)

    @functools.wraps(function)
    def call(*arguments, **options):
        leaves, tree = jax.tree.flatten((arguments, options))
        moving = [isinstance(leaf, np.ndarray | jax.Array) for leaf in leaves]
        fixed = tuple(PLACE if moves else leaf for leaf, moves in zip(leaves, moving, strict=True))
        return program(tree, fixed, [leaf for leaf, moves in zip(leaves, moving, strict=True) if moves])

    return call
