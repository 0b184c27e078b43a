"""Running a paper again on a toy: what is kept, what is recomputed, what the page shows, and what was run elsewhere."""

import csv
import json
import re

import numpy as np
import pytest

from jaxdis import plots
from jaxdis._core.store import canonical
from jaxdis.cli._study_commands import Reproduce
from jaxdis.papers import PAPERS
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, csv_rows, in_spreads, render, section
from jaxdis.papers.harness._paper import Paper, Piece, floats, reproduce
from jaxdis.papers.harness._printed import Flag, Row, Table, printed_in
from jaxdis.papers.harness._verdict import Finding, Part, exact, of_values
from jaxdis.study import StoreError, run, status, work_of
from jaxdis.study._trained_work import TrainedWork
from tests.study.tiny import tiny

CALLS: list[int] = []
TABLE = Table(
    "table_1",
    "Table 1",
    "A <table>",
    "share",
    "mean, standard deviation in spread",
    5,
    "none",
    (Row({"data": "dsprites"}, {"mig": 0.5, "sap": None}, {"mig": 0.3}), Row({"data": "never"}, {"mig": 0.1}, {})),
    (Flag({"data": "never"}, "odd", "Is it <b>?"),),
)


def counted(finished, start: int) -> dict:
    CALLS.append(start)
    table = finished["zoo"].table
    return {
        "mig": float(np.mean(table["mig"])),
        "regularizations": np.unique(table["regularization"]).tolist(),
        "start": start,
    }


def toy(start: int = 1) -> Paper:
    def content(made):
        piece = made.pieces["piece"]
        claim = printed_in("jaxdis.papers.locatello2020").claims["no_best_method"]
        found = [
            Finding(claim, (Part("a", exact(1), above=0),)),
            Finding(claim, (Part("b", exact(-1), above=0),), "because <i>"),
            Finding(claim, (Part("c", of_values([-1.0, 1.0, 2.0, -2.0]), above=0),)),
        ]
        measured = {(0, "mig"): Measured(piece["mig"], 0.4), (0, "sap"): Measured(0.25)}
        figure = Figure("Figure 1", "ranks", plots.rank_map(np.eye(2), ["a", "b"]))
        return Content("one study", ["smaller"], found, [Beside(TABLE, measured, "as is")], [figure])

    return Paper(
        "jaxdis.papers.locatello2020",
        lambda size, sources: {"zoo": tiny()},
        content,
        lambda size: {"piece": Piece(counted, (("start", start),))},
    )


