"""Missing values: each factor is scored on the samples that have it, and nothing else changes."""

import numpy as np
import pytest

import jaxdis
from jaxdis import METRICS, Factors, evaluate
from jaxdis.evaluation._relation_parts import check_gaps, joined
from jaxdis.scores._gaps import FactorScore
from tests.metrics.test_contracts import SOURCES

N = 240
RNG = np.random.default_rng(0)
VALUES = {"shape": RNG.integers(0, 3, N), "size": RNG.integers(0, 4, N), "hue": RNG.integers(0, 2, N)}
VALUES["x"] = RNG.normal(size=N)
CODES = (np.stack(list(VALUES.values()), axis=1) + 0.3 * RNG.normal(size=(N, 4))).astype(np.float32)
GAPS = RNG.random((N, 4)) < 0.3
GAPS[:, 1] = GAPS[:, 0]  # shape and size lack the same values
KINDS = {"x": "continuous"}
# What needs all factors of a sample: an alignment of codes and factors, pairs of factors, or factors that are held.
WHOLE = {
    *("snc", "nk", "linear_probe", "mlp_probe", "downstream_trees", "factor_vae", "beta_vae", "irs", "z_max"),
    *("mcc_test", "mcc_linear", "r2_linear", "r2_kernel", "dmig", "xmig", "dlig", "monotonicity", "smoothness"),
    *("unibound", "dci_es", "consistency", "restrictiveness"),
}
# Whose parts say something of each factor alone, whatever other factors there are.
BY_FACTOR = {"mig", "sap", "sap_r2", "rmig", "jemmig", "mig_ksg", "explicitness", "infoe"}


def table(gaps, names=tuple(VALUES)):
    places = {name: place for place, name in enumerate(VALUES)}
    columns = {name: VALUES[name].tolist() for name in names}
    return {
        name: [None if gone else value for value, gone in zip(column, gaps[:, places[name]], strict=True)]
        for name, column in columns.items()
    }


def refuses(name):
    try:
        check_gaps(((name, METRICS[name]),), Factors.of(np.zeros((2, 1), int)), 0, 0)
    except ValueError:
        return True
    return False


def test_metrics_that_need_whole_samples_are_refused_by_name():
    assert {name for name in METRICS if refuses(name)} == WHOLE
    factors = Factors.from_table(table(GAPS), kinds=KINDS, missing="each")
    with pytest.raises(ValueError, match="must have a value in every sample for snc, irs, got missing ones.*'drop'"):
        evaluate(CODES, factors, ("mig", "snc", "irs"))
    with pytest.raises(ValueError, match="factors: must have a value in every sample here, got missing ones; read"):
        Factors.checked(factors)
    with pytest.raises(ValueError, match="bootstrap: needs factors without missing values"):
        evaluate(CODES, factors, "mig", bootstrap=10)


