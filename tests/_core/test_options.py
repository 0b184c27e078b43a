"""Option values that a function cannot take are refused when the spec is made."""

from typing import Annotated, Literal

import numpy as np
import pytest

from jaxdis import METRICS, RELATIONS, SCORES, Blend, Spec
from jaxdis._core.options import Range, checked


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("dci", "splitter", "nonsense", "splitter: must be 'exact' or 'histogram', got 'nonsense'"),
        ("mig", "method", "nonsense", "method: must be 'scatter' or 'matmul' or None, got 'nonsense'"),
        ("mig", "bins", 0, "bins: must be a whole number from 1 to 65,536, got 0"),
        ("mig", "bins", 10.0, "bins: must be a whole number from 1 to 65,536, got 10.0"),
        ("mig", "bins", True, "bins: must be a whole number .* got True"),
        ("mig_ksg", "neighbors", 0, "neighbors: must be a whole number of at least 1, got 0"),
        ("irs", "quantile", 1.5, "quantile: must be a number from 0 to 1, got 1.5"),
        ("sap", "inverse_penalty", float("nan"), "inverse_penalty: must be a number above 0, got nan"),
        ("jemmig", "normalize", "no", "normalize: must be True or False, got 'no'"),
        ("downstream_trees", "sizes", [], "sizes: must be a tuple of .* with at least 1 entry"),
        ("downstream_trees", "sizes", "123", "sizes: must be a tuple of a whole number"),
        ("structured", "structure", {}, "structure: must be a Structure or None"),
    ],
)
def test_options_that_cannot_be_are_refused_when_the_spec_is_made(name, option, value, message):
    with pytest.raises(ValueError, match=message):
        METRICS[name].with_options(**{option: value})


def test_options_are_refused_in_the_constructor_as_well():
    function = RELATIONS["mutual_information"].function
    with pytest.raises(ValueError, match="bins: must be a whole number"):
        Spec(function, (("bins", 0),))
    with pytest.raises(ValueError, match="mutual_information: has no option 'bin'"):
        Spec(function, (("bin", 3),))
    with pytest.raises(ValueError, match="splitter: must be 'exact' or 'histogram'"):
        Blend(RELATIONS["boosted_trees"].with_options(splitter="x"), "gap")


def test_numpy_numbers_are_the_same_options_as_pythons():
    spec = RELATIONS["mutual_information"]
    assert spec.with_options(bins=np.int64(30)) == spec.with_options(bins=30)
    assert spec.with_options(bins=np.int32(30)).seed == spec.with_options(bins=30).seed
    assert spec.with_options(bins=20) == spec
    assert Spec(spec.function, (("bins", 20),)) == spec


def test_specs_and_blends_show_themselves_as_they_are_written():
    assert repr(METRICS["mig"]) == "Blend(mutual_information, gap)"
    assert repr(METRICS["mig"].with_options(bins=30)) == "Blend(mutual_information(bins=30), gap)"
    assert repr(METRICS["snc"]) == "Direct(snc)"
    assert repr(SCORES["entropy"].with_options(top_k=2)) == "entropy(top_k=2)"


def test_arguments_are_checked_by_their_annotations():
    @checked
    def function(count: Annotated[int, Range(1)], *, kind: Literal["a", "b"] = "a", share: float | None = None):
        return count, kind, share

    assert function(np.int64(3), share=1) == (3, "a", 1.0)
    with pytest.raises(ValueError, match="count: must be a whole number of at least 1, got 0"):
        function(0)
    with pytest.raises(ValueError, match="kind: must be 'a' or 'b', got 'c'"):
        function(1, kind="c")
    with pytest.raises(ValueError, match="share: must be a finite number or None, got 'x'"):
        function(1, share="x")