@pytest.fixture(scope="module")
def page(tiny_copy):
    tiny_copy.rename(tiny_copy.with_name("zoo"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxdis.plots.png", lambda figure: b"")
        # The report of a study has tests of its own.
        patch.setattr(TrainedWork, "report", lambda self, store: (store.root / "report.html").touch())
        yield reproduce(toy(), tiny_copy.parent)


def test_the_page_shows_verdicts_tables_and_figures(page):
    text = page.read_text()
    assert "Of 3 claims checked, 1 holds, 1 does not hold, 1 cannot be decided at this size" in text
    assert "1 of 2 printed rows were not measured here" in text
    assert "Is it &lt;b&gt;?" in text
    assert "because &lt;i&gt;" in text
    assert "A &lt;table&gt;" in text
    assert text.count("data:image/png") == 1
    assert 'href="zoo/report.html"' in text
    assert (page.parent / "zoo" / "report.html").exists()
    assert "<script>" in text
    assert "http" not in text.replace("https://", "http").split("<script>")[0] or 'src="http' not in text


def test_numbers_are_tables_too(page):
    (row, other) = csv.DictReader((page.parent / "tables.csv").read_text().splitlines())
    assert (row["table"], row["row"], row["column"], row["printed"]) == ("table_1", "dsprites", "mig", "0.5")
    apart = float(row["measured"]) - 0.5
    assert float(row["difference"]) == pytest.approx(apart, abs=1e-5)
    assert float(row["difference_in_spreads"]) == pytest.approx(apart / 0.5, abs=1e-4)  # √(.3² + .4²)
    assert (other["printed"], other["difference"]) == ("", "")
    claims = list(csv.DictReader((page.parent / "claims.csv").read_text().splitlines()))
    assert [row["part_verdict"] for row in claims] == ["holds", "does not hold", "cannot be decided at this size"]


def test_numbers_of_pieces_are_floats_after_they_were_stored():
    """A page that reads whole ones as integers or NaN as None fails after all has been computed."""
    result = {"whole": 25.0, "half": [0.5, np.nan, np.inf, -np.inf], "on": True, "names": ["a"]}
    stored = floats(json.loads(canonical(result)))
    assert type(stored["whole"]) is float
    np.testing.assert_array_equal(stored.pop("half"), result.pop("half"))
    assert stored == result


def test_running_again_computes_nothing_and_writes_the_same(page):
    before, calls = page.read_bytes(), len(CALLS)
    kept = {path: path.stat().st_mtime_ns for path in page.parent.glob("zoo/*/*/*.json")}
    assert reproduce(toy(), page.parent).read_bytes() == before
    assert len(CALLS) == calls
    assert {path: path.stat().st_mtime_ns for path in page.parent.glob("zoo/*/*/*.json")} == kept


def test_a_piece_with_other_options_is_computed_again(page):
    calls = len(CALLS)
    reproduce(toy(start=2), page.parent)
    assert CALLS[calls:] == [2]
    stored = json.loads((page.parent / "pieces" / "piece.json").read_text())
    assert stored["result"]["regularizations"] == [1, 4, 5]
    reproduce(toy(), page.parent)


def test_spreads_that_are_unknown_leave_a_difference_without_unit():
    row = TABLE.rows[1]
    assert np.isnan(in_spreads(row, "mig", Measured(0.2)))
    assert in_spreads(row, "mig", Measured(0.2, 0.05)) == pytest.approx(2)
    assert csv_rows(Beside(TABLE, {})) == []


def test_figures_of_one_number_are_folded_after_the_first():
    labels = ("Figure 5: dsprites", "Figure 6: dsprites", "Figure 5: shapes3d", "Figure 5: mpi3d", "Figure 7")
    figures = [Figure(label, "scores", b"") for label in labels]
    text = render(printed_in("jaxdis.papers.eastwood2018"), Content("", [], [], [], figures), []).partition(
        ">Figures</h2>"
    )[2]
    order = [*re.findall("<h3>(Figure.*?)</h3>|<summary>(.*?)</summary>", text)]
    shown = [label or f"({more})" for label, more in order]
    fold = re.findall("<details>.*?</details>", text)[0]
    assert shown == [labels[0], "(Figure 5: 2 more)", labels[2], labels[3], labels[1], labels[4]]
    assert labels[2] in fold
    assert labels[1] not in fold


def test_spreads_below_the_rounding_of_the_print_are_no_unit():
    """Such as those of a model that no seed changes."""
    place = (1, "mig")
    for rounding, shown in ((0.0, True), (0.005, False)):
        [found] = csv_rows(Beside(TABLE._replace(rounding=rounding), {place: Measured(0.2, 1e-7)}))
        assert bool(found.difference_in_spreads) == shown
        assert ("spreads" in section(Beside(TABLE._replace(rounding=rounding), {place: Measured(0.2, 1e-7)}))) == shown


@pytest.mark.parametrize("key", PAPERS)
def test_every_paper_has_studies_and_pieces_of_both_sizes(key):
    paper = PAPERS[key]
    for size in ("minutes", "paper"):
        studies = paper.runs(size, None)
        assert studies or paper.pieces(size)
        for study in studies.values():
            assert json.dumps(study.describe(), default=str)
            assert study.title


def test_what_was_run_elsewhere_is_not_run_again(tmp_path, monkeypatch):
    run(tiny(seeds=1), tmp_path / "parts" / "first")
    work = work_of(tiny(seeds=2))
    command = Reproduce("mahon2024", tmp_path / "out", study=(tmp_path / "parts",))
    command._take_over(work, tmp_path / "out", False)
    found = status(work, tmp_path / "out")
    for kind, total in found.total.items():
        assert found.done[kind] == total // 2
    run(work, tmp_path / "out")
    monkeypatch.setattr(type(work), "compute", lambda *_: pytest.fail("nothing is missing"))
    other = Reproduce("mahon2024", tmp_path / "again", study=(tmp_path / "out",))
    other._take_over(work, tmp_path / "again", False)
    run(work, tmp_path / "again")
    tables = [(tmp_path / folder / "results.csv").read_text() for folder in ("out", "again")]
    assert tables[0] == tables[1]


def test_folders_without_studies_are_refused(tmp_path):
    with pytest.raises(StoreError, match="study: must be folders of studies"):
        Reproduce("mahon2024", tmp_path / "out", study=(tmp_path,))._take_over(None, tmp_path / "out", False)
