"""What each metric of a report asks, and links to it."""

import html

from jaxdis._core.references import REFERENCES
from jaxdis.study._definition import metric_of
from jaxdis.study.report._html import Html
from jaxdis.study.report._subject import Subject


def link_to_metric(subject: Subject, column: str) -> Html:
    """A column's title, which leads to its metric in the glossary."""
    name = metric_of(subject.study, column)
    title = html.escape(subject.titles[column])
    return Html(f'<a href="#metric-{html.escape(name, quote=True)}">{title}</a>')


def glossary(subject: Subject) -> str:
    """Every metric: its title, the question that it asks, what it claims to measure, and its paper."""
    entries = []
    for name, metric in subject.study.metrics:
        about = getattr(metric, "about", None)
        anchor = f'<dt id="metric-{html.escape(name, quote=True)}">'
        if about is None:
            entries.append(f"{anchor}{html.escape(name)}</dt><dd></dd>")
            continue
        claimed = ", ".join(dict.fromkeys(aspect for aspects in about.claims.values() for aspect in aspects))
        source = REFERENCES[about.references[0]]
        sense = "lower is better" if metric.errors else "higher is better"
        if len(metric.errors) > 1:
            sense += f" for {', '.join(metric.errors).replace('_', ' ')}"
        facts = f"Claims to measure {claimed}; {sense}." if claimed else f"{sense.capitalize()}."
        authors = source.authors[0].split(",")[0] + (" et al." if len(source.authors) > 2 else "")
        if len(source.authors) == 2:
            authors += f" and {source.authors[1].split(',')[0]}"
        text = html.escape(f"{about.question} {facts} {authors} {source.year}.")
        entries.append(f"{anchor}{html.escape(about.title)} <small>{html.escape(name)}</small></dt><dd>{text}</dd>")
    return f"<dl>{''.join(entries)}</dl>"
