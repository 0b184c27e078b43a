"""The table of speeds, of which the README has six rows, is written from records of benchmarks."""

from pathlib import Path

from benchmarks import speed_table

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "notebooks" / "speed.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def record(*benchmarks):
    """As pytest-benchmark writes it: (group, name, median, members per call)."""
    return {
        "benchmarks": [
            {"group": group, "name": name, "stats": {"median": median}, "extra_info": {"each": each}}
            for group, name, median, each in benchmarks
        ]
    }


def test_a_row_is_the_ratio_of_one_run():
    group = "SNC: ms per member"
    whole = record((group, "bench_snc[paper]", 0.08, 16), (group, "bench_peer_snc", 0.3, 1))
    peer_alone = record((group, "bench_peer_snc", 9.0, 1))
    runs = [speed_table.seconds_of(run) for run in (whole, peer_alone)]
    text = speed_table.rewritten(PAGE, runs)
    assert "| SNC | 5 ms | the released algorithm in numpy | 60 |\n" in text
    before, after = PAGE.splitlines(), text.splitlines()
    assert [line for line in before if line not in after] == [line for line in before if line.startswith("| SNC |")]
    assert speed_table.rewritten(README, runs, add=False) == README


def test_without_records_nothing_changes():
    assert speed_table.rewritten(PAGE, [{}]) == PAGE


def test_every_row_of_the_table_can_be_measured():
    rows = rows_of(PAGE)
    assert {row.split(" | ")[0].removeprefix("| ") for row in rows} <= {row.title for row in speed_table.ROWS}


def test_the_readme_has_six_rows_of_the_page():
    rows, page = rows_of(README), rows_of(PAGE)
    assert len(rows) == 6
    assert rows == [row for row in page if row in rows]


def rows_of(text):
    return text.split(speed_table.HEAD[1])[1].split("\n\n")[0].strip().splitlines()


def test_benchmarks_of_the_rows_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("bench_*.py"))
    for row in speed_table.ROWS:
        for name in (row.benchmark, *(name for name, _ in row.peers)):
            assert f"def {name.partition('[')[0]}(" in text, name
