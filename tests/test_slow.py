"""Slow tests are listed and recorded, and a schedule runs them all."""

import json
import re
from pathlib import Path

from tests import slow
from tests.planted_faults import ROOT, faults

LIST = Path(__file__).with_name("slow_cases.json")


def test_listed_tests_are_there():
    for file, tests in json.loads(LIST.read_text()).items():
        names = re.findall(r"^def (\w+)", (ROOT / file).read_text(), re.MULTILINE)
        assert tests.keys() <= set(names), file


def test_every_folder_of_tests_is_run_by_schedule():
    tests = Path(__file__).parent
    workflow = (tests.parent / ".github/workflows/slow.yml").read_text()
    parts = re.search(r"part: \[(.*)\]", workflow)[1].replace('"', "").split(", ")
    folders = {path.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")}
    # Tests that compile for accelerators are a job of their own.
    assert {*parts, "aot"} == folders | {"test_*.py"}


def test_the_record_holds_when_the_slow_tests_of_a_file_passed(tmp_path, monkeypatch):
    monkeypatch.setattr(slow, "RECORD", tmp_path / "slow.json")
    report = tmp_path / "times.xml"
    report.write_text('<testsuites><testsuite tests="2" skipped="1"></testsuite></testsuites>')
    slow.record("tests/study/test_a.py", "2026-11-26", report, 2.74)
    slow.record("tests/study/test_b.py", "2026-11-27", report, 1.0)
    assert json.loads(slow.RECORD.read_text())["tests/study/test_a.py"] == {
        "passed": "2026-11-26",
        "tests": 1,
        "seconds": 2.7,
    }


def test_the_record_names_every_file_with_slow_tests_and_no_other():
    root = Path(__file__).parent
    texts = {file.relative_to(ROOT).as_posix(): file.read_text() for file in root.rglob("test_*.py")}
    marked = {file for file, text in texts.items() if re.search(r"mark\.slow|quick_if\(", text)}
    of_absent_devices = {file for file, text in texts.items() if re.search(r"mark\.aot", text)}
    slow_files = (marked | json.loads(LIST.read_text()).keys()) - of_absent_devices
    assert json.loads(slow.RECORD.read_text()).keys() == slow_files


def test_the_guide_says_when_all_slow_tests_passed_and_how_long_they_took():
    records = json.loads(slow.RECORD.read_text()).values()
    days, hours = [record["passed"] for record in records], sum(record["seconds"] for record in records) / 3600
    guide = (Path(__file__).parent.parent / ".github/CONTRIBUTING.md").read_text()
    assert f"passed since {min(days)}, in {hours:.1f} hours of a core" in " ".join(guide.split())


def test_planted_faults_stand_in_the_sources():
    """Those that ``python -m tests.planted_faults`` puts there, one after the other."""
    for fault in faults():
        count = (ROOT / fault.module).read_text().count(fault.line)
        assert count == 1, f"{fault.module}: {fault.line}"
        assert all((ROOT / "tests" / name).exists() for name in fault.tests), fault.tests
