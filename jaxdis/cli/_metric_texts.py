"""Metrics as they are written in the shell: ``mig``, ``mig:bins=30``, ``dci:splitter=histogram:stages=5``."""

from collections.abc import Sequence

from jaxdis._core.options import literal, look_up
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._plan import ELSEWHERE, STANDARD


def plan_of_texts(texts: Sequence[str]) -> dict[str, Metric]:
    """Metrics by the text that requests each of them, which names its column; ``all`` stands for every metric, and
    ``standard`` for those that are computed by default.

    Entries may also be separated by commas.
    """
    entries = [entry for text in texts for entry in _split(text)]
    if entries == ["all"]:
        return dict(METRICS)
    if entries == ["standard"]:
        return {name: METRICS[name] for name in STANDARD}
    return {entry: _metric(entry) for entry in entries}


def values_of_texts(texts: Sequence[str]) -> dict[str, tuple]:
    """Values to try for options, ``bins=10,20,50``, by the name of the option."""
    options = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name and equals and values) or name in options:
            raise ValueError(f"options: must be one text per option, such as bins=10,20,50, got {text!r}")
        value = literal(f"({values},)")
        options[name] = value if isinstance(value, tuple) else tuple(map(literal, values.split(",")))
    return options


def options_in_words(plan: dict[str, Metric]) -> str:
    """Each metric with its options and their values, one metric per paragraph."""
    paragraphs = []
    for name, metric in plan.items():
        options = [f"  {option}={value!r}" for option, value in metric.all_options.items()]
        paragraphs.append("\n".join((name, *(options or ["  (no options)"]))))
    return "\n\n".join(paragraphs)


def _metric(entry: str) -> Metric:
    name, *settings = entry.split(":")
    metric = look_up(name, METRICS, "metric", elsewhere=ELSEWHERE)
    options = {}
    for setting in settings:
        option, equals, text = setting.partition("=")
        if not equals or option not in metric.all_options:
            names = ", ".join(metric.all_options) or "none"
            raise ValueError(f"metrics: {name} has the options {names}, as {name}:OPTION=VALUE; got {setting!r}")
        if option in options:
            raise ValueError(f"metrics: must give each option once, got {option} twice in {entry!r}; leave one out")
        options[option] = literal(text)
    return metric.with_options(**options) if options else metric


def _split(text: str) -> list[str]:
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]
