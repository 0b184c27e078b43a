"""List the tests that take two seconds or more, from measured times.

    python -m pytest -m "slow or not slow" --junitxml times.xml
    python -m tests.mark_slow times.xml

Writes ``tests/slow_cases.json``, by file and test: ``"all"``, or the cases that are slow. Tests that were not measured
stay as they are. Tests or cases beside the slow ones hold the same code to its contract every time.
"""

import json
import sys
import xml.etree.ElementTree as xml
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SECONDS = 2.0
LIST = Path(__file__).with_name("slow_cases.json")


def times_of(path: Path) -> Iterable[tuple[str, str, float]]:
    """The file, the name with its case, and the seconds of each test of a JUnit report."""
    for case in xml.parse(path).iter("testcase"):
        module = [part for part in case.get("classname", "").split(".") if not part.startswith("Test")]
        yield "/".join(module) + ".py", case.get("name", ""), float(case.get("time", 0))


def main(report: str) -> None:
    tests: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for file, name, seconds in times_of(Path(report)):
        function, _, case = name.partition("[")
        tests[file, function][case.removesuffix("]")] = seconds >= SECONDS
    listed = json.loads(LIST.read_text(encoding="utf-8"))
    for (file, function), cases in tests.items():
        slow = sorted(case for case, is_slow in cases.items() if is_slow)
        known = listed.setdefault(file, {})
        known.pop(function, None)
        if slow:
            known[function] = "all" if len(slow) == len(cases) else slow
    listed = {file: known for file, known in listed.items() if known}
    LIST.write_text(json.dumps(listed, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
