"""Put faults of one line into the library, one after the other, and list those that the quick tests do not catch.

``python -m tests.planted_faults [--out FILE] [NUMBER …]`` works in a copy of the checkout. Each fault of
``planted_faults.toml`` is what a wrong formula would look like, with the tests that should see it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# For the tests of one fault: what makes a program loop for ever is caught, too.
SECONDS = 900
# What pytest returns where every test of a file is slow.
NONE_SELECTED = 5


class Fault(NamedTuple):
    """What stands in place of a text that a module has once; ``tests``, files or folders below ``tests``."""

    module: str
    line: str
    fault: str
    tests: list[str]

    def put_into(self, root: Path) -> str:
        """Write the faulty module, and return its right text."""
        path = root / self.module
        right = path.read_text()
        if right.count(self.line) != 1:
            raise ValueError(f"{self.module}: must have this text once, got {right.count(self.line)}: {self.line}")
        path.write_text(right.replace(self.line, self.fault))
        return right


def faults() -> list[Fault]:
    """The list, in the file's order."""
    return [Fault(**row) for row in tomllib.loads((ROOT / "tests/planted_faults.toml").read_text())["fault"]]


def seen(fault: Fault, root: Path) -> tuple[bool, str]:
    """Whether the fault's tests fail, and pytest's last line."""
    right = fault.put_into(root)
    tests = [f"tests/{name}" for name in fault.tests]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(
            command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True, f"ran longer than {SECONDS} s"
    finally:
        (root / fault.module).write_text(right)
    if run.returncode not in (0, 1, NONE_SELECTED):
        raise RuntimeError(f"{fault.module}: must end with passed or failed tests, got\n{run.stdout}{run.stderr}")
    return run.returncode == 1, run.stdout.strip().rsplit("\n", 1)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="which faults, from 0; all without any")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    arguments = parser.parse_args()
    every, found = faults(), {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "checkout"
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*env*", ".git", "__pycache__", "site"))
        for number in arguments.numbers or range(len(every)):
            began = time.monotonic()
            caught, words = seen(every[number], root)
            found[f"{every[number].module}: {every[number].fault}"] = caught
            place = f"{number:3d} {'caught' if caught else 'MISSED'} {time.monotonic() - began:5.0f} s"
            sys.stdout.write(f"{place}  {every[number].module}: {every[number].fault}  ({words})\n")
            sys.stdout.flush()
            if arguments.out:
                arguments.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{sum(found.values())} of {len(found)} faults caught\n")


if __name__ == "__main__":
    main()
