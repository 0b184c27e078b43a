"""The report: whole, self-contained, and no place for a script."""

import dataclasses
import html
import re

import numpy as np
import pytest

from jaxdis import METRICS, Direct, Factors, Spec, evaluate
from jaxdis._core.files import read_csv_columns
from jaxdis.metrics._downstream import downstream_logistic
from jaxdis.study._run_study import run
from jaxdis.study.report import _report
from jaxdis.study.report._html import Html, table
from jaxdis.study.report._report import write_report
from tests.study.tiny import tiny

NASTY = 'x"><script>alert(1)</script>../../größe' + "y" * 300


@pytest.fixture(scope="module")
def page(tiny_copy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxdis.plots.png", lambda figure: b"")
        path = write_report(dataclasses.replace(tiny(), title=NASTY, name=NASTY), tiny_copy)
    return path.read_text(encoding="utf-8")


def test_it_holds_its_pictures_and_fetches_nothing(page):
    assert page.count("data:image/png;base64,") >= 8
    assert not re.search(r'(src|href)="(?!data:|#|results\.csv)', page)
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)


def test_text_is_escaped(page):
    assert "<script>alert" not in page
    assert html.escape(NASTY) in page
    assert page.count("<script>") == 1  # its own, which sorts tables


def test_columns_of_text_are_aligned_to_the_left_with_their_heads():
    columns = {"model": ["vae"], "metric": ["mig"], "score": [0.5], "verdict": [Html('<div class="text">holds</div>')]}
    text = table(list(columns), columns)
    assert (
        '<th scope="col" class="words">metric</th><th scope="col">score</th><th scope="col" class="words">verdict</th>'
        in text
    )
    assert '<td class="words">mig</td><td>0.5</td><td class="words"><div' in text


def test_of_very_many_members_the_best_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "MOST_LISTED", 3)
    monkeypatch.setattr("jaxdis.plots.png", lambda figure: b"")
    factors = np.random.default_rng(0).integers(0, 3, (60, 2))
    noise = np.random.default_rng(1).normal(size=(5, 60, 2))
    codes = (factors + np.arange(5)[:, None, None] * noise).astype(np.float32)
    scores = evaluate(codes, factors, "mig", members=[{"member": f"run {row}"} for row in range(5)])
    path = _report.write_codes_report(tmp_path, scores, {"mig": METRICS["mig"]}, codes, Factors.of(factors), "All")
    text = path.read_text(encoding="utf-8").split(">All members</h2>")[1]
    assert [f"run {row}" in text for row in range(5)] == [True] * 3 + [False] * 2
    assert len(read_csv_columns(tmp_path / "results.csv")["member"]) == 5


def test_downstream_tasks_are_set_against_metrics(tmp_path):
    study = tiny(metrics={"mig": METRICS["mig"], "downstream_logistic": Direct(Spec(downstream_logistic))})
    run(study, tmp_path)
    page = write_report(study, tmp_path).read_text(encoding="utf-8")
    section = page[page.index(">Do scores go with downstream performance?</h2>") :]
    assert "Rank correlation of scores with accuracy by number of training samples" in section
    # 64 samples are there to train on, whatever the sizes asked for.
    table = read_csv_columns(tmp_path / "results.csv")
    assert [name for name in table if name.startswith("downstream_logistic.")][-2:] == [
        f"downstream_logistic.{size}" for size in (10, 64)
    ]


def test_it_has_a_table_of_contents_and_all_members(page):
    for anchor in re.findall(r'href="#(s\d+)"', page):
        assert f'id="{anchor}"' in page
    members = page[page.index("All members") :]
    assert members.count("<tr>") >= 4
