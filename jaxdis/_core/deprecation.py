"""How a public function leaves the library: it works and warns for one minor version."""

import functools
import warnings
from collections.abc import Callable


def deprecated(instead: str, since: str) -> Callable[[Callable], Callable]:
    """Make a function warn where it is called.

    Args:
      instead: what to call in its place.
      since: the version that first warned.

    Example:
      >>> @deprecated("jaxdis.evaluate", since="0.2")
      ... def score_all(codes, factors): ...
    """

    def mark(function: Callable) -> Callable:
        message = f"{function.__qualname__} is deprecated since jaxdis {since}; use {instead}"

        @functools.wraps(function)
        def old(*args, **kwargs):
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return old

    return mark
