"""The documentation: what its pages include exists, all are in the contents, and it builds without warnings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "notebooks"


def test_pages_include_sections_that_exist():
    for page in PAGES.glob("*.md"):
        for path, options in re.findall(r"```{include} (\S+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            text = (PAGES / path).read_text(encoding="utf-8")
            for marker in re.findall(r':(?:start-after|end-before): "(.*)"', options):
                assert text.count(marker.replace("\\n", "\n")) == 1, (page.name, marker)


def test_every_page_and_notebook_is_in_the_contents():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    listed = {line for block in re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL) for line in block.split("\n")}
    written = {page.stem for page in (*PAGES.glob("*.md"), *PAGES.glob("*.ipynb"))} - {"index"}
    assert written == {name for name in listed if name and not name.startswith((":", "reference/"))}


@pytest.mark.slow
def test_it_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(PAGES), str(tmp_path / "site")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "site" / "reference" / "metrics" / "mig.html").read_text(encoding="utf-8")
    assert "Mutual information gap" in page
    for html in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?://", html.read_text(encoding="utf-8")), (
            html
        )
