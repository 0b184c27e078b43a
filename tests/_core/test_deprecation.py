"""A deprecated function works, and warns the line that calls it."""

import pytest

from jaxdis._core.deprecation import deprecated


@deprecated("new", since="0.2")
def old(a, *, b):
    """Add."""
    return a + b


def test_a_deprecated_function_works_and_names_its_successor():
    with pytest.warns(DeprecationWarning, match=r"^old is deprecated since jaxdis 0\.2; use new$"):
        assert old(1, b=2) == 3
    assert old.__doc__ == "Add."
