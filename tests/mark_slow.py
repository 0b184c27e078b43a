"""Mark the tests that take two seconds or more, from measured times.

    python -m pytest -m "slow or not slow" --junitxml times.xml
    python -m tests.mark_slow times.xml

Writes ``@pytest.mark.slow`` above a test all of whose cases are slow, and ``@pytest.mark.slow_cases("case", …)`` above
one of which some are; tests that were not measured keep their markers. Run the formatter afterwards. Tests or cases
beside the slow ones hold the same code to its contract every time.
"""

import ast
import sys
import xml.etree.ElementTree as xml
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

SECONDS = 2.0
MARKERS = {"pytest.mark.slow", "pytest.mark.slow_cases"}
Cases = dict[str, bool]  # case of a test ("" for one without cases) → whether it is slow


def times_of(path: Path) -> Iterable[tuple[str, str, float]]:
    """The file, the name with its case, and the seconds of each test of a JUnit report."""
    for case in xml.parse(path).iter("testcase"):
        module = [part for part in case.get("classname", "").split(".") if not part.startswith("Test")]
        yield "/".join(module) + ".py", case.get("name", ""), float(case.get("time", 0))


def mark(path: Path, tests: Mapping[str, Cases]) -> None:
    """Rewrite the markers of the measured tests of one file."""
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in sorted(functions, key=lambda node: node.lineno, reverse=True):
        if node.name not in tests:
            continue
        for decorator in reversed(node.decorator_list):
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(named) in MARKERS:
                del lines[decorator.lineno - 1 : decorator.end_lineno]
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        slow = [case for case, is_slow in tests[node.name].items() if is_slow]
        if slow:
            cases = ", ".join(f'"{case}"' if '"' not in case and "\\" not in case else repr(case) for case in slow)
            marker = "slow" if len(slow) == len(tests[node.name]) else f"slow_cases({cases})"
            lines.insert(first - 1, " " * node.col_offset + f"@pytest.mark.{marker}")
    if any("pytest.mark" in line for line in lines) and "import pytest" not in lines:
        lines.insert(
            next(number for number, line in enumerate(lines) if line.startswith(("import ", "from "))), "import pytest"
        )
    path.write_text("\n".join(lines), encoding="utf-8")


def main(report: str) -> None:
    tests: dict[str, dict[str, Cases]] = defaultdict(lambda: defaultdict(dict))
    for file, name, seconds in times_of(Path(report)):
        function, _, case = name.partition("[")
        tests[file][function][case.removesuffix("]")] = seconds >= SECONDS
    for file, measured in tests.items():
        mark(Path(file), measured)


if __name__ == "__main__":
    main(*sys.argv[1:])
