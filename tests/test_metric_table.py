"""The table of all metrics: its page is that of its record, and every row has a source, a truth and a time."""

import json
from pathlib import Path

import pytest

from benchmarks import agreement
from benchmarks import metric_table as table
from jaxdis import METRICS
from jaxdis._core.references import REFERENCES

RECORD = json.loads(table.RECORD.read_text(encoding="utf-8"))
AGREED = json.loads(agreement.RECORD.read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_record():
    assert table.PAGE.read_text(encoding="utf-8") == table.page(RECORD)


def test_every_metric_agrees_with_a_library_or_has_a_test():
    tests = Path(__file__).parent
    for file, test in (held.split("::") for held in table.HELD.values()):
        assert f"def {test}(" in (tests / file).read_text(encoding="utf-8"), test
    compared = {table.name_of(row, table.metric_of(row)) for row in agreement.ROWS if row.library in AGREED}
    assert table.ROWS.keys() <= table.HELD.keys() | compared


def test_no_metric_is_slower_than_another_library():
    assert {times["row"] for times in RECORD["peers"].values()} >= {"mig", "mig_ksg", "sap", "irs", "z_max", "dmig"}
    assert all(times["theirs"] >= times["ours"] for times in RECORD["peers"].values())


@pytest.mark.parametrize(
    ("name", "cited"),
    [
        ("mig", "Chen et al. 2018, §4.1"),
        ("dci", "Eastwood & Williams 2018, §2"),
        ("unibound", "Tokui & Sato 2022"),
        ("neighbor_alignment", "Moinfar & Theis 2024"),
    ],
)
def test_sources_are_those_of_docstrings(name, cited):
    assert table.source(table.ROWS[name]) == cited


def test_every_source_is_that_of_the_row():
    for name, metric in METRICS.items():
        assert table.source(metric).startswith(REFERENCES[metric.about.references[0]].cited), name


def test_the_peer_of_a_row_is_the_quickest():
    times = {"row": "mig", "theirs": 3.0, "ours": 0.5}
    assert table.best_peer({"peers": {"slow MIG": times | {"theirs": 9.0}, "quick MIG": times}}, "mig") == "quick MIG 6"
