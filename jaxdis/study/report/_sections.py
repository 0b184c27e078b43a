"""A report's sections: each takes the scores on one data set, or on all, and returns HTML; "" to be left out."""

import html
import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxdis import plots
from jaxdis._core.finite import mean as finite_mean
from jaxdis._core.references import REFERENCES
from jaxdis.data import DATASETS
from jaxdis.evaluation._notes import Known, notes_of
from jaxdis.evaluation._score_core import together
from jaxdis.metrics._metric import ASPECTS, Metric
from jaxdis.study._definition import metric_of
from jaxdis.study.report import _statistics as results
from jaxdis.study.report._figures import one_against_others
from jaxdis.study.report._html import Picture, folded, image, listed, pictures, table
from jaxdis.study.report._subject import Subject

# The metrics of Locatello et al. 2020, Table 1; other scores are drawn only if a study lacks one of them.
SEVEN = ("beta_vae", "dci.disentanglement", "factor_vae", "irs", "mig", "modularity", "sap")
# A violin needs at least this many points.
FEWEST_POINTS = 8
# Panels of one figure.
MOST_PANELS = 12
# Metrics in one table of correlations that is not folded away, and in a scatter of all pairs.
MOST_ROWS, MOST_PAIRS = 12, 5


def by_data(section: Callable[[Subject], str], subject: Subject) -> str:
    """The section for every data set, under its name if there are several."""
    parts = [(name, section(rows)) for name, rows in subject.each()]
    if len(parts) == 1:
        return parts[0][1]
    return "".join(f"<h3>{html.escape(name)}</h3>{body}" for name, body in parts if body)


def scores(subject: Subject) -> str:
    """Scores against regularization and by model: the headline columns, and the others folded by what they measure."""
    first = list(subject.headlines().values()) or list(subject.names[:MOST_PANELS])
    fields: dict[str, list[str]] = {}
    for name in subject.names:
        if name not in first:
            aspect, others = subject.aspect_of(name), "Other scores"
            family = f"Other scores of {aspect}" if aspect in ASPECTS else others
            fields.setdefault(family, []).append(name)
    own = "each regularization strength, from weakest to strongest within each model"
    text = (
        f"<p>{len(subject)} members, each scored on {subject.sampled}. Each point is a member; lines"
        f" join the medians of {f'each value of {html.escape(subject.swept)}' if subject.swept else own}.</p>"
    )
    rest = "".join(folded(f"{family} ({len(names)})", _panels(subject, names)) for family, names in fields.items())
    means = folded("Means by model", _means(subject))
    return text + _notes(subject) + _panels(subject, first) + _violins(subject, first) + rest + means


def _notes(subject: Subject) -> str:
    """Notes on scores that do not mean what they seem to, as below the tables of :func:`jaxdis.evaluate`."""
    plan = tuple((name, metric) for name, metric in subject.metrics if isinstance(metric, Metric))
    factors = list(subject.factors)
    if not factors:  # of a data set, whose values are all equally frequent
        space, n = DATASETS[str(subject.table["data"][0])].space, subject.samples
        sizes = zip(space.names, space.sizes, strict=True)
        factors = [Known(name, size, size or n, math.log(size or n)) for name, size in sizes]
    lines = together(notes_of(plan, subject.table, factors, subject.samples))
    return listed(lines) if lines else ""


def _panels(subject: Subject, names: Sequence[str]) -> str:
    """Scores against what is varied."""
    text, parts = f"scores against {subject.swept or 'regularization strength'}", []
    for start in range(0, len(names), MOST_PANELS):
        panel = names[start : start + MOST_PANELS]
        titles = [subject.titles[name] for name in panel]
        drawn = plots.scores_by_regularization(
            subject.titled, subject.regularization, panel, titles=titles, setting=subject.swept
        )
        parts.append(image(drawn, text))
    return "".join(parts)


def _violins(subject: Subject, names: Sequence[str]) -> str:
    """Spread over each model's members, and over each setting's seeds, where there are several."""
    titles, parts = [subject.titles[name] for name in names], []
    if max(map(subject.models.count, set(subject.models))) >= FEWEST_POINTS:
        drawn = plots.violins(subject.titled, names, titles=titles)
        parts.append(folded("Spread over the members of each model", image(drawn, "spread by model")))
    if max(map(subject.settings.count, set(subject.settings))) >= FEWEST_POINTS:
        drawn = plots.violins_by_regularization(subject.titled, subject.regularization, names, titles=titles)
        alt = f"spread by model and {subject.swept or 'regularization strength'}"
        parts.append(folded("Spread over the seeds of every setting", image(drawn, alt)))
    return "".join(parts)


