"""Names of a package that are loaded when they are first used, as its type stub lists them."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path


def attach(package: str, stub: str) -> tuple[Callable, Callable, list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package from its stub.

    Args:
      stub: path of its ``.pyi``, in which each line is ``from MODULE import NAME as NAME``: a submodule if MODULE is
        the package itself, else a name that the package has in ``__all__``.
    """
    homes = {
        alias.name: node.module
        for node in ast.parse(Path(stub).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def load(name: str):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return importlib.import_module(f"{package}.{name}")
        found = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)  # from now on without this function
        return found

    return load, lambda: sorted(homes), sorted(name for name, home in homes.items() if home != package)
