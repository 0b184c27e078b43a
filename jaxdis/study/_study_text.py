"""What a study trains and scores, in a few lines and as a table for notebooks."""

from typing import TYPE_CHECKING

from jaxdis._core.html_table import html_table

if TYPE_CHECKING:
    from jaxdis.study._definition import Study

# Trainings that are listed in text.
MOST_SHOWN = 5


def as_text(study: "Study") -> str:
    """``Study('mine', 2 metrics)``, and a line each for the first trainings."""
    rows = [f"  {method} on {data}: {count} members" for method, data, count in _rows(study)[:MOST_SHOWN]]
    more = [f"  and {len(study.trainings) - MOST_SHOWN} more"] * (len(study.trainings) > MOST_SHOWN)
    return "\n".join([f"Study({study.name!r}, {len(study.metrics)} metrics)", *rows, *more])


def as_html(study: "Study") -> str:
    """A row for each training, under the metrics' names."""
    title = f"Study {study.name}: {', '.join(name for name, _ in study.metrics)}"
    return html_table(title, ["method", "data", "members"], _rows(study))


def _rows(study: "Study") -> list[tuple[str, str, int]]:
    """The method, the data and how many members, for every training."""
    configs = ((training.config, len(training.members()[2])) for training in study.trainings)
    return [(type(config.method).__name__, config.data, count) for config, count in configs]
