"""Float32 throughout: decorators that hold JAX's settings of precision at what the library computes with."""

import functools
import typing
from collections.abc import Callable

import jax

Function = typing.TypeVar("Function", bound=Callable)


def single_precision(function: Function) -> Function:
    """Wrap the function so that it computes the same bits whether or not ``JAX_ENABLE_X64`` is set.

    Every array in the library is float32 or int32. With the setting, constants and indices would become 64 bits wide,
    and random numbers would be others.
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not jax.config.jax_enable_x64:
            return function(*args, **kwargs)
        with jax.enable_x64(False):
            return function(*args, **kwargs)

    return typing.cast(Function, call)


def exact_products(function: Function) -> Function:
    """Wrap the function so that matrix products use full float32; by default, accelerators round the operands."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return typing.cast(Function, call)
