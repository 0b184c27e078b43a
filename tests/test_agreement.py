"""The page that says which library computes what is that of the record, and jaxdis still agrees with the record."""

import json

import numpy as np
import pytest

from benchmarks import agreement

RECORD = json.loads(agreement.RECORD.read_text(encoding="utf-8"))
SAME = [
    row
    for row in agreement.ROWS
    if agreement.decimals(RECORD[row.library]["values"][row.metric], RECORD["jaxdis"][row.jaxdis]) >= 3
]


def test_the_page_is_that_of_the_record():
    assert agreement.PAGE.read_text(encoding="utf-8") == agreement.page(RECORD)


def test_every_difference_has_a_reason():
    assert len(SAME) >= 24
    assert all(row.remark for row in agreement.ROWS if row not in SAME)


@pytest.mark.golden
@pytest.mark.parametrize("library", sorted({row.library for row in SAME}))
def test_scores_are_those_that_the_library_gave(library):
    rows = [row for row in SAME if row.library == library]
    found = agreement.of_jaxdis(row.jaxdis for row in rows)
    for row in rows:
        # Three decimals: solvers stop, and neighbors are searched, in single precision here.
        np.testing.assert_allclose(
            found[row.jaxdis], RECORD[library]["values"][row.metric], atol=5e-4, err_msg=row.metric
        )
