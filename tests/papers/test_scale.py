"""Published protocols with less of everything, and what is then missing."""

import dataclasses

import pytest

from jaxdis.metrics import METRICS
from jaxdis.models import Mlp, Pca
from jaxdis.papers import PAPERS, Content, Reproduction, Scale
from jaxdis.papers.dangnhu2022._run import dangnhu2022
from jaxdis.papers.harness._paper import judged
from jaxdis.papers.harness._scale import H100_RATE, scaled, shortfalls
from jaxdis.papers.harness._scale import small as small_form
from jaxdis.papers.harness._verdict import FAILS, HOLDS, OPEN, UNSEEN, Finding, Part, counts, exact
from jaxdis.papers.locatello2020._run import locatello2020
from jaxdis.papers.mahon2024._run import mahon2024
from jaxdis.study import _trained_work, work_of
from tests.study.tiny import tiny


@pytest.fixture(scope="module")
def published():
    return locatello2020(data=("dsprites", "shapes3d"), metrics=["mig", "downstream_trees"])


def test_updates_change_in_proportion_with_their_schedules():
    study = mahon2024(data=("dsprites", "shapes3d"), models=("beta", "labelled_partition"), combinations=1)
    small = scaled(study, Scale(updates=1152))
    steps = {(t.config.data, t.sweep[0][0]): t.config.steps for t in small.trainings}
    # 100 epochs of 11,520 and 7,500 batches; the partition has a tenth.
    assert steps == {
        ("dsprites", "beta"): 1152,
        ("dsprites", "labelled_partition"): 115,
        ("shapes3d", "beta"): 750,
        ("shapes3d", "labelled_partition"): 75,
    }
    warmups = [dict(t.sweep[0][1])["warmup_steps"] for t in small.trainings if t.sweep[0][0] == "beta"]
    assert warmups == [(pytest.approx(10),)] * len(warmups)  # of 10,000


@pytest.mark.parametrize(("updates", "keep"), [(4000, (1000, 2000)), (500, (100, 200)), (150, (100,)), (10, ())])
def test_members_are_kept_after_the_same_share_of_updates_where_a_block_ends(updates, keep):
    study = tiny(steps=8000)
    training = dataclasses.replace(study.trainings[0], keep=(2000, 4000))
    (scaled_training,) = scaled(dataclasses.replace(study, trainings=(training,)), Scale(updates=updates)).trainings
    assert training.config.method.log_every == 100
    assert scaled_training.config.steps == updates
    assert scaled_training.keep == keep


def test_a_default_that_counts_updates_is_scaled_too(published):
    shared = scaled(published, Scale(updates=3000)).trainings[0]
    rows = {name: dict(row) for name, row in shared.sweep}
    assert rows["annealed"]["capacity_steps"] == (pytest.approx(1000),)  # 100,000 of 300,000
    assert "warmup_steps" not in rows["beta"]


def test_seeds_data_samples_network_and_metrics(published):
    metrics = {"mig": METRICS["mig"].with_options(bins=30), "sap": METRICS["sap"]}
    small = scaled(published, Scale(seeds=2, data=("shapes3d",), samples=300, network="small", metrics=metrics))
    assert {t.config.data for t in small.trainings} == {"shapes3d"}
    assert {t.seeds for t in small.trainings} == {(0, 1)}
    assert (small.sampling.train, small.sampling.test) == (300, 150)
    assert all(isinstance(t.config.method.network, Mlp) for t in small.trainings)
    plan = dict(small.metrics)
    assert list(plan) == ["mig", "downstream_trees", "sap"]
    assert plan["mig"].all_options["bins"] == 30
    assert max(plan["downstream_trees"].all_options["sizes"]) == 300
    assert scaled(published, Scale(data=("mpi3d",))) is None


def test_the_published_study_lacks_nothing_and_a_small_one_says_what(published):
    assert shortfalls(published, published) == []
    small = scaled(published, Scale(updates=3000, seeds=3, data=("dsprites",), samples=1000))
    found = {(fact.where, fact.printed, fact.here) for fact in shortfalls(small, published)}
    assert ("updates", "300,000", "3,000") in found
    assert ("seeds", "50", "3") in found
    assert ("data sets", "dsprites, shapes3d", "without shapes3d") in found
    assert ("samples", "10,000 to score on", "1,000") in found


