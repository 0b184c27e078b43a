"""What a report's page says of scores whose answer is known: two data sets, a tie, an error, one seed."""

import html
import re

import numpy as np
import pytest

from jaxdis import METRICS, Factors, Scores, Spec
from jaxdis.metrics import About, Direct, metric
from jaxdis.study.report._report import write_codes_report

STRENGTHS = (1, 4, 16)
# Means by strength. On apples 4 and 16 tie in ranks, and 16 is far ahead where it leads; on pears 1 is best in all.
MEANS = {
    "apples": {"mig": (0.1, 0.42, 0.4), "modularity": (0.2, 0.3, 0.9), "wrong": (0.9, 0.5, 0.5)},
    "pears": {"mig": (0.8, 0.42, 0.4), "modularity": (0.9, 0.3, 0.2), "wrong": (0.1, 0.5, 0.6)},
}


@metric(errors=("score",))
def wrong(codes, factors):
    return codes.mean()


PLAN = {
    "mig": METRICS["mig"],
    "modularity": METRICS["modularity"],
    "wrong": Direct(Spec(wrong), about=About("Share of errors", "How often?", (), claims={"score": ("explicitness",)})),
}


def page_of(folder, seeds: int) -> str:
    """The words of the page, without its markup."""
    members = [
        {"member": f"{data}-{strength}-{seed}", "data": data, "strength": strength, "seed": seed}
        for data in MEANS
        for strength in STRENGTHS
        for seed in range(seeds)
    ]
    columns = {
        name: np.array([MEANS[row["data"]][name][STRENGTHS.index(row["strength"])] for row in members])
        + (-0.001 if name == "wrong" else 0.001) * np.array([row["seed"] for row in members])
        for name in PLAN
    }
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (40, 2))
    codes = np.stack([values + rng.normal(size=values.shape) for _ in members]).astype(np.float32)
    scores = Scores(columns, {}, ("a", "b"), members=tuple(members), evaluation={"samples": 40})
    page = write_codes_report(folder, scores, PLAN, codes, Factors.of(values), "Known").read_text()
    words = re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(words))


@pytest.fixture(scope="module", autouse=True)
def _words_alone():
    """Pictures are those of other tests, and take most of the time of a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxdis.plots.png", lambda figure: b"")
        yield


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("report"), seeds=3)


def test_each_data_set_has_its_own_winner(said):
    apples, pears = said.index("best on apples?"), said.index("best on pears?")
    first, second = (said[place : said.index("Best member", place) + 80] for place in (apples, pears))
    assert "strength = 16 and strength = 4 share the best average rank of 3 settings" in first
    assert "strength = 16 is ahead by the size of the differences" in first
    assert "Best member of the best setting: apples-16-2 (strength = 16, seed 2)" in first
    assert "strength = 1 has the best average rank of 3 settings" in second
    assert "Best member of the best setting: pears-1-2 (strength = 1, seed 2)" in second


def test_an_error_is_led_by_the_least(said):
    assert "Explicitness: strength = 1 leads strength = 4 by 0.4 (significant, p < 1e-15" in said or (
        re.search(r"Explicitness: strength = 1 leads strength = 4 by 0\.4 \(significant, p = \S+e-\d+\)", said)
    )


def test_seeds_decide_how_sure_a_lead_is(said, tmp_path):
    assert "Modularity: strength = 16 leads strength = 4 by 0.6 (significant" in said
    once = page_of(tmp_path, seeds=1)
    assert (
        "Modularity: strength = 16 leads strength = 4 by 0.6 (three seeds or more could tell this from noise)" in once
    )
    assert "significant" not in once[: once.index("Scores")]
