"""The example zoo: its shapes, its size, and scores that differ."""

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


def test_codes_are_of_the_images_of_the_factors():
    """By correlations of NumPy: trained models encode the vertical position, which rows in another order would hide."""
    codes, factors, _ = jaxdis.data.example()
    assert np.isfinite(codes).all()
    y = np.asarray(factors.values)[:, factors.names.index("y")]
    assert max(abs(np.corrcoef(code, y)[0, 1]) for member in codes for code in member.T) > 0.9


def test_their_mig_is_spread_out():
    codes, factors, table = jaxdis.data.example()
    gaps = np.asarray(jaxdis.evaluate(codes, factors, "mig", members=table)["mig"])
    assert gaps.min() < 0.05
    assert gaps.max() > 0.38
