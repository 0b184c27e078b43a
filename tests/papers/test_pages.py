"""Each paper is run at toy size, to its page: what is written is whole, whatever the numbers."""

import re

import pytest

from jaxdis.papers import PAPERS
from jaxdis.papers.harness._paper import reproduce
from jaxdis.study.report import _report as report
from tests.papers.briefly import claims_of, paper_of

pytestmark = pytest.mark.usefixtures("brief")

# The paper with most figures and sections; tests of reports draw every kind of study.
WITH_REPORTS = "locatello2020"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("key", PAPERS)
def test_a_page_is_made_of_what_is_run(key, tmp_path, monkeypatch):
    if key != WITH_REPORTS:
        monkeypatch.setattr(report, "write_report", lambda *arguments: None)
    page = reproduce(paper_of(key), tmp_path)
    text = page.read_text(encoding="utf-8")
    claims = {row["claim"] for row in claims_of(key, tmp_path)}
    assert text.count("data:image/png") >= 1
    assert re.search(rf"Of {len(claims)} claims checked", text)
    assert len(text) < 30e6
    before = page.read_bytes()
    assert reproduce(paper_of(key), tmp_path).read_bytes() == before
