"""A paper from outside: the recipe of .github/CONTRIBUTING.md, from its text to its page."""

import csv
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jaxdis import papers
from jaxdis.study import STUDIES

ROOT = Path(__file__).parents[2]


def recipe() -> dict[str, str]:
    """The blocks of the section on papers, by their language."""
    text = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Add a paper")[2].partition("\n## ")[0]
    return dict(re.findall(r"```(\w+)\n(.*?)```", section, flags=re.DOTALL))


@pytest.fixture
def installed(tmp_path):
    """A folder on the path of Python that holds the package and what an installer writes for its entry point."""
    blocks = recipe()
    package, metadata = tmp_path / "toy2026", tmp_path / "toy2026-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "printed.json").write_text(blocks["json"], encoding="utf-8")
    (package / "__init__.py").write_text(blocks["python"], encoding="utf-8")
    [(name, value)] = re.findall(r'^(\w+) = "(.*)"$', blocks["toml"], flags=re.MULTILINE)
    (metadata / "entry_points.txt").write_text(f"[jaxdis.papers]\n{name} = {value}\n")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy2026\nVersion: 1.0\n")
    return tmp_path


def shell(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "jaxdis", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})


def test_a_paper_of_another_package_runs_from_the_shell_to_its_page(installed):
    listed = shell(installed, "list", "papers")
    assert "toy2026" in listed.stdout, listed.stderr
    made = shell(installed, "reproduce", "toy2026", "--out", str(installed / "out"))
    assert made.returncode == 0, made.stderr
    assert "1 claim checked: 1 holds" in made.stdout
    page = (installed / "out/toy2026/page.html").read_text(encoding="utf-8")
    assert "MIG prefers one code per factor to two." in page
    [row] = csv.DictReader((installed / "out/toy2026/tables.csv").read_text().splitlines())
    assert (row["column"], row["printed"]) == ("mig", "1.0")
    assert 0.97 < float(row["measured"]) <= 1


def test_a_broken_package_leaves_the_other_papers(installed):
    (installed / "toy2026/__init__.py").write_text("raise ValueError('it is broken')")
    listed = shell(installed, "list", "papers")
    assert "mahon2024" in listed.stdout
    assert "toy2026:PAPER of an entry point cannot be used (it is broken)" in " ".join(listed.stderr.split())


def test_papers_have_names_of_their_own(monkeypatch):
    paper = papers.PAPERS["mahon2024"]
    papers.register(paper)  # again changes nothing
    with pytest.raises(ValueError, match="must have a key of its own, got 'mahon2024'"):
        papers.register(dataclasses.replace(paper, studies={}))
    with pytest.raises(ValueError, match="must have names of their own, got 'julka2024'"):
        papers.register(dataclasses.replace(paper, package="toy", studies={"julka2024": len}))
    with pytest.raises(ValueError, match=r"must be a jaxdis\.papers\.Paper, got str"):
        papers.register("mahon2024")
    assert list(papers.PAPERS) == ["mahon2024", "locatello2020", "eastwood2018", "julka2024", "dangnhu2022"]
    assert {name for row in papers.PAPERS.values() for name in row.studies} == set(STUDIES) - {"quickstart"}
