"""What stands in traced programs."""

from collections.abc import Iterator

import jax
import numpy as np


def products_of(jaxpr) -> Iterator:
    """Every matrix product and convolution of a program, and of the programs that it calls."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            yield equation
        for value in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from products_of(inner)


def check_products(function, *arguments) -> None:
    """Fail at a product of float32 whose operands an accelerator may round."""
    check_products_of(jax.make_jaxpr(function)(*arguments).jaxpr)


def check_products_of(jaxpr) -> None:
    """As :func:`check_products`, for a traced program."""
    for product in products_of(jaxpr):
        if product.invars[0].aval.dtype == np.float32:
            assert "HIGHEST" in str(product.params["precision"]), product.source_info.traceback
