"""Presets reproduce the numbers of other libraries."""

import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.cli import main
from jaxdis.metrics._plan import PRESETS, preset_metrics

# Outputs of ubisoft-laforge-disentanglement-metrics (commit 05d5667, pyitlib 0.3.1) on `planted()` as discrete factors.
CARBONNEAU = {
    "mig": 0.17474209746080413,
    "dcimig": 0.39416609438275263,
    "jemmig": 0.31944246272543625,
    "modularity": 0.8878117395610939,
    "irs": 0.3637575974142075,
}


def planted():
    rng = np.random.default_rng(4)
    values = np.stack([rng.integers(0, size, 3000) for size in (3, 5, 4)], axis=1)
    codes = values @ rng.normal(size=(3, 5)) + 0.7 * rng.normal(size=(3000, 5))
    codes[:, 0] = values[:, 1] + 0.3 * rng.normal(size=3000)
    return codes.astype(np.float32), values


def test_scores_are_those_of_carbonneau_et_al():
    found = evaluate(*planted(), tuple(CARBONNEAU), preset="carbonneau")
    for name, expected in CARBONNEAU.items():
        assert found[name] == pytest.approx(expected, abs=5e-7), name


def test_a_preset_is_all_its_metrics_or_those_named():
    assert preset_metrics(None, "all") == "all"
    assert preset_metrics("latte", "standard") == preset_metrics("latte", "all") == PRESETS["latte"]
    assert preset_metrics("latte", ["sap"]) == {"sap": METRICS["sap"].with_options(inverse_penalty=1.0, balanced=False)}
    with pytest.raises(ValueError, match="unknown metric 'nk'"):
        preset_metrics("latte", ["nk"])
    with pytest.raises(ValueError, match="did you mean 'latte'"):
        evaluate(*planted(), preset="late")
    with pytest.raises(ValueError, match="preset: must be left out where metrics come with their options"):
        evaluate(*planted(), {"mine": METRICS["mig"]}, preset="latte")


def test_classes_become_factors():
    table = {"type": ["B", "T", "NK", "B"], "sex": ["f", "m", "f", "f"], "age": [1.5, 2.5, 4.0, 0.5]}
    factors = Factors.from_table(table).one_hot()
    assert factors.names == ("type=B", "type=NK", "type=T", "sex", "age")
    assert factors.sizes == (2, 2, 2, 2, None)
    expected = [[1, 0, 0, 0, 1.5], [0, 0, 1, 1, 2.5], [0, 1, 0, 0, 4], [1, 0, 0, 0, 0.5]]
    np.testing.assert_array_equal(factors.values, expected)


def test_the_command_takes_a_preset(tmp_path, capsys):
    codes, factors = planted()
    np.savez(tmp_path / "codes.npz", codes=codes[:300], factors=factors[:300])
    assert main(["score", str(tmp_path / "codes.npz"), "--metrics", "dcimig", "--preset", "carbonneau"]) == 0
    expected = evaluate(codes[:300], factors[:300], {"dcimig": METRICS["dcimig"].with_options(bins=10)})["dcimig"]
    assert f"{expected:.4f}" in capsys.readouterr().out
