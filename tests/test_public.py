"""The public surface: what each public package names, as recorded in ``tests/public_names.txt``.

A change of it is a decision. ``python -m tests.test_public`` records the names of today.
"""

import importlib
import pkgutil
from pathlib import Path

import jaxdis

RECORDED = Path(__file__).parent / "public_names.txt"


def public_modules() -> list[str]:
    """Modules and packages whose names have no part with an underscore."""
    names = [module.name for module in pkgutil.walk_packages(jaxdis.__path__, "jaxdis.")]
    return ["jaxdis", *(name for name in names if "._" not in name)]


def public_names() -> list[str]:
    return sorted(f"{name}.{public}" for name in public_modules() for public in importlib.import_module(name).__all__)


def test_every_public_module_says_what_is_public():
    for name in public_modules():
        module = importlib.import_module(name)
        assert hasattr(module, "__all__"), name
        assert all(hasattr(module, public) for public in module.__all__), name


def test_the_public_names_are_those_recorded():
    recorded = RECORDED.read_text(encoding="utf-8").split()
    assert public_names() == recorded, "a public name came or went: if that is wanted, python -m tests.test_public"


if __name__ == "__main__":
    RECORDED.write_text("".join(f"{name}\n" for name in public_names()), encoding="utf-8")
