"""How a kernel moves over a map, and convolutions that are each other's derivatives.

A convolution to a smaller map, the one back to the larger map, and their gradient by the kernel sum the same products
``large[i·stride + k − before] · kernel[k] · small[i]``. Each sums over two of the three factors and is a derivative of
the other two. Those that JAX derives would be slower on CPU and would store patches on accelerators.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax


class Window(NamedTuple):
    """How a kernel moves over the larger map: position ``i`` of the smaller one reads from ``i·stride − before`` on.

    Attributes:
      precision: of the products.
    """

    size: int
    stride: int
    before: tuple[int, int]
    large: tuple[int, int]
    small: tuple[int, int]
    precision: str | None = None

    @property
    def padding(self) -> list[tuple[int, int]]:
        """Zero rows and columns before and after the larger map; negative ones are not read."""
        return [
            (before, (count - 1) * self.stride + self.size - side - before)
            for before, side, count in zip(self.before, self.large, self.small, strict=True)
        ]

    @property
    def padding_back(self) -> list[tuple[int, int]]:
        """Zero rows and columns before and after the smaller map, spread out by the stride."""
        return [(self.size - 1 - before, self.size - 1 - after) for before, after in self.padding]

    @property
    def back(self) -> "Window":
        """The window from the smaller map to the larger one, for stride 1."""
        before = tuple(before for before, _ in self.padding_back)
        return self._replace(before=before, large=self.small, small=self.large)


def derivatives(shrink: Callable, enlarge: Callable, by_kernel: Callable) -> tuple[Callable, Callable, Callable]:
    """Functions ``(window, left, right)`` as ones of ``(left, right, window)``, each a derivative of the other two.

    Args:
      shrink: the smaller map from the larger one and the kernel.
      enlarge: the larger map from the smaller one and the kernel.
      by_kernel: the kernel's gradient from the larger map and the smaller one.
    """
    smaller, larger, kernel_of = map(_differentiable, (shrink, enlarge, by_kernel))
    smaller.defvjp(
        _with_factors(smaller),
        lambda window, factors, small: (larger(small, factors[1], window), kernel_of(factors[0], small, window)),
    )
    larger.defvjp(
        _with_factors(larger),
        lambda window, factors, large: (smaller(large, factors[1], window), kernel_of(large, factors[0], window)),
    )
    kernel_of.defvjp(
        _with_factors(kernel_of),
        lambda window, factors, kernel: (larger(factors[1], kernel, window), smaller(factors[0], kernel, window)),
    )
    return smaller, larger, kernel_of


def _differentiable(function):
    return jax.custom_vjp(lambda left, right, window: function(window, left, right), nondiff_argnums=(2,))


def _with_factors(product):
    return lambda left, right, window: (product(left, right, window), (left, right))
