"""Each paper is run at toy size, to its page: what is written is whole, whatever the numbers."""

import csv
import dataclasses
import re

import jax
import pytest

from jaxdis.encoders import Structured
from jaxdis.metrics import METRICS
from jaxdis.papers import PAPERS
from jaxdis.papers.dangnhu2022 import _run as dangnhu2022
from jaxdis.papers.eastwood2018 import _run as eastwood2018
from jaxdis.papers.harness import _paper as harness_paper
from jaxdis.papers.harness import _verdict as verdict
from jaxdis.papers.harness._paper import Paper, Piece, reproduce
from jaxdis.papers.harness._scale import Scale, scaled
from jaxdis.papers.julka2024 import _run as julka2024
from jaxdis.papers.locatello2020 import _run as locatello2020
from jaxdis.papers.mahon2024 import _run as mahon2024
from jaxdis.study import Sampling
from tests.metrics.test_contracts import shortened

TOY = {"train_samples": 300, "test_samples": 150}
# Claims and tables that the data sets and models of the small form allow to set beside the print, at least.
LEAST = {
    "mahon2024": (18, 6),
    "locatello2020": (35, 3),
    "eastwood2018": (11, 9),
    "julka2024": (20, 1),
    "dangnhu2022": (8, 2),
}


RUNS = {
    "mahon2024": mahon2024,
    "locatello2020": locatello2020,
    "eastwood2018": eastwood2018,
    "julka2024": julka2024,
    "dangnhu2022": dangnhu2022,
}


