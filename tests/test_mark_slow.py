"""The markers of slow tests follow from measured times, and a schedule runs them all."""

import json
import re
from pathlib import Path

from tests import slow
from tests.mark_slow import mark, times_of

SOURCE = '''"""Tests."""

import numpy as np


@pytest.mark.slow
def test_once_slow(): ...


@pytest.mark.parametrize("n", [1, 2])
def test_cases(n): ...


class TestAll:
    def test_always(self): ...


@pytest.mark.slow
def test_not_measured(): ...
'''
REPORT = """<testsuites><testsuite>
<testcase classname="tests.study.test_a" name="test_cases[1]" time="0.2"/>
<testcase classname="tests.study.test_a.TestAll" name="test_always" time="2.5"/>
</testsuite></testsuites>"""


def test_markers_are_set_and_taken_away(tmp_path):
    path = tmp_path / "test_a.py"
    path.write_text(SOURCE)
    mark(path, {"test_once_slow": {"": False}, "test_cases": {"1": False, "2": True}, "test_always": {"": True}})
    text = path.read_text()
    assert "\n\n\ndef test_once_slow" in text
    assert '@pytest.mark.slow_cases("2")\n@pytest.mark.parametrize' in text
    assert "    @pytest.mark.slow\n    def test_always" in text
    assert "@pytest.mark.slow\ndef test_not_measured" in text
    assert text.count("import pytest") == 1
    mark(path, {"test_cases": {"1": True, "2": True}})
    assert "@pytest.mark.slow\n@pytest.mark.parametrize" in path.read_text()


def test_times_are_read_from_a_report(tmp_path):
    (tmp_path / "times.xml").write_text(REPORT)
    assert list(times_of(tmp_path / "times.xml")) == [
        ("tests/study/test_a.py", "test_cases[1]", 0.2),
        ("tests/study/test_a.py", "test_always", 2.5),
    ]


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
    report.write_text(REPORT.replace("<testsuite>", '<testsuite tests="2" skipped="1" time="2.74">'))
    slow.record("tests/study/test_a.py", "2026-11-26", report)
    slow.record("tests/study/test_b.py", "2026-11-27", report)
    assert json.loads(slow.RECORD.read_text())["tests/study/test_a.py"] == {
        "passed": "2026-11-26",
        "tests": 1,
        "seconds": 2.7,
    }


def test_the_guide_says_when_all_slow_tests_passed_and_how_long_they_took():
    records = json.loads(slow.RECORD.read_text()).values()
    days, hours = [record["passed"] for record in records], sum(record["seconds"] for record in records) / 3600
    guide = (Path(__file__).parent.parent / ".github/CONTRIBUTING.md").read_text()
    assert f"passed since {min(days)}, in {hours:.1f} hours of a core" in " ".join(guide.split())