def _means(subject: Subject) -> str:
    """Metrics × models; each entry is a mean and its interval over seeds."""
    text = "<p>With 95 % intervals of the mean over seeds (Student's t), where there are three seeds.</p>"
    columns: dict[str, list] = {"metric": list(map(subject.link_to, subject.names))}
    for model in dict.fromkeys(subject.models):
        of_model, entries = subject.rows(np.array(subject.models) == model).table, []
        for name in subject.names:
            value, low, high = results.mean_over_seeds(of_model[name], of_model["seed"])
            bounds = f"{value:.3g} [{low:.3g}, {high:.3g}]" if np.isfinite(low) else f"{value:.4g}"
            entries.append(bounds if np.isfinite(value) else "")
        columns[model or "all members"] = entries
    return text + table(list(columns), columns)


def agreement(subject: Subject) -> str:
    names = subject.varying()
    if len(names) < 2 or len(subject) < 3:
        return ""
    text = f"<p>Spearman rank correlation × 100 between metrics, over {len(subject):,} members.</p>"
    chosen = list(subject.headlines().values())
    first = [*chosen, *(name for name in names if name not in chosen and name == metric_of(subject, name))]
    first = [name for name in first if name in names][:MOST_ROWS]
    first = first if len(first) > 1 else names[:MOST_ROWS]
    short = _rank_map(subject, first)
    every = folded("All metrics", _rank_map(subject, names)) if len(names) > len(first) else ""
    shown = {subject.titles[name]: subject.table[name] for name in first[:MOST_PAIRS]}
    drawn = plots.scatter_matrix({**shown, "model": np.array(subject.models)}, list(shown), list(shown))
    return text + short + every + folded("Each metric against each other", image(drawn, "pairs of metrics"))


def _rank_map(subject: Subject, names: Sequence[str]) -> str:
    matrix = results.spearman_of_columns(subject.table, names)
    return image(plots.rank_map(matrix, [subject.titles[name] for name in names]), "rank correlations of metrics")


def unsupervised(subject: Subject) -> str:
    """Rank correlation with quantities that need no labels: final losses and scores on the codes alone."""
    losses = [n for n in subject.table if n.startswith(("final_", "sample_")) and results.varies(subject.table[n])]
    alone = {n for n, metric in subject.metrics if metric.about is not None and not metric.about.reads_factors}
    criteria = [*losses, *(name for name in subject.varying() if metric_of(subject, name) in alone)]
    supervised = [name for name in subject.varying() if name not in criteria]
    if not criteria or not supervised:
        return ""
    text = (
        "<p>Spearman rank correlation with losses at the end of training, with those of the study's samples, and with"
        " scores of the codes alone.</p>"
    )
    matrix, heads = results.spearman_of_columns(subject.table, supervised, criteria), []
    for name in criteria:
        kind, _, loss = name.partition("_")
        loss_title = f"{loss.replace('_', ' ')} {'in training' if kind == 'final' else 'of samples'}"
        heads.append(subject.titles.get(name, loss_title))
    columns = {"metric": list(map(subject.link_to, supervised)), **dict(zip(heads, matrix.T, strict=True))}
    return text + table(list(columns), columns)


def explained(subject: Subject) -> str:
    """How much of the scores' variance the settings explain."""
    names = subject.varying()
    if not names or len(set(subject.settings)) < 2:
        return ""
    by_model, by_both = (
        [results.explained(subject.titled, name, by) for name in names] for by in (None, subject.regularization)
    )
    columns = {
        "metric": list(map(subject.link_to, names)),
        "model": by_model,
        "model × regularization": by_both,
    }
    text = (
        "<p>Share of each score's variance over members that the model explains, and the model with its regularization"
        " strength; the rest is the seed's. A share is empty where every group has one member.</p>"
    )
    return text + table(list(columns), columns)


def carried(subject: Subject) -> str:
    """Transfer of settings between seeds, metrics and data sets: the one section that looks at all data sets."""
    upward = [n for n in subject.names if not subject.lower_is_better(n) and np.isfinite(subject.table[n]).any()]
    seven = [name for name in SEVEN if name in upward]
    drawn = seven if len(seven) == len(SEVEN) else upward
    if len(np.unique(subject.table["seed"])) < 2 or len(set(subject.settings)) < 2 or not upward:
        return ""
    shares = results.transfer(subject.table, drawn)._asdict()
    titles = html.escape(", ".join(subject.titles[name] for name in drawn))
    shares = {name.replace("_", " "): share for name, share in shares.items() if not math.isnan(share)}
    rows = {"under another": [*shares], "wins or ties": [*shares.values()]}
    text = (
        "<p>A setting is chosen by the best score under one seed, and compared under another seed with a random"
        f" setting: how often it does at least as well; a setting chosen at random does in half of the cases. Metrics:"
        f" {titles}.</p>"
    )
    parts = [text, table(list(rows), rows)]
    if len(np.unique(subject.table["data"])) > 1:
        parts.append("<h3>Rank correlation between data sets</h3><p>Of medians over seeds, at each setting.</p>")
        first = list(subject.headlines().values())
        parts += [_between_data(subject, name) for name in first]
        clouds = one_against_others(subject.table, {subject.titles[name]: name for name in first})
        against = "".join(image(drawn, "one data set against others") for drawn in clouds)
        parts.append(folded("Scores of one data set against those of others", against))
        rest = [name for name in upward if name not in first]
        parts.append(folded(f"Other metrics ({len(rest)})", "".join(_between_data(subject, name) for name in rest)))
    return "".join(parts)


