"""Scores and loss of members that were kept along training, against the number of updates."""

import numpy as np

from jaxdis import plots
from jaxdis.study.report import _result_table as results
from jaxdis.study.report._html import Picture, pictures
from jaxdis.study.report._subject import Subject

MOST_SCORES = 6


def along(subject: Subject) -> str:
    """A figure for the loss and for each chief score: a line per setting, means over seeds and their deviations."""
    if "updates" not in subject.table:
        return ""
    updates = np.asarray(subject.table["updates"], float)
    kept = subject.rows(np.isfinite(updates))
    ends = np.unique(updates[np.isfinite(updates)])
    losses = [name for name in kept.table if name.startswith("final_") and results.varies(kept.table[name])]
    losses = ["final_loss"] if "final_loss" in losses else losses[:1]
    titles = {**kept.titles, **{name: name.removeprefix("final_") for name in losses}}
    shown = []
    for name in (*losses, *kept.headline_columns(MOST_SCORES)):
        lines = {setting: _line(kept, name, setting, ends) for setting in dict.fromkeys(_settings(kept))}
        lines = {setting: line for setting, line in lines.items() if line is not None}
        if lines and any(results.varies(line.ravel()) for line in lines.values()):
            shown.append(Picture(f"{titles[name]} by updates", plots.curves(ends, lines, "updates", titles[name])))
    return pictures(shown, shown=3)


def _settings(subject: Subject) -> list[str]:
    """For each member its setting in words, whatever its updates."""
    table = {name: column for name, column in subject.table.items() if name != "updates"}
    return Subject(subject.study, table, subject.names).settings


def _line(subject: Subject, name: str, setting: str, ends: np.ndarray) -> np.ndarray | None:
    """The column ``[ends, seeds]`` of a setting; None if some seed was not kept everywhere."""
    own = subject.rows(np.array(_settings(subject)) == setting)
    columns = [np.asarray(own.table[name], float)[np.asarray(own.table["updates"], float) == end] for end in ends]
    if len({len(column) for column in columns}) > 1 or not len(columns[0]):
        return None
    return np.stack(columns)