def test_models_with_slots_have_the_papers_networks():
    """Several models have one name and differ in labels: each is held against its own."""
    slots = dangnhu2022()
    found = [fact.where for fact in shortfalls(scaled(slots, Scale(updates=2)), slots)]
    assert "updates" in found
    assert "networks" not in found
    with pytest.raises(ValueError, match="network: must be the paper's for models of type Monet, got small"):
        scaled(slots, Scale(network="small"))


def test_principal_components_have_no_smaller_form():
    assert small_form(Pca()) == Pca()


def test_what_lacks_something_refutes_nothing():
    parts = (Part("x", exact(-1), above=0),)
    assert Finding(None, parts).verdict == FAILS
    unseen = Finding(None, parts, unmet=("updates: 2 for 300,000",))
    assert unseen.verdict == UNSEEN
    assert Finding(None, (Part("x", exact(1), above=0),), unmet=("updates",)).verdict == HOLDS
    assert counts([unseen]) == {HOLDS: 0, FAILS: 0, UNSEEN: 1, OPEN: 0}


def test_claims_about_models_and_no_others_need_the_published_study(published):
    parts, small = (Part("x", exact(-1), above=0),), scaled(published, Scale(updates=2))
    content = Content("", [], [Finding(None, parts, study="zoo"), Finding(None, parts)], [], [])
    studies = {"zoo": small}
    lacking = judged(content, Reproduction("paper", None, studies, {}, {"zoo": published}))
    assert [finding.verdict for finding in lacking.claims] == [UNSEEN, FAILS]
    assert [fact.where for fact in lacking.differences] == ["updates"]
    whole = judged(content, Reproduction("paper", None, studies, {}, studies))
    assert [finding.verdict for finding in whole.claims] == [FAILS, FAILS]


def test_a_metric_of_a_study_keeps_its_own_preset():
    metrics = {"nk": METRICS["nk"].with_options(preset="mahon2024_paper"), "mlp_probe": METRICS["mlp_probe"]}
    plan = dict(mahon2024(data=("dsprites",), models=("beta",), metrics=metrics).metrics)
    presets = {name: metric.all_options["preset"] for name, metric in plan.items()}
    assert presets == {"nk": "mahon2024_paper", "mlp_probe": "converged", "novel_combination": "converged"}


def test_unknown_data_sets_are_refused():
    paper = PAPERS["julka2024"]
    with pytest.raises(ValueError, match="data: must be some of shapes3d, got 'dsprites'"):
        paper.planned("paper", None, Scale(data=("dsprites",)))


def test_no_stand_in_enters_a_reproduction_under_the_name_of_mpi3d():
    studies, _ = PAPERS["mahon2024"].planned("paper", None, Scale(seeds=1))
    assert {t.config.data for t in studies["combinations"].trainings} == {"dsprites", "shapes3d"}


def test_a_reproduction_has_enough_seeds_for_an_interval():
    studies, _ = PAPERS["eastwood2018"].planned("paper", None, Scale())
    assert {len(t.seeds) for t in studies["teapots"].trainings} == {3}


def test_pieces_shrink_with_the_scale():
    _, pieces = PAPERS["dangnhu2022"].planned("minutes", None, Scale(updates=2, seeds=1, samples=300))
    options = dict(pieces["oracle"].options)
    assert (options["steps"], options["seeds"], options["samples"], options["pool"]) == (2, 1, 300, 300)


@pytest.mark.parametrize("key", PAPERS)
@pytest.mark.parametrize(("size", "hours"), [("hour", 1), ("day", 24)])
def test_sizes_fit_the_time_that_they_are_named_after(key, size, hours, monkeypatch):
    monkeypatch.setattr(_trained_work, "live_bytes", lambda *_: 0)  # of operations alone
    studies, _ = PAPERS[key].planned(size, None, Scale())
    flops = sum(cost.flops for study in studies.values() for cost in work_of(study).costs().values())
    assert 0.5 * hours < flops / H100_RATE / 3600 <= hours
