"""Run the slow tests, most in programs compiled as users compile them, and record when those of each file passed.

    python -m tests.slow                            # every file; hours
    python -m tests.slow tests/study tests/data/test_source.py
    python -m tests.slow --since 2026-11-27         # but files that passed since then

Each file is a process of its own. ``tests/slow.json`` holds the day on which its slow tests passed, how many there are,
and the CPU seconds that they took; it is written after each file, so that a run may be stopped and continued.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

RECORD = Path(__file__).with_suffix(".json")
# Those of absent devices need compilers that not everybody has: ``pytest -m aot tests/aot``.
SELECTED = "slow and not aot"
NONE_SELECTED = 5
# They promise something of the code of every row; compiling takes a fifth of the time without optimization, of which
# tests/metrics/test_optimized.py says what it may change.
UNOPTIMIZED = {
    "tests/data/test_compiles_once.py",
    "tests/evaluation/test_bootstrap.py",
    "tests/evaluation/test_groups.py",
    "tests/evaluation/test_kept.py",
    "tests/evaluation/test_missing_values.py",
    "tests/evaluation/test_nominal.py",
    "tests/metrics/test_calls.py",
    "tests/metrics/test_chance.py",
    "tests/metrics/test_contracts.py",
    "tests/metrics/test_degenerate.py",
    "tests/metrics/test_held_out.py",
}


def record(file: str, day: str, report: Path, seconds: float) -> None:
    """Keep how many tests passed, from a JUnit report."""
    suite = xml.parse(report).getroot()[0].attrib
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    tests = int(suite["tests"]) - int(suite["skipped"])
    records[file] = {"passed": day, "tests": tests, "seconds": round(seconds, 1)}
    RECORD.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


def run(file: str) -> bool:
    """Whether the slow tests of a file passed, if it has any."""
    day = datetime.date.today().isoformat()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", file, "-m", SELECTED, "-n", "0", "--timeout", "7200", "--junit-xml"]
        before = cpu_seconds()
        programs = {} if file in UNOPTIMIZED else {"JAXDIS_TESTS": "optimized"}
        status = subprocess.run([*command, report], env=os.environ | programs).returncode
        if status == 0:
            record(file, day, report, cpu_seconds() - before)
    return status in (0, NONE_SELECTED)


def cpu_seconds() -> float:
    """Of processes that have ended, whatever else the machine did meanwhile."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("tests")], metavar="PATH")
    parser.add_argument(
        "--since", default="9999", metavar="DAY", help="leave out files that passed on this day or later"
    )
    arguments = parser.parse_args()
    files = sorted(
        {str(file) for path in arguments.paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    )
    before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    left = [file for file in files if before.get(file, {}).get("passed", "") < arguments.since]
    failed = [file for file in left if not run(file)]
    sys.stdout.write("".join(f"failed: {file}\n" for file in failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
