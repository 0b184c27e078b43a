"""The printed numbers are complete, and agree with themselves where the papers do."""

import numpy as np
import pytest

from jaxdis.data._teapot import SPACE
from jaxdis.papers import PAPERS
from jaxdis.papers.harness._page import csv_rows
from jaxdis.papers.harness._printed import printed_in
from jaxdis.papers.mahon2024._page import from_print

# Tables of results, printed numbers in them, claims: as counted in the texts.
COUNTS = {
    "mahon2024": (48, 5357, 20),
    "locatello2020": (3, 116, 40),
    "eastwood2018": (9, 256, 13),
    "julka2024": (1, 96, 27),
    "dangnhu2022": (6, 389, 16),
}


@pytest.mark.parametrize("key", PAPERS)
def test_every_printed_number_is_there(key):
    paper = printed_in(PAPERS[key].package)
    spreads = sum(value is not None for t in paper.tables.values() for row in t.rows for value in row.spread.values())
    values = sum(value is not None for t in paper.tables.values() for row in t.rows for value in row.values.values())
    tables, numbers, claims = COUNTS[key]
    assert len(paper.tables) == tables
    assert values + spreads == numbers
    assert len(paper.claims) == claims


@pytest.mark.parametrize("key", PAPERS)
def test_rows_are_found_by_their_keys(key):
    for table in printed_in(PAPERS[key].package).tables.values():
        for row in table.rows:
            # Rows that stand twice in print, as flags say, are not unique by key.
            if sum(other.key == row.key for other in table.rows) == 1 and row.key:
                assert table.row(**row.key) is row
    with pytest.raises(KeyError, match="0 rows"):
        table.row(nothing="here")


def test_averages_of_eastwood_and_williams_follow_from_their_rows():
    """Two digits: the mean of rounded numbers is within .01 of the rounded mean."""
    tables = printed_in("jaxdis.papers.eastwood2018").tables
    for name in ("3b", "3c", "4b", "4c", "5a", "5b"):
        assert [row.key["model"] for row in tables[f"table_{name}"].rows] == ["pca", "vae", "beta_vae", "infogan"]
        for row in tables[f"table_{name}"].rows:
            *each, mean = (row.values[column] for column in (*SPACE.names, "average"))
            assert np.mean(each) == pytest.approx(mean, abs=0.0101)


def test_table_4_of_mahon_et_al_follows_from_print_but_for_dci():
    """Within .002 of the correlations printed; D, C, I and DCI follow from nothing that is printed."""
    (found,) = from_print(printed_in("jaxdis.papers.mahon2024").tables)
    for row, column, measured in found.entries():
        apart = abs(measured.value - row.values[column])
        if column in ("D", "C", "I", "DCI"):
            assert apart > 0.005
        else:
            assert apart < 0.0021, (row.key, column)


def test_numbers_recomputed_from_print_do_not_stand_among_the_measured_ones():
    tables = {table.id: table for table in printed_in("jaxdis.papers.mahon2024").tables.values()}
    [recomputed] = from_print(printed_in("jaxdis.papers.mahon2024").tables)
    assert {row.table for row in csv_rows(recomputed)} == {"table_4_from_print"}.difference(tables)
