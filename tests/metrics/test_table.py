"""Every row of METRICS says what it is, in words of its own."""

import pydoc
import re

import pytest

from jaxdis import METRICS, encoders
from jaxdis._core.references import REFERENCES, cited_in
from jaxdis.cli import main
from jaxdis.encoders._evaluate_encoder import INTERVENTIONS
from jaxdis.encoders._evaluate_slots import SLOT_METRICS
from jaxdis.evaluation._costs import usual_seconds
from jaxdis.metrics._between_members import SEED_METRICS
from jaxdis.metrics._metric import ASPECTS
from jaxdis.metrics._plan import ELSEWHERE, plan_of


@pytest.mark.parametrize("name", METRICS)
def test_a_row_speaks_for_itself(name):
    about = METRICS[name].about
    assert about.title
    assert about.question[-1] in "?."
    assert about.references
    assert set(about.references) <= set(REFERENCES)
    assert {aspect for aspects in about.claims.values() for aspect in aspects} <= set(ASPECTS)


def test_no_two_rows_say_the_same():
    for words in ("title", "question"):
        said = [getattr(metric.about, words) for metric in METRICS.values()]
        assert len(set(said)) == len(said)


def test_words_stay_with_options_and_are_no_part_of_identity():
    metric = METRICS["mig"].with_options(bins=30)
    assert metric.about is METRICS["mig"].about
    assert METRICS["mig"] == type(metric)("mutual_information", "gap")
    assert METRICS["explicitness"].with_options(rescale=True).about is METRICS["explicitness"].about


def test_a_whole_row_and_its_bibtex_are_listed(capsys):
    assert main(["list", "metrics", "sap"]) == 0
    row = capsys.readouterr().out
    assert "Separated attribute predictability" in row
    assert "inverse_penalty=0.01" in row
    assert "kumar2018" in row
    assert "``" not in row
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
    ("name", "facts"),
    [
        ("mig", ("Best value: the highest", "discrete or continuous", "less than 0.1 s")),
        ("jemmig", ("Posterior variances: read if they are given",)),
        ("total_correlation", ("Best value: the lowest", "the metric does not read factors")),
        ("snc", ("discrete ones only; continuous ones are left out; those without", "Held-out samples: needed")),
        ("irs", ("unless factor_bins cuts them", "Simulator: used by evaluate_encoder")),
        ("dci", (f"about {usual_seconds(METRICS['dci']):.2g} s",)),
    ],
)
def test_a_row_says_what_the_metric_needs(name, facts, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list", "metrics", name]) == 0
    printed = capsys.readouterr().out
    for fact in facts:
        assert fact in printed


@pytest.mark.parametrize(
    ("name", "words"),
    [("mig", ("Held-out", "Posterior", "Simulator")), ("jemmig", ("Held-out",)), ("total_correlation", ("Factors",))],
)
def test_a_row_has_no_line_about_what_the_metric_does_not_read(name, words, capsys):
    assert main(["list", "metrics", name]) == 0
    printed = capsys.readouterr().out
    for word in words:
        assert f"- {word}" not in printed


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
