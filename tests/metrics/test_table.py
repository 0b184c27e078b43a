"""Every row of METRICS says what it is, in words of its own; presets reproduce the numbers of other libraries."""

import pydoc
import re

import numpy as np
import pytest

from jaxdis import METRICS, Factors, encoders, evaluate
from jaxdis._core.references import REFERENCES, cited_in
from jaxdis.cli import main
from jaxdis.encoders._evaluate_encoder import INTERVENTIONS
from jaxdis.encoders._evaluate_slots import SLOT_METRICS
from jaxdis.evaluation._costs import usual_seconds
from jaxdis.metrics._between_members import SEED_METRICS
from jaxdis.metrics._metric import ASPECTS
from jaxdis.metrics._plan import ELSEWHERE, PRESETS, plan_of, preset_metrics


@pytest.mark.parametrize("name", METRICS)
def test_a_row_speaks_for_itself(name):
    about = METRICS[name].about
    assert about.title
    assert about.question[-1] in "?."
    assert about.references
    assert set(about.references) <= set(REFERENCES)
    assert {aspect for aspects in about.claims.values() for aspect in aspects} <= set(ASPECTS)


def test_words_stay_with_options_and_are_no_part_of_identity():
    metric = METRICS["mig"].with_options(bins=30)
    assert metric.about is METRICS["mig"].about
    assert METRICS["mig"] == type(metric)("mutual_information", "gap")
    assert METRICS["explicitness"].with_options(rescale=True).about is METRICS["explicitness"].about


def test_the_bibtex_of_rows_is_listed(capsys):
    assert main(["list", "references", "--bibtex", "mig", "dsprites", "beta", "chen2018"]) == 0
    entries = capsys.readouterr().out
    assert entries.count("@") == 5
    assert "{chen2018," in entries
    assert "{matthey2017," in entries
    assert main(["list", "references", "--bibtex", "nothing"]) == 2
    assert "names: must be names of metrics" in capsys.readouterr().err
    assert main(["list", "metrics", "mog"]) == 2
    assert "did you mean 'mig'" in capsys.readouterr().err
    for what, error in (("studies", "studies: unknown study 'x'"), ("data", "data sets: unknown data set 'x'")):
        assert main(["list", what, "x"]) == 2
        assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "facts", "unread"),
    [
        (
            "mig",
            ("Best value: the highest", "discrete or continuous", "less than 0.1 s"),
            ("Held-out", "Posterior", "Simulator"),
        ),
        ("sap", ("Separated attribute predictability", "inverse_penalty=0.01", "kumar2018"), ()),
        ("mcc", ("the metric may be a term of a loss",), ()),
        ("jemmig", ("Posterior variances: read if they are given",), ("Held-out",)),
        ("total_correlation", ("Best value: the lowest", "the metric does not read factors"), ("Factors",)),
        ("snc", ("discrete ones only; continuous ones are left out; those without", "Held-out samples: needed"), ()),
        ("irs", ("unless factor_bins cuts them", "Simulator: used by evaluate_encoder"), ()),
        ("dci", (f"about {usual_seconds(METRICS['dci']):.2g} s",), ()),
    ],
)
def test_a_row_says_what_the_metric_needs_and_no_more(name, facts, unread, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list", "metrics", name]) == 0
    printed = capsys.readouterr().out
    assert all(fact in printed for fact in facts)
    assert not any(f"- {words}" in printed for words in unread)


def test_every_metric_that_intervenes_does_so_in_a_simulator():
    names = ("factor_vae", "beta_vae", "irs", "consistency", "restrictiveness")
    assert {getattr(encoders, name) for name in names} == set(INTERVENTIONS.values())


@pytest.mark.parametrize("name", {**SEED_METRICS, **SLOT_METRICS})
def test_metrics_that_are_elsewhere_are_pointed_to(name):
    with pytest.raises(ValueError, match=f"must be metrics of the codes of one member, got '{name}', which .*jaxdis"):
        plan_of([name])
    path = re.findall(r"jaxdis[.\w]+", ELSEWHERE[name])[-1]
    assert callable(pydoc.locate(path))


def test_papers_of_the_rows_are_those_that_docstrings_cite():
    """Every paper of a row is cited by the docstrings of what computes it, but for variants of another's score."""
    for name in ("mig", "modularity", "sap", "explicitness", "irs", "factor_vae", "beta_vae", "snc", "nk", "edi"):
        metric = METRICS[name]
        parts = (metric.relation, metric.score) if hasattr(metric, "relation") else (metric.function,)
        cited = {key for part in parts for key in cited_in(part.function.__doc__)}
        assert set(metric.about.references) <= cited, name


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
