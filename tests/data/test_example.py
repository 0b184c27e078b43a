"""The example zoo: its shapes, its size and its members; the pages of metrics hold its scores."""

import json

import numpy as np

import jaxdis
from jaxdis.data._datasets import FILE


def test_it_is_small_and_the_same_on_every_call():
    codes, factors, table = jaxdis.data.example()
    assert codes.shape == (30, 2000, 8)
    assert codes.dtype == np.float32
    assert factors.names == ("shape", "scale", "orientation", "x", "y")
    assert factors.sizes == (3, 6, 10, 16, 16)
    assert factors.classes[0] == ("ellipse", "heart", "square")
    assert FILE.stat().st_size <= 1_000_000
    again, factors_again, table_again = jaxdis.data.example()
    np.testing.assert_array_equal(codes, again)
    np.testing.assert_array_equal(np.asarray(factors.values), np.asarray(factors_again.values))
    assert table == table_again
    json.dumps(table)


def test_every_member_is_one_of_three_objectives_five_strengths_and_two_seeds():
    _, _, table = jaxdis.data.example()
    assert {member["objective"] for member in table} == {"beta", "beta_tc", "dip_ii"}
    assert {member["seed"] for member in table} == {0, 1}
    assert len({(member["objective"], member["strength"], member["seed"]) for member in table}) == len(table) == 30
    assert all(np.isfinite(member["loss"]) for member in table)