# Learners learn for less long, and trees are those of small forms.
SHORT = {name: shortened(metric) for name, metric in METRICS.items()}
SHORT["dci"] = SHORT["dci"].with_options(splitter="histogram")


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Few samples, seeds and updates, and the metrics of small forms in both sizes: one program scores both."""
    monkeypatch.setattr(verdict, "REPLICATES", 10)

    monkeypatch.setattr(mahon2024.distributed, "__defaults__", (2000,))
    monkeypatch.setattr(mahon2024.times, "__defaults__", (300,))
    monkeypatch.setattr(mahon2024, "SMALL", {"seeds": 2, "combinations": 1, "steps": 3, **TOY})
    whole = mahon2024.mahon2024
    plan = {name: SHORT[name] for name in mahon2024.NAMES}
    monkeypatch.setattr(mahon2024, "METRICS", SHORT)
    monkeypatch.setattr(mahon2024, "mahon2024", lambda **how: whole(**how | {"combinations": 1, "metrics": plan}))

    monkeypatch.setattr(eastwood2018, "SMALL", {"seeds": 2, "steps": 5, "validation_samples": 100, **TOY})

    monkeypatch.setattr(locatello2020, "SMALL_STEPS", 3)
    monkeypatch.setattr(locatello2020, "SMALL_SEEDS", 2)
    monkeypatch.setattr(locatello2020, "SMALL_SAMPLING", Sampling(300, 150))
    monkeypatch.setattr(locatello2020, "SMALL_SIZES", (10, 100, 300))
    monkeypatch.setattr(locatello2020, "QUICK_POOL", 256)
    monkeypatch.setattr(locatello2020, "STABILITY", {"minutes": 150, "paper": 150})
    # Three strengths of six, which differ in a number that a program is given, and two data sets of four.
    monkeypatch.setattr(locatello2020, "SWEEP", locatello2020.SMALL_SWEEP)
    monkeypatch.setattr(locatello2020, "RENDERED", ("dsprites", "shapes3d"))
    monkeypatch.setattr(locatello2020, "SMALL_DATA", ("dsprites", "shapes3d"))
    metrics = locatello2020.metrics

    def short(*, exact, sizes):
        return {name: shortened(metric) for name, metric in metrics(exact=False, sizes=sizes).items()}

    monkeypatch.setattr(locatello2020, "metrics", short)

    monkeypatch.setattr(julka2024, "SMALL_CASES", {"seeds": 3, "case_samples": 300})
    monkeypatch.setattr(julka2024, "SMALL_SWEEPS", {"seeds": 3, "sweep_samples": 300})
    monkeypatch.setattr(julka2024, "SMALL_COST", {"sizes": (100,), "full_size": 300, "size_seeds": 3})
    monkeypatch.setattr(julka2024, "SMALL_AGREEMENT", {"seeds": 3, "steps": 3, **TOY})
    monkeypatch.setattr(julka2024, "POINTS", {})
    monkeypatch.setattr(julka2024, "METRICS", SHORT)

    sizes = (("groups", 2), ("samples", 100))
    learn = (("steps", 3), ("pool", 64), ("seeds", 2), ("learning_rate", 1e-3))
    pieces = {
        "probing": Piece(dangnhu2022.probing, sizes),
        "oracle": Piece(dangnhu2022.oracle, (*sizes, *learn)),
    }
    others = {"independent": Piece(dangnhu2022.independent), "beginning": Piece(dangnhu2022.beginning)}
    monkeypatch.setattr(dangnhu2022, "pieces", lambda size: pieces if size == "minutes" else pieces | others)


@pytest.fixture(autouse=True)
def compiled_quickly(key):
    """What trains and scores these papers runs for less time than it compiles; pages do not depend on the numbers."""
    jax.config.update("jax_disable_most_optimizations", key in ("locatello2020", "julka2024", "dangnhu2022"))
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def paper_of(key) -> Paper:
    """The row with what the fixture changed."""
    paper, runs = PAPERS[key], RUNS[key]
    return Paper(paper.package, runs.runs, paper.content, getattr(runs, "pieces", paper.pieces))


def claims_of(key, folder) -> list[dict]:
    """Rows of claims, of which there are as many as the small form allows, or more; so it is with tables."""
    claims, tables = (
        list(csv.DictReader((folder / f"{name}.csv").read_text().splitlines())) for name in ("claims", "tables")
    )
    least_claims, least_tables = LEAST[key]
    assert len({row["claim"] for row in claims}) >= least_claims
    assert len({row["table"] for row in tables}) >= least_tables
    return claims


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("key", PAPERS)
def test_a_page_is_made_of_what_is_run(key, tmp_path):
    page = reproduce(paper_of(key), tmp_path)
    text = page.read_text(encoding="utf-8")
    claims = {row["claim"] for row in claims_of(key, tmp_path)}
    assert text.count("data:image/png") >= 1
    assert re.search(rf"Of {len(claims)} claims checked", text)
    assert len(text) < 30e6
    before = page.read_bytes()
    assert reproduce(paper_of(key), tmp_path).read_bytes() == before


# As in small forms, whose programs score as many members.
SEEDS = {"mahon2024": 2, "locatello2020": 2, "julka2024": 3}
# Images of an update: all loops over parts of a batch still turn twice.
FEW_IMAGES = 8
# WeakDE would encode up to 30,720.
FEW_LABELLED = 64
# Numbers of channels and units, which are divided by eight; costs of every study trace the widths of the paper.
WIDTHS = {
    *("channels", "decoder_channels", "hidden", "decoder_hidden", "width", "opponents"),
    *("attention", "attention_hidden", "encoder", "encoder_hidden", "decoder", "mask_encoder", "mask_decoder"),
    *("features", "units", "prior_units", "refiner"),
}


def narrow_and_brief(study, scale):
    """The study at a scale, with methods as deep as published, but narrow, that see few images in an update."""
    study = scaled(study, scale)
    if study is None or not hasattr(study, "trainings"):
        return study
    metrics = tuple((name, few_iterations(metric)) for name, metric in study.metrics)
    trainings = tuple(
        dataclasses.replace(t, config=dataclasses.replace(t.config, method=small(t.config.method)))
        for t in study.trainings
    )
    return dataclasses.replace(study, trainings=trainings, metrics=metrics)


def small(part):
    """A method, or a part that is a dataclass."""
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    few = {"batch_size": FEW_IMAGES, "num_labelled": FEW_LABELLED}
    for name, value in values.items():
        if name in WIDTHS:
            few[name] = tuple(width // 8 for width in value) if isinstance(value, tuple) else value // 8
        elif dataclasses.is_dataclass(value):
            few[name] = small(value)
    return dataclasses.replace(part, **{name: few[name] for name in few.keys() & values.keys()})


def few_iterations(metric):
    """Algorithm 1 with two of 100 iterations."""
    return (
        dataclasses.replace(metric, iterations=min(2, metric.iterations)) if isinstance(metric, Structured) else metric
    )


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("key", PAPERS)
def test_the_published_protocol_ends_with_a_page(key, tmp_path, monkeypatch):
    """Every model, data set and metric of the paper, with two updates of a few images."""
    monkeypatch.setattr(harness_paper, "scaled", narrow_and_brief)
    page = reproduce(
        paper_of(key), tmp_path, size="paper", scale=Scale(updates=2, samples=300, seeds=SEEDS.get(key, 1))
    )
    assert "What differs from the paper" in page.read_text(encoding="utf-8")
    # Two updates refute nothing about trained models.
    assert all(row["verdict"] != verdict.FAILS for row in claims_of(key, tmp_path) if row["unmet"])