def test_without_gaps_every_number_has_the_same_bits():
    whole = Factors.from_table(table(GAPS & False), kinds=KINDS)
    each = Factors.from_table(table(GAPS & False), kinds=KINDS, missing="each")
    assert each.present is None
    expected = evaluate(CODES, whole, ("mig", "sap_r2"), 0).to_dict()
    assert evaluate(CODES, each, ("mig", "sap_r2"), 0).to_dict() == expected


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in WHOLE and METRICS[name].about.reads_factors])
def test_every_factor_is_scored_as_if_it_were_alone(name):
    """Every part of a factor is the score of that factor alone; means are those of the parts."""
    factors = Factors.from_table(table(GAPS), kinds=KINDS, missing="each")
    scores = evaluate(CODES, factors, name, 0)
    fields = [field for field, letters in METRICS[name].axes.items() if letters == ("k",)]
    for j, factor in enumerate(VALUES):
        if METRICS[name].source.needs_classes and factor == "x":
            assert all(np.isnan(scores.part(f"{name}.{field}")[j]) for field in fields)
            continue
        alone = Factors.from_table(table(GAPS, (factor,)), kinds=KINDS if factor == "x" else None, missing="drop")
        assert len(alone.rows) == (~GAPS[:, j]).sum()
        if isinstance(METRICS[name], jaxdis.Blend):  # whatever the score makes of it
            spec = METRICS[name].relation
            joined, single = (jaxdis.relate(CODES, given, spec, 0) for given in (factors, alone))
            for field in ("strength", "ceiling", "fit"):
                if (one := getattr(single, field)) is not None:
                    of_all = np.asarray(getattr(joined, field))[..., j]
                    np.testing.assert_allclose(of_all, np.asarray(one)[..., 0], rtol=1e-5, atol=1e-6)
        if name in BY_FACTOR:
            part = evaluate(CODES, alone, name, 0).part(f"{name}.per_factor")[0]
            np.testing.assert_allclose(scores.part(f"{name}.per_factor")[j], part, rtol=1e-5, atol=1e-6)
    if name in BY_FACTOR:
        np.testing.assert_allclose(scores[name], np.nanmean(scores.part(f"{name}.per_factor")), rtol=1e-5)


def test_members_and_held_out_samples_are_cut_with_the_factors():
    factors = Factors.from_table(table(GAPS), kinds=KINDS, missing="each")
    zoo, seen = np.stack([CODES, CODES[:, ::-1]]), []
    scores = evaluate(zoo, factors, ("mig", "mcc"), 0, arrived=lambda part: seen.append(list(part)))
    assert scores["mig"].shape == (2,)
    np.testing.assert_allclose(scores["mcc"][0], scores["mcc"][1], rtol=1e-6)  # codes in another order
    assert sorted(sum(seen, [])) == ["mcc", "mig"]
    test = Factors.from_table(table(GAPS[::-1].copy()), kinds=KINDS, missing="each")
    pair = evaluate(CODES, factors, "sap", 0, test=(CODES, test))
    alone = (Factors.from_table(table(gaps, ("hue",)), missing="drop") for gaps in (GAPS, GAPS[::-1].copy()))
    train, held_out = alone
    expected = evaluate(CODES, train, "sap", 0, test=(CODES, held_out))["sap"]
    np.testing.assert_allclose(pair.part("sap.per_factor")[2], expected, rtol=1e-6)


def test_a_mean_is_undefined_with_that_of_a_piece_unless_its_factors_have_one_value():
    """The second of two members is not finite in a sample that has the first and the last factor alone."""
    pieces = [
        ((0, 3), Factors.of([[0, 1], [1, 0]])),
        ((1,), Factors.of([[0], [0]], (2,))),
        ((2,), Factors.of([[0], [1]])),
    ]
    means = np.array([[0.5, np.nan], [np.nan, np.nan], [0.2, 0.2]])
    parts = [np.repeat(mean[:, None], len(places), axis=1) for mean, (places, _) in zip(means, pieces, strict=True)]
    whole = joined(METRICS["mig"], pieces, list(map(FactorScore, means, parts)))
    np.testing.assert_allclose(whole.score, [0.4, np.nan])
    np.testing.assert_allclose(whole.per_factor[0], [0.5, np.nan, 0.2, 0.5])


def test_metrics_of_codes_alone_read_all_samples():
    factors = Factors.from_table(table(GAPS), kinds=KINDS, missing="each")
    whole = Factors.from_table(table(GAPS & False), kinds=KINDS)
    scores = evaluate(CODES, factors, ("total_correlation", "mig"), 0)
    assert scores["total_correlation"] == evaluate(CODES, whole, "total_correlation", 0)["total_correlation"]


def test_a_factor_with_a_single_sample_is_refused():
    gaps = GAPS.copy()
    gaps[1:, 2] = True
    with pytest.raises(ValueError, match="must have at least 2 rows of column 'hue' in which no value is missing"):
        Factors.from_table(table(gaps), kinds=KINDS, missing="each")
