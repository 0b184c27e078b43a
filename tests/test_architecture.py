"""The folder list is the pipeline: imports point one way, and heavy libraries have one door each."""

import ast
import builtins
import dis
import functools
import graphlib
import importlib
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxdis

ROOT = Path(__file__).parent.parent / "jaxdis"

# From the bottom up. A package may import from its own level and from those below. The scoring ring, up to evaluation,
# stands below data and models, so that none of it imports these.
LEVELS = [
    {"_core", "plots"},
    {"codes", "factors"},
    {"_learners"},
    {"relations"},
    {"scores"},
    {"metrics"},
    {"evaluation"},
    {"structured"},
    {"data"},
    {"models"},
    {"encoders"},
    {"study"},
    {"papers"},
    {"cli", "__main__", "__init__"},
]

DOORS = {
    "flax": {path.relative_to(ROOT).as_posix() for path in (ROOT / "models/networks").glob("_*.py")},
    "matplotlib": {"plots.py"},
    "tensorflow_datasets": None,
    "dask": None,
    "distributed": None,
    "anndata": {"_core/table_files.py"},
    "sklearn": set(),
    "pickle": set(),
    "torch": set(),
}


def modules():
    return sorted(ROOT.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


@functools.cache
def imported(path: Path) -> set[str]:
    found = set()
    for node in nodes(path):
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
        if isinstance(child, ast.If) and "TYPE_CHECKING" in vars(child.test).values():
            child = ast.Module(child.orelse, [])
        yield child
        yield from executed(child)


def needed(path: Path, known: set[str]) -> set[str]:
    """The modules of the package that a module imports anywhere: ``from jaxdis.data import x`` is an import of
    ``jaxdis.data.x`` where that is a module, and of ``jaxdis.data`` otherwise."""
    found = set()
    for node in executed(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known | ({node.module} if names - known else set())
    return found & known - {name_of(path)}


def level_of(name: str) -> int:
    for level, packages in enumerate(LEVELS):
        if name in packages:
            return level
    raise AssertionError(f"{name}: on no level; add it to LEVELS")


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_point_down():
    upward = []
    for path in modules():
        for name in imported(path):
            parts = name.split(".")
            known = parts[0] == "jaxdis" and len(parts) > 1
            if known and ((ROOT / parts[1]).exists() or (ROOT / f"{parts[1]}.py").exists()):
                upward += [f"{path} imports {name}"] * (level_of(parts[1]) > level_of(package_of(path)))
    assert upward == []


def defined(path: Path) -> set[str]:
    """The names that a module assigns, defines or imports."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


PRIVATE_IMPORT = re.compile(r"^ *(from jaxdis\S*\._\S+ import (?:\([^)]*\)|.*))$", re.MULTILINE)


def test_what_tests_and_benchmarks_import_exists():
    """Also inside functions that run rarely."""
    names_by_module = {name_of(path): defined(path) for path in modules()}
    for path in (path for folder in ("tests", "benchmarks") for path in (ROOT.parent / folder).rglob("*.py")):
        for text in PRIVATE_IMPORT.findall(path.read_text()):
            [node] = ast.parse(text).body
            for name in (alias.name for alias in node.names if node.module in names_by_module):
                exists = name in names_by_module[node.module] or f"{node.module}.{name}" in names_by_module
                assert exists, f"{path} imports {node.module}.{name}"


def test_every_name_that_a_function_looks_up_exists():
    """Also in lines that run rarely; the linter cannot tell, since it takes shapes in annotations for names."""
    for path in modules():
        module = importlib.import_module(name_of(path)) if path.name != "__main__.py" else None
        for code in codes_in(compile(parsed(path), str(path), "exec")) if module else ():
            unknown = globals_of(code) - vars(module).keys() - vars(builtins).keys()
            assert not unknown, f"{path}:{code.co_firstlineno} has no {unknown}"


def globals_of(code: types.CodeType) -> set[str]:
    """The names that a function looks up in its module; ``dis.get_instructions`` takes ten times as long."""
    found, more = set(), 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= more
        more = argument << 8 if operation == dis.opmap["EXTENDED_ARG"] else 0
        if operation == dis.opmap["LOAD_GLOBAL"]:
            found.add(code.co_names[argument >> 1])
    return found


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from codes_in(part)


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


def test_heavy_libraries_have_one_door():
    users = {library: set() for library in DOORS}
    for path in modules():
        for library in users.keys() & {name.split(".")[0] for name in imported(path)}:
            users[library].add(str(path.relative_to(ROOT)))
    for library, allowed in DOORS.items():
        found = users[library]
        assert len(found) <= 1 if allowed is None else found <= allowed, f"{library}: {found}"


def test_numbers_are_drawn_along_a_line():
    """By :mod:`jaxdis._core.random`: a generator of arrays takes seconds to compile for each shape."""
    draws = {"bits", "normal", "uniform", "randint"}
    for path in modules():
        if path.name == "random.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in draws:
                assert ast.unparse(node.value) != "jax.random", f"{path}:{node.lineno}"


HEAVY = DOORS.keys() - {"pickle"} | {"optax", "scipy", "tyro", "rich", "h5py", "PIL"}


@pytest.mark.parametrize(
    ("imports", "absent"),
    [
        ("jaxdis", HEAVY | {"jax", "numpy"}),
        ("jaxdis, jaxdis.metrics; jaxdis.evaluate", HEAVY),
        ("jaxdis.data._datasets, jaxdis.data.files._tfds", HEAVY | {"tensorflow"}),
    ],
)
def test_importing_the_package_is_light_and_scoring_arrays_loads_no_model(imports, absent):
    """And no array is made before the program has chosen its devices."""
    program = f"import sys, {imports}; print(*sys.modules)"
    program += "; assert not getattr(sys.modules.get('jax._src.xla_bridge'), '_backends', ()), 'a device was touched'"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not absent & set(loaded)


def test_type_checkers_see_the_names_that_are_loaded_on_first_use():
    """The stub is what both read; strict checkers hide a name that is not imported as itself."""
    stub = ast.parse((ROOT / "__init__.pyi").read_text())
    names = [alias for node in stub.body for alias in node.names]
    assert all(alias.asname == alias.name for alias in names)
    assert sorted(alias.name for alias in names) == dir(jaxdis)


# What may only fall: lower a number when the house gets smaller.
MOST_LINES, MOST_FILES = 49_483, 209
LONGEST_FUNCTION, MANY_LINES, LONG_FUNCTIONS = 60, 50, 8
MOST_FUNCTIONS, MOST_FILES_OF_A_CALL = 109, 26


def test_the_house_does_not_grow():
    lines = sum(len(path.read_text().splitlines()) for path in modules())
    assert (lines <= MOST_LINES, len(modules()) <= MOST_FILES) == (True, True), (lines, len(modules()))


def lines_of(function: ast.FunctionDef, text: list[str]) -> int:
    """Lines of code, without the docstring, comments and empty lines."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    lines = text[body[0].lineno - 1 : function.end_lineno] if body else []
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def test_functions_fit_on_a_screen():
    found = {}
    for path in modules():
        text = path.read_text().splitlines()
        functions = (node for node in nodes(path) if isinstance(node, ast.FunctionDef))
        found |= {(name_of(path), each.name): lines_of(each, text) for each in functions}
    assert {name: lines for name, lines in found.items() if lines > LONGEST_FUNCTION} == {}
    assert len([lines for lines in found.values() if lines > MANY_LINES]) <= LONG_FUNCTIONS


def test_columns_are_read_in_one_place():
    """A column knows its metric and field; nowhere else is its text taken apart."""
    prefixes = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if 'startswith(f"{' in line and '}.")' in line
    ]
    assert [place.partition(":")[0] for place in prefixes] == ["metrics/_metric.py"]


WALK = """
import collections, json, sys
import numpy as np
import jaxdis
from jaxdis import Factors, evaluate

root, seen = jaxdis.__file__.removesuffix("__init__.py"), {}
values = np.random.default_rng(0).integers(0, 3, (200, 2))
codes, factors = values.astype(np.float32), Factors.of(values)

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and not code.co_name.startswith("<"):
        seen.setdefault(code.co_filename.removeprefix(root), set()).add(code.co_qualname)

sys.setprofile(note)
evaluate(codes, factors, "mig")
sys.setprofile(None)
print(json.dumps({path: sorted(names) for path, names in seen.items()}))
"""


@pytest.fixture(scope="module")
def walk() -> dict[str, list[str]]:
    """The functions that one evaluation of MIG passes, by file: in a new process, without programs on disk."""
    environment = {**os.environ, "JAXDIS_CACHE": "off"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_a_number_is_a_short_way_from_the_call(walk):
    functions = sum(map(len, walk.values()))
    assert functions <= MOST_FUNCTIONS, walk
    assert len(walk) <= MOST_FILES_OF_A_CALL, list(walk)


def test_the_contributing_page_lists_the_files_of_a_call(walk):
    """The files to read are those that a call passes, less what stands below: arrays, options, platforms, plans."""
    page = (ROOT.parent / ".github" / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\d+\. `jaxdis/([\w/]+\.py)`", page, re.MULTILINE)
    assert len(listed) == 7
    assert set(listed) <= set(walk)
