"""Every citation has an entry in the bibliography, and every entry is cited."""

from pathlib import Path

import pytest

import jaxdis
from jaxdis.references import REFERENCES, bibliography, citations, cited_in

PACKAGE = Path(jaxdis.__file__).parent
TEXTS = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "references.py"
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_citation_has_an_entry(name):
    known = {reference.cited for reference in REFERENCES.values()}
    assert set(citations(TEXTS[name])) <= known


def test_every_entry_is_cited():
    cited = {key for text in TEXTS.values() for key in cited_in(text)}
    assert cited == set(REFERENCES)


def test_entries_are_told_apart():
    assert len({reference.cited for reference in REFERENCES.values()}) == len(REFERENCES)
    assert cited_in("Burgess et al. (2018), eq. 8; Burgess and Kim 2018") == ["burgess2018", "burgesskim2018"]
    assert cited_in("Ross 2014, and not Table 2019") == ["ross2014"]


def test_bibtex_of_an_entry():
    assert bibliography(["ross2014", "ross2014"]) == (
        "@article{ross2014,\n"
        "  author = {Ross, B. C.},\n"
        "  title = {{Mutual Information between Discrete and Continuous Data Sets}},\n"
        "  journal = {PLoS ONE 9},\n"
        "  year = {2014},\n"
        "  url = {https://doi.org/10.1371/journal.pone.0087357},\n"
        "}"
    )
    with pytest.raises(ValueError, match="references: needs keys such as chen2018, got 'nobody'"):
        bibliography(["nobody"])