def _between_data(subject: Subject, name: str) -> str:
    matrix, data = results.across_data(subject.table, name)
    title = f"rank correlation of {subject.titles[name]} between data sets"
    return f"<h4>{subject.link_to(name)}</h4>" + image(plots.rank_map(matrix, data), title)


def novel(subject: Subject) -> str:
    """How metrics correlate with the accuracy on combinations that were never trained on.

    Over means by data set and model, as Mahon et al. 2024, Table 4: the one correlation that pools data sets.
    """
    held_out = subject.study.novel if subject.study is not None else ()
    target = next((name for name in subject.names if name in held_out), None)
    rest = [name for name in subject.names if metric_of(subject, name) not in held_out]
    if target is None or not rest:
        return ""
    groups = np.array([f"{data} {model}" for data, model in zip(subject.table["data"], subject.models, strict=True)])
    rows = [groups == group for group in dict.fromkeys(groups.tolist())]
    means = {name: np.array([finite_mean(subject.table[name][own]) for own in rows]) for name in (target, *rest)}
    correlations = [results.pearson(means[name], means[target]) for name in rest]
    columns = {"metric": list(map(subject.link_to, rest))}
    columns |= {field: np.array([float(getattr(row, field)) for row in correlations]) for field in ("r", "t", "p", "n")}
    p = results.fisher_comparison(np.array([row.r for row in correlations]), max(row.n for row in correlations))
    titles = [subject.titles[name] for name in rest]
    over = f"with {html.escape(subject.titles[target])}, over the means of every data set and model, with its t-test"
    closely = "the metric of the row goes with it more closely than that of the column"
    return (
        f"<p>Pearson correlation of each metric {over}.</p>{table(list(columns), columns)}<p>One-sided p-values that"
        f" {closely} (Fisher's transformation, independent samples assumed).</p>"
        + image(plots.heat_map(p, titles, titles, most=1.0), "p-values of differences")
        + image(plots.scatter_matrix(subject.table, [target], rest[:8]), "accuracy on novel combinations")
    )


def glossary(subject: Subject) -> str:
    """Every metric: its title, the question that it asks, what it claims to measure, and its paper."""
    entries = []
    for name, metric in subject.metrics:
        about = getattr(metric, "about", None)
        anchor = f'<dt id="metric-{html.escape(name, quote=True)}">'
        if about is None:
            entries.append(f"{anchor}{html.escape(name)}</dt><dd></dd>")
            continue
        claimed = ", ".join(dict.fromkeys(aspect for aspects in about.claims.values() for aspect in aspects))
        sense = "lower is better" if metric.errors else "higher is better"
        if len(metric.errors) > 1:
            sense += f" for {', '.join(metric.errors).replace('_', ' ')}"
        facts = f"Claims to measure {claimed}; {sense}." if claimed else f"{sense.capitalize()}."
        source = "".join(f" {REFERENCES[key].cited}." for key in about.references[:1])
        text = html.escape(f"{about.question} {facts}{source}")
        entries.append(f"{anchor}{html.escape(about.title)} <small>{html.escape(name)}</small></dt><dd>{text}</dd>")
    return f"<dl>{''.join(entries)}</dl>"


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
    shown, settings = [], np.array(kept.without_updates().settings)
    members = {setting: kept.rows(settings == setting) for setting in dict.fromkeys(settings.tolist())}
    for name in (*losses, *kept.headline_columns(6)):
        lines = {setting: _line(own, name, ends) for setting, own in members.items()}
        lines = {setting: line for setting, line in lines.items() if line is not None}
        if lines and any(results.varies(line.ravel()) for line in lines.values()):
            shown.append(Picture(f"{titles[name]} by updates", plots.curves(ends, lines, "updates", titles[name])))
    return pictures(shown, shown=3)


def _line(own: Subject, name: str, ends: np.ndarray) -> np.ndarray | None:
    """The column ``[ends, seeds]`` of a setting's members; None if some seed was not kept everywhere."""
    columns = [np.asarray(own.table[name], float)[np.asarray(own.table["updates"], float) == end] for end in ends]
    return np.stack(columns) if len({len(column) for column in columns}) == 1 and len(columns[0]) else None
