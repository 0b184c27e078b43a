"""The table of properties: its cases are what they say, and the page has them all."""

import numpy as np
import pytest

from benchmarks import properties
from benchmarks.properties import drawn
from jaxdis import METRICS, evaluate


def test_the_page_has_every_case_and_metric():
    text = properties.PAGE.read_text(encoding="utf-8")
    head = next(line for line in text.splitlines() if line.startswith("| metric"))
    for case, (words, *_) in properties.CASES.items():
        assert f"[{case}](#{properties.anchor(case)})" in head
        assert f"### {case}\n\n{words}\n" in text
    assert {
        line.split("`")[1].partition(".")[0] for line in text.splitlines() if line.startswith("| `")
    } >= METRICS.keys()


def test_cells_are_means_and_halves_of_intervals():
    assert properties.interval(np.array([0.5, 0.5, 0.5])) == ".50"
    assert properties.interval(np.array([-0.001, -0.001, -0.001])) == ".00"
    assert properties.interval(np.array([-0.12, -0.12, -0.12])) == "-.12"
    assert properties.interval(np.array([0.9, 1.0, 1.1])) == "1.00 ± .25"  # 4.303 · 0.1 / √3


@pytest.mark.parametrize("case", properties.CASES)
def test_codes_of_a_case_determine_its_factors(case):
    codes, factors = drawn(case, 0)
    values, own = np.asarray(factors.values), codes[:, :4]
    if case == "twice":
        own = codes[:, ::2]
    if case == "synergy":
        own = np.round(codes[:, :4] - codes.min(axis=0)[:4]) + np.round(codes[:, 4:] - codes.min(axis=0)[4:])
        np.testing.assert_array_equal(own % 5, values)
    elif case == "swirled":
        points = own[:, ::2] + 1j * own[:, 1::2]
        back = points * np.exp(-1j * np.radians(30) * np.abs(points))
        np.testing.assert_array_equal(
            np.round(np.stack([back.real, back.imag], axis=2)).reshape(values.shape), values - 2
        )
    elif not case.endswith("°"):
        for code, value in zip(own.T, values.T, strict=True):
            means = [code[value == v].mean() for v in np.unique(value)]
            assert max(code[value == v].std() for v in np.unique(value)) < 0.05
            assert np.diff(np.sort(means)).min() > 0.5


def test_where_the_score_is_known():
    names = ["mig", "modularity", "r2_linear", "mcc"]
    found = {case: evaluate(*drawn(case, 0), names) for case in ("one each", "twice", "synergy", "shuffled", "45°")}
    assert all(found["one each"][name] > 0.98 for name in names)
    assert found["twice"]["mig"] < 0.01
    assert found["twice"]["modularity"] > 0.98
    assert abs(found["synergy"]["mig"]) < 0.02
    assert found["synergy"]["r2_linear"] < 0.05
    assert found["shuffled"]["mig"] > 0.98
    assert found["shuffled"]["mcc"] == pytest.approx(0.5, abs=0.05)  # the correlation of 0…4 with 2, 0, 3, 1, 4
    assert found["45°"]["mcc"] == pytest.approx(np.sqrt(0.5), abs=0.03)
