"""Read the bibliography: what the docstrings of the library cite as "Name et al. YEAR", in full.

``jaxdis list references`` prints it, and ``jaxdis list references --bibtex mig dci`` the entries that were used.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Reference(NamedTuple):
    """A publication: authors as "Chen, R. T. Q.", the kind of its entry, and the entry itself."""

    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    url: str
    kind: str
    volume: str
    bibtex: str

    @property
    def cited(self) -> str:
        """How docstrings cite it: ``Chen et al. 2018``."""
        names = [author.split(", ")[0] for author in self.authors]
        return f"{f'{names[0]} et al.' if len(names) > 2 else ' & '.join(names)} {self.year}"

    @property
    def place(self) -> str:
        """Where it was published: ``Neural Computation 9``."""
        return f"{self.venue} {self.volume}".rstrip()

    def __str__(self) -> str:
        return f"{'; '.join(self.authors)} ({self.year}). {self.title}. {self.place}. {self.url}"


def _read(entry: str) -> Reference:
    """Read an entry that has one field per line, as all of the file do."""
    fields = {name: value.strip("{}") for name, value in re.findall(r"^  (\w+) = (.*),$", entry, re.MULTILINE)}
    [venue] = [fields[name] for name in ("journal", "booktitle", "publisher", "howpublished") if name in fields]
    kind = entry[1 : entry.index("{")]
    authors = tuple(fields["author"].split(" and "))
    volume = fields.get("volume", "")
    return Reference(authors, fields["title"], venue, int(fields["year"]), fields["url"], kind, volume, entry)


_ENTRIES = Path(__file__).with_suffix(".bib").read_text(encoding="utf-8").strip().split("\n\n")
REFERENCES = {entry[entry.index("{") + 1 : entry.index(",")]: _read(entry) for entry in _ENTRIES}

_BY_CITATION = {reference.cited: key for key, reference in REFERENCES.items()}
_NAME = r"[A-ZÀ-Ž][\w’-]+"
# "Chen et al. 2018", "Kim & Mnih (2018)", "Burgess and Kim 2018", and "Ross 2014" where there is such an entry.
_CITATION = re.compile(rf"({_NAME})( et al\.| (?:&|and) {_NAME})? \(?((?:19|20)\d\d)\b")


def citations(text: str) -> list[str]:
    """List what a text cites, as ``Chen et al. 2018``, as first cited.

    A single name counts only if there is an entry for it: "Table 2019" is not a citation.
    """
    matches = _CITATION.findall(re.sub(r"\s+", " ", text))
    texts = [(coauthors, f"{name}{coauthors.replace(' and ', ' & ')} {year}") for name, coauthors, year in matches]
    return list(dict.fromkeys(citation for coauthors, citation in texts if coauthors or citation in _BY_CITATION))


def cited_in(text: str) -> list[str]:
    """List the keys for the entries that a text cites, as first cited."""
    return [_BY_CITATION[citation] for citation in citations(text) if citation in _BY_CITATION]


def bibliography(keys: Iterable[str]) -> str:
    keys = list(dict.fromkeys(keys))
    for key in keys:
        if key not in REFERENCES:
            raise ValueError(f"references: must be keys such as chen2018, got {key!r}")
    return "\n\n".join(REFERENCES[key].bibtex for key in keys)
