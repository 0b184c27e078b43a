"""Every citation has an entry in the bibliography, and every entry is cited."""

from pathlib import Path

import pytest

import jaxdis
from jaxdis._core.references import REFERENCES, bibliography, citations, cited_in

PACKAGE = Path(jaxdis.__file__).parent
TEXTS = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
}


def test_every_citation_has_an_entry():
    known = {reference.cited for reference in REFERENCES.values()}
    unknown = {name: set(citations(text)) - known for name, text in TEXTS.items()}
    assert {name: keys for name, keys in unknown.items() if keys} == {}


def test_every_entry_is_cited():
    cited = {key for text in TEXTS.values() for key in cited_in(text)}
    assert cited == set(REFERENCES)


def test_entries_are_told_apart():
    assert len({reference.cited for reference in REFERENCES.values()}) == len(REFERENCES)
    assert cited_in("Burgess et al. (2018), eq. 8; Burgess and Kim 2018") == ["burgess2018", "burgesskim2018"]
    assert cited_in("Ross 2014, and not Table 2019") == ["ross2014"]


BIBTEX = """
@article{ross2014,
  author = {Ross, B. C.},
  title = {{Mutual Information between Discrete and Continuous Data Sets}},
  journal = {PLoS ONE},
  volume = {9},
  year = {2014},
  url = {https://doi.org/10.1371/journal.pone.0087357},
}

@inproceedings{amari1996,
  author = {Amari, S. and Cichocki, A. and Yang, H. H.},
  title = {{A New Learning Algorithm for Blind Signal Separation}},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {8},
  year = {1996},
  url = {https://proceedings.neurips.cc/paper/1995/hash/e19347e1c3ca0c0b97de5fb3b690855a-Abstract.html},
}

@book{nocedal2006,
  author = {Nocedal, J. and Wright, S. J.},
  title = {{Numerical Optimization}},
  publisher = {Springer},
  year = {2006},
  url = {https://doi.org/10.1007/978-0-387-40065-5},
}

@misc{ba2016,
  author = {Ba, J. L. and Kiros, J. R. and Hinton, G. E.},
  title = {{Layer Normalization}},
  howpublished = {arXiv preprint},
  year = {2016},
  url = {https://arxiv.org/abs/1607.06450},
}
"""


def test_bibtex_of_each_kind_of_entry():
    assert bibliography(["ross2014", "ross2014", "amari1996", "nocedal2006", "ba2016"]) == BIBTEX.strip()
    with pytest.raises(ValueError, match="references: must be keys such as chen2018, got 'nobody'"):
        bibliography(["nobody"])


def test_conferences_are_proceedings_and_journals_have_volumes():
    for key, reference in REFERENCES.items():
        of_conference = any(word in reference.venue for word in ("Conference", "Advances in", "Workshop", "SIGGRAPH"))
        assert (reference.kind == "inproceedings") == of_conference, key
        is_article = bool(reference.volume) and not of_conference
        assert (reference.kind == "article") == is_article or key == "mahon2024", key
        assert not reference.venue[-1].isdigit(), key
