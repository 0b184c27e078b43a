"""Papers, reproduced: every table next to the printed one, every claim with a verdict, on one page per paper.

Each paper is one folder with everything of it: printed numbers, studies, tables, claims and page. ``reproduce(
PAPERS["locatello2020"], "papers/locatello2020")`` does what ``jaxdis reproduce locatello2020 --out papers`` does.

A paper from outside is registered by :func:`register`, or by an entry point of its package, whose value is the
:class:`Paper`::

    [project.entry-points."jaxdis.papers"]
    toy2026 = "toy2026:PAPER"
"""

import warnings
from importlib.metadata import entry_points

from jaxdis.papers import dangnhu2022, eastwood2018, harness, julka2024, locatello2020, mahon2024
from jaxdis.papers.harness import *  # noqa: F403
from jaxdis.papers.harness import Paper
from jaxdis.study._definition import STUDIES

PAPERS: dict[str, Paper] = {}


def register(paper) -> None:
    """Add a paper to :data:`PAPERS`, and its studies to :data:`jaxdis.study.STUDIES`.

    Raises:
      ValueError: for anything but a :class:`Paper`, or a name that another paper has taken.
    """
    if not isinstance(paper, Paper):
        raise ValueError(f"paper: must be a jaxdis.papers.Paper, got {type(paper).__name__}")
    if PAPERS.get(paper.key, paper) != paper:
        raise ValueError(f"paper: must have a key of its own, got {paper.key!r}, which is taken")
    taken = [name for other in PAPERS.values() if other != paper for name in other.studies]
    for name, make in paper.studies.items():
        if name in (*taken, "quickstart"):
            raise ValueError(f"studies: must have names of their own, got {name!r}, which is taken")
        STUDIES[name] = make
    PAPERS[paper.key] = paper


for _module in (mahon2024, locatello2020, eastwood2018, julka2024, dangnhu2022):
    register(_module.PAPER)
for _point in entry_points(group="jaxdis.papers"):
    try:
        register(_point.load())
    except Exception as error:  # of another package; its paper is missing, and all others are there
        warnings.warn(
            f"papers: {_point.value} of an entry point cannot be used ({error})", RuntimeWarning, stacklevel=2
        )

__all__ = ["PAPERS", "register", *harness.__all__]
