"""Papers at a size at which a page takes minutes, for both forms of their protocols."""

import jax
import pytest

from jaxdis._core.files import read_csv
from jaxdis.metrics import METRICS
from jaxdis.papers import PAPERS
from jaxdis.papers.dangnhu2022 import _run as dangnhu2022
from jaxdis.papers.eastwood2018 import _run as eastwood2018
from jaxdis.papers.harness import _verdict as verdict
from jaxdis.papers.harness._paper import Paper, Piece
from jaxdis.papers.julka2024 import _run as julka2024
from jaxdis.papers.locatello2020 import _run as locatello2020
from jaxdis.papers.mahon2024 import _run as mahon2024
from jaxdis.study import Sampling
from jaxdis.study import _trained_work as trained_work
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


@pytest.fixture
def brief(monkeypatch):
    """Few samples and updates, and the metrics of small forms in both sizes: one program scores all members.

    What trains and scores then runs for less time than it compiles, and pages do not depend on the numbers.
    """
    monkeypatch.setattr(verdict, "REPLICATES", 10)
    monkeypatch.setattr(trained_work, "SCORE_BATCH", 1)

    monkeypatch.setattr(mahon2024.distributed, "__defaults__", (2000,))
    monkeypatch.setattr(mahon2024.times, "__defaults__", (300,))
    monkeypatch.setattr(mahon2024, "SMALL", {"seeds": 1, "combinations": 1, "steps": 3, **TOY})
    whole = mahon2024.mahon2024
    plan = {name: SHORT[name] for name in mahon2024.NAMES}
    monkeypatch.setattr(mahon2024, "METRICS", SHORT)
    monkeypatch.setattr(mahon2024, "mahon2024", lambda **how: whole(**how | {"combinations": 1, "metrics": plan}))

    monkeypatch.setattr(eastwood2018, "SMALL", {"seeds": 2, "steps": 5, "validation_samples": 100, **TOY})

    monkeypatch.setattr(locatello2020, "SMALL_STEPS", 3)
    monkeypatch.setattr(locatello2020, "SMALL_SEEDS", 1)
    monkeypatch.setattr(locatello2020, "SMALL_SAMPLING", Sampling(300, 150))
    monkeypatch.setattr(locatello2020, "SMALL_SIZES", (10, 100, 300))
    monkeypatch.setattr(locatello2020, "QUICK_POOL", 256)
    monkeypatch.setitem(locatello2020.STABILITY, "minutes", 150)
    monkeypatch.setattr(locatello2020.impossibility, "__defaults__", (2000,))
    monkeypatch.setattr(locatello2020, "METRICS", SHORT)
    monkeypatch.setattr(locatello2020, "SMALL_DATA", ("dsprites", "color_dsprites"))  # with one space
    metrics = locatello2020.metrics

    def short(*, exact, sizes):
        return {name: shortened(metric) for name, metric in metrics(exact=exact, sizes=sizes).items()}

    monkeypatch.setattr(locatello2020, "metrics", short)

    monkeypatch.setattr(julka2024, "SMALL_CASES", {"seeds": 3, "case_samples": 300})
    monkeypatch.setattr(julka2024, "SMALL_SWEEPS", {"seeds": 3, "sweep_samples": 300})
    monkeypatch.setattr(julka2024, "SMALL_COST", {"sizes": (100,), "full_size": 300, "size_seeds": 3})
    monkeypatch.setattr(julka2024, "SMALL_AGREEMENT", {"seeds": 3, "steps": 3, **TOY})
    monkeypatch.setattr(julka2024, "METRICS", SHORT)

    sizes = (("groups", 2), ("samples", 100))
    learn = (("steps", 3), ("pool", 64), ("seeds", 2), ("learning_rate", 1e-3))
    pieces = {
        "probing": Piece(dangnhu2022.probing, sizes),
        "oracle": Piece(dangnhu2022.oracle, (*sizes, *learn)),
    }
    others = {"independent": Piece(dangnhu2022.independent), "beginning": Piece(dangnhu2022.beginning)}
    monkeypatch.setattr(dangnhu2022, "pieces", lambda size: pieces if size == "minutes" else pieces | others)

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def paper_of(key) -> Paper:
    """The row with what the fixture changed."""
    paper, runs = PAPERS[key], RUNS[key]
    return Paper(paper.package, runs.runs, paper.content, getattr(runs, "pieces", paper.pieces))


def claims_of(key, folder) -> list[dict]:
    """Rows of claims, of which there are as many as the small form allows, or more; so it is with tables."""
    claims, tables = (read_csv(folder / f"{name}.csv") for name in ("claims", "tables"))
    least_claims, least_tables = LEAST[key]
    assert len({row["claim"] for row in claims}) >= least_claims
    assert len({row["table"] for row in tables}) >= least_tables
    return claims
