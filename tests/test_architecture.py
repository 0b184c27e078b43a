"""The folder list is the pipeline: imports point one way, and heavy libraries have one door each."""

import ast
import graphlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxdis

ROOT = Path(__file__).parent.parent / "jaxdis"

# From the bottom up. A room may import from its own floor and from those below.
FLOORS = [
    {
        "interrupts",
        "precision",
        "progress",
        "runtime",
        "programs",
        "options",
        "spec",
        "typing",
        "arrays",
        "random",
        "files",
        "references",
    },
    {"data", "learners"},
    {"executor", "plots"},
    {"models"},
    {"codes"},
    {"relations"},
    {"scores"},
    {"metrics"},
    {"evaluation"},
    {"structured"},
    {"study", "benchmark"},
    {"reproduce"},
    {"cli", "__main__", "__init__"},
]

DOORS = {
    "flax": {"models/networks/architectures.py"},
    "matplotlib": {"plots/canvas.py"},
    "tensorflow_datasets": None,
    "dask": None,
    "distributed": None,
    "sklearn": set(),
    "pickle": set(),
    "torch": set(),
}


def modules():
    return sorted(ROOT.rglob("*.py"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, inside functions too, except those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            child = ast.Module(child.orelse, [])
        yield child
        yield from executed(child)


def needed(path: Path, known: set[str]) -> set[str]:
    """The modules of the package that a module imports anywhere: ``from jaxdis.data import x`` is an import of
    ``jaxdis.data.x`` where that is a module, and of ``jaxdis.data`` otherwise."""
    found = set()
    for node in executed(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known | ({node.module} if names - known else set())
    return found & known - {name_of(path)}


def floor_of(name: str) -> int:
    for level, rooms in enumerate(FLOORS):
        if name in rooms:
            return level
    raise AssertionError(f"{name}: on no floor; add it to FLOORS")


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    here = floor_of(room_of(path))
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "jaxdis" and len(parts) > 1 and (ROOT / parts[1]).exists() | (ROOT / f"{parts[1]}.py").exists():
            assert floor_of(parts[1]) <= here, f"{path} imports {name}"


def test_no_imports_run_in_circles():
    """Imports inside functions count: where one is needed to avoid a circle, two modules are one.

    That a module of a package makes Python load the package's ``__init__`` first is not counted: packages that offer
    names of their modules would all be circles. What a module imports from a package by name is.
    """
    paths = {name_of(path): path for path in modules()}
    graph = {name: needed(path, set(paths)) for name, path in paths.items()}
    assert sum(map(len, graph.values())) > len(graph)  # the graph is not empty
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"imports run in a circle: {' ← '.join(error.args[1])}")


@pytest.mark.parametrize("library", DOORS)
def test_heavy_libraries_have_one_door(library):
    users = {
        str(path.relative_to(ROOT)) for path in modules() if any(n.split(".")[0] == library for n in imported(path))
    }
    allowed = DOORS[library]
    if allowed is None:
        assert len(users) <= 1, users
    else:
        assert users <= allowed, users


def test_numbers_are_drawn_along_a_line():
    """By :mod:`jaxdis.random`: a generator of arrays takes seconds to compile for each shape."""
    draws = {"bits", "normal", "uniform", "randint"}
    for path in modules():
        if path.name == "random.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in draws:
                assert ast.unparse(node.value) != "jax.random", f"{path}:{node.lineno}"


def test_importing_the_package_is_light():
    program = "import sys, jaxdis; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    for library in (
        "jax",
        "numpy",
        "matplotlib",
        "tensorflow_datasets",
        "dask",
        "sklearn",
        "tyro",
        "rich",
        "h5py",
        "PIL",
    ):
        assert library not in loaded, library


def test_scoring_arrays_loads_no_model():
    program = "import sys, jaxdis; jaxdis.evaluate; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    for library in ("flax", "matplotlib", "tensorflow_datasets", "dask", "sklearn", "tyro", "rich", "h5py", "PIL"):
        assert library not in loaded, library


def test_type_checkers_see_the_names_that_are_loaded_on_first_use():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    rooms = [node for node in block.body if node.module == "jaxdis"]
    assert {name.name for node in rooms for name in node.names} == jaxdis.ROOMS
    assert all(name.asname == name.name for node in rooms for name in node.names)  # else strict checkers hide them
    declared = {node.module: tuple(name.name for name in node.names) for node in block.body if node not in rooms}
    assert declared == jaxdis.HOMES
    assert {name for names in declared.values() for name in names} | {"__version__"} == set(jaxdis.__all__)


@pytest.mark.parametrize("room", sorted(jaxdis.ROOMS))
def test_every_room_opens_on_first_use(room):
    assert getattr(jaxdis, room).__name__ == f"jaxdis.{room}"


def test_no_module_is_a_warehouse():
    """A module is one room: past 400 lines it has become several. The bibliography is as long as what it lists."""
    long = {path.name for path in modules() if len(path.read_text().splitlines()) > 400}
    assert long <= {"references.py"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_every_public_name_is_there(path):
    package = importlib.import_module(".".join(path.parent.relative_to(ROOT.parent).parts))
    for name in getattr(package, "__all__", ()):
        assert hasattr(package, name), name
