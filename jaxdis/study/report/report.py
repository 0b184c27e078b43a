"""The report of a study: one page that answers the questions of the papers from its published cells."""

import csv
import html
import json
import platform
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdis
from jaxdis.data import DATASETS
from jaxdis.data.show import traversals as factor_traversals
from jaxdis.evaluation.evaluate import relate
from jaxdis.models.encoding import decodes
from jaxdis.models.images import Images
from jaxdis.models.traversal import reconstructions, traversals
from jaxdis.scores import independent_groups
from jaxdis.study.definition import Member, Study, cells, metric_of
from jaxdis.study.make import member_zoo, samples_of
from jaxdis.study.report import results
from jaxdis.study.report.correlation import fisher_comparison, over_seeds, pearson, rank_correlation
from jaxdis.study.report.page import image, page
from jaxdis.study.report.page import table as table_of
from jaxdis.study.report.scenes import closer as scene_closer
from jaxdis.study.report.transfer import across_data, transfer
from jaxdis.study.store import Store, StoreError, publish

# Parts of a label that a member is not called by.
UNSAID = ("model", "seed", "held_out", "learning_rate", "discriminator_learning_rate", "warmup_steps")
# An interval needs at least this many seeds.
FEWEST_SEEDS = 3


def write_report(study: Study, out: str | Path) -> Path:
    """Write ``report.html`` into a study's directory from its published cells and ``results.csv``.

    Raises:
      StoreError: if the directory holds another study, or a table without all its members.
    """
    from jaxdis import plots

    store, members = Store(out), list(cells(study))
    store.check({**study.describe(), "name": store.description().get("name")})  # a report may be called otherwise
    table = _results(study, store, members)
    names = [name for name in table if metric_of(study, name)]
    strength = results.strengths(table, study.variants)
    best = _best(table, names)
    closer = scene_closer if study.has_slots else _closer
    sections = [
        ("Scores", _scores(study, table, names, plots, strength)),
        ("How metrics agree", _agreement(table, names, plots)),
        ("Can scores be predicted without labels?", _unsupervised(study, table, names)),
        ("Do scores go with downstream performance?", _downstream(study, table, names)),
        ("What explains a score", _explained(table, names, strength)),
        ("Do good settings carry over?", _carried(study, table, names, plots)),
        ("Novel combinations", _novel(study, table, names, plots)),
        ("Training", _training(study, store, members, plots)),
        (f"The member with the best {best[0]}", closer(study, store, members[best[1]], plots)),
        ("All members", table_of([*_labels(table), *names], table)),
        ("Configuration", _configuration(study)),
    ]
    sections = [(title, body) for title, body in sections if body]
    path = store.root / "report.html"
    publish(path, page(study.title or study.name, sections).encode(), replace=True)
    return path


def _results(study: Study, store: Store, members: Sequence[Member]) -> dict[str, np.ndarray]:
    """``results.csv``, after checking that it has a row for each member, in order, and a score of each metric."""
    path = store.root / "results.csv"
    advice = "run the study: the table is derived from its records"
    try:
        table = results.read_results(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; {advice}") from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise StoreError(f"{path}: is damaged ({error}); {advice}") from None
    found = list(map(str, table.get("id", ())))
    if found != [member.train for member in members]:
        raise StoreError(f"{path}: needs a row for each of {len(members)} members, got {len(found)} rows; {advice}")
    scored = {metric_of(study, name) for name, column in table.items() if column.dtype.kind == "f"}
    missing = [name for name, _ in study.metrics if name not in scored]
    if missing:
        raise StoreError(f"{path}: needs columns of numbers of {', '.join(missing[:3])}; {advice}")
    return table


def _scores(study, table, names, plots, strength) -> str:
    text = (
        f"<p>{len(table['id'])} members, each scored on {study.sampling.in_words()}. Each point is a member; lines join"
        " the means of each strength. Strengths are ordered from weakest to strongest within each model.</p>"
    )
    spread = "<h3>By model</h3><p>All members of a model, whatever their strength; the bar is the median.</p>"
    means = "<h3>Means</h3><p>Over the members of a model, with 95 % intervals over seeds where there are three.</p>"
    return (
        text
        + image(plots.scores_by_strength(table, strength, names), "scores against strength")
        + spread
        + image(plots.violins(table, names), "spread of scores by model")
        + means
        + _means(table, names)
    )


def _means(table, names: Sequence[str]) -> str:
    """Metrics × models; each entry is a mean and its bootstrap interval over seeds."""
    models = list(dict.fromkeys(map(str, table["model"])))
    rows = {"metric": np.array(names)}
    several = len(np.unique(table["seed"])) >= FEWEST_SEEDS
    for model in models:
        mine = np.asarray(table["model"]).astype(str) == model
        own = {name: column[mine] for name, column in table.items()}
        rows[model] = np.array([_mean(own, name, several) for name in names])
    return table_of(list(rows), rows)


def _mean(table, name: str, several: bool) -> str:
    if not np.isfinite(table[name]).any():
        return ""
    if not several:
        return f"{np.nanmean(table[name]):.4g}"
    found = over_seeds(table, lambda rows: _known_mean(rows[name]), replicates=200)
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}]"


def _known_mean(scores: np.ndarray) -> float:
    return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")


def _varies(column: np.ndarray) -> bool:
    known = column[np.isfinite(column)]
    return len(known) > 1 and bool(np.ptp(known) > 0)


def _unsupervised(study, table, names) -> str:
    """Rank correlation with quantities that need no labels: final losses and the scores of the codes alone."""
    others = [name for name in table if name.startswith("final_") and _varies(table[name])]
    alone = {name for name, metric in study.metrics if metric.about is not None and not metric.about.reads_factors}
    others += [name for name in names if metric_of(study, name) in alone]
    supervised = [name for name in names if name not in others]
    if not others or not supervised:
        return ""
    matrix = rank_correlation(table, supervised, others)
    text = "<p>Spearman rank correlation over all members with losses and with scores of the codes alone.</p>"
    return text + table_of(
        ["metric", *others], {"metric": np.array(supervised), **dict(zip(others, matrix.T, strict=True))}
    )


def _downstream(study, table, names) -> str:
    """Rank correlation of metrics with the accuracy of classifiers on the codes, and with their sample efficiency."""
    tasks = [name for name in names if metric_of(study, name).startswith("downstream")]
    metrics = [name for name in names if name not in tasks]
    if not tasks or not metrics:
        return ""
    matrix = rank_correlation(table, metrics, tasks)
    curves = ", ".join(f"{size:,}" for size in _curve_sizes(study, {metric_of(study, name) for name in tasks}))
    text = (
        "<p>Spearman rank correlation over all members with classifiers trained on the codes"
        + (f", of {curves} training samples: no more are at hand" if curves else "")
        + ".</p>"
    )
    return text + table_of(["metric", *tasks], {"metric": np.array(metrics), **dict(zip(tasks, matrix.T, strict=True))})


def _curve_sizes(study: Study, tasks: set[str]) -> list[int]:
    """Training samples at the points of learning curves: as requested, but no more than there are."""
    described = [
        metric.describe().get("metric", {}).get("options", {}) for name, metric in study.metrics if name in tasks
    ]
    sizes = {min(size, study.sampling.train) for options in described for size in options.get("sizes", ())}
    return sorted(sizes)


def _carried(study, table, names, plots) -> str:
    """Transfer of settings between seeds, metrics and data sets."""
    if len(np.unique(table["seed"])) < 2:
        return ""
    metrics = dict(study.metrics)
    upward = [
        name
        for name in names
        if not metrics[metric_of(study, name)].lower_is_better
        and not name.endswith(".informativeness" * study.has_slots)
        and np.isfinite(table[name]).any()
    ]
    if not upward:
        return ""
    shares = transfer(table, upward)._asdict()
    rows = {
        "under another": np.array([name.replace("_", " ") for name in shares]),
        "wins or ties": np.array([*shares.values()]),
    }
    text = (
        "<p>A setting is chosen by the best score under one seed, and compared under another seed with a random"
        " setting: how often it does at least as well.</p>"
    )
    parts = [text, table_of(list(rows), rows)]
    if len(np.unique(table["data"])) > 1:
        parts.append("<h3>Rank correlation between data sets</h3><p>Of medians over seeds, at each setting.</p>")
        for name in upward:
            matrix, data = across_data(table, name)
            parts.append(image(plots.rank_map(matrix, data), f"rank correlation of {name} between data sets"))
    return "".join(parts)


def _novel(study, table, names, plots) -> str:
    """Correlation of metrics with the accuracy on combinations that were never trained on."""
    targets = [name for name in names if name in study.novel]
    others = [name for name in names if metric_of(study, name) not in study.novel]
    if not targets or not others:
        return ""
    target = targets[0]
    groups = [" ".join(parts) for parts in zip(map(str, table["data"]), map(str, table["model"]), strict=True)]
    means = {name: _by_group(table[name], groups) for name in (target, *others)}
    found = [pearson(means[name], means[target]) for name in others]
    columns = {"metric": np.array(others)} | {
        field: np.array([float(getattr(one, field)) for one in found]) for field in ("r", "t", "p", "n")
    }
    r = np.array([one.r for one in found])
    p = fisher_comparison(r, max(one.n for one in found))
    return (
        f"<p>Pearson correlation of each metric with {html.escape(target)}, over the means of every data set and"
        " model, with its t-test.</p>"
        + table_of(list(columns), columns)
        + "<p>One-sided p-values that the metric of the row goes with it more closely than that of the column"
        " (Fisher's transformation, independent samples assumed).</p>"
        + image(plots.heat_map(p, others, others, most=1.0), "p-values of differences")
        + image(plots.scatter_matrix(table, [target], others[:8]), "accuracy on novel combinations against metrics")
    )


def _by_group(scores: np.ndarray, groups: Sequence[str]) -> np.ndarray:
    labels = np.array(groups)
    return np.array([_known_mean(scores[labels == group]) for group in dict.fromkeys(groups)])


def _agreement(table, names, plots) -> str:
    matrix = rank_correlation(table, names)
    text = "<p>Spearman rank correlation of metrics over all members, in hundredths.</p>"
    return text + image(plots.rank_map(matrix, names), "rank correlations of metrics")


def _explained(table, names, strength) -> str:
    rows = {"metric": [], "model": [], "model × strength": []}
    for name in names:
        share = results.variance_explained(table, name, strength)
        rows["metric"].append(name)
        rows["model"].append(share.model)
        rows["model × strength"].append(share.model_and_strength)
    columns = {name: np.array(values) for name, values in rows.items()}
    return (
        "<p>Share of each score's variance over members that the model explains, and the model with its"
        " strength; the rest is the seed's.</p>" + table_of(list(columns), columns)
    )


def _training(study, store, members: Sequence[Member], plots) -> str:
    parts = []
    data_of = [training.config.data for training in study.trainings]
    for data in dict.fromkeys(data_of):
        mine = [member for member in members if data_of[member.training] == data]
        parts.append(f"<h3>{html.escape(data)}</h3>")
        curves: dict[tuple[int, str], dict[int, np.ndarray]] = {}
        for row, member in enumerate(mine):
            zoo = member_zoo(study, store, member)
            for field, curve in zoo.losses._asdict().items():
                if np.any(curve):
                    curves.setdefault((zoo.log_every, field), {})[row] = np.asarray(curve)[0]
        for (log_every, field), lines in curves.items():
            labels = [_name(mine[row].label) for row in lines]
            parts.append(image(plots.loss_curves(list(lines.values()), labels, log_every, field), f"{field} by update"))
    return "".join(parts)


def _closer(study, store, member: Member, plots) -> str:
    """Relation, groups, reconstructions and traversals of one member."""
    zoo = member_zoo(study, store, member)
    training = study.trainings[member.training]
    data = training.config.data
    factors, _, _, render = samples_of(training, study.sampling)
    arrays = store.arrays("encode", member.encode)
    relation = relate(arrays["mean"], factors, "mutual_information")
    groups = jax.jit(independent_groups)(relation)
    shares = np.asarray(relation.strength) / np.asarray(relation.ceiling)
    parts = [
        f"<p>{html.escape(_name(member.label))}, seed {member.label['seed']}.</p>",
        "<h3>What each code encodes of each factor</h3>",
        "<p>Area: mutual information as a share of the factor's entropy.</p>",
        image(plots.hinton(shares, factors.names), "Hinton diagram of the relation"),
        image(plots.heat_map(shares, [f"code {i}" for i in range(len(shares))], factors.names, most=1.0), "shares"),
        "<h3>Independent groups</h3>",
        image(plots.groups_curve(*map(np.asarray, (groups.threshold, groups.groups, groups.discovered))), "groups"),
        "<p>Two factors are joined at the threshold at which one code encodes both.</p>",
        image(plots.dendrogram(*map(np.asarray, (groups.merge_pair, groups.merge_threshold)), factors.names), "joins"),
    ]
    if decodes(zoo.config.method):
        images = np.asarray(Images.of(render)(factors.values[:10], jax.random.key(0)))
        pairs = reconstructions(zoo, images)[0]
        has_prior = zoo.config.method.has_prior
        shown = images[:1] if has_prior else images
        walked = traversals(zoo, shown, num_values=9, relative=not has_prior)[0, 0]
        unit = "" if has_prior else " standard deviations"
        spread = arrays["mean"].std(axis=0)
        parts += [
            "<h3>Images and what the member makes of them</h3>",
            image(plots.image_grid(pairs.transpose(1, 0, 2, 3, 4), ("image", "made")), "reconstructions"),
            f"<h3>Each code from −2 to 2{unit}</h3><p>With the standard deviation of its mean over the samples.</p>",
            image(plots.image_grid(walked, [f"code {i} ({s:.2f})" for i, s in enumerate(spread)]), "latent traversals"),
        ]
    if DATASETS[data].scenes is None:
        space = DATASETS[data].space
        sheet = np.asarray(
            Images.of(render)(jnp.asarray(factor_traversals(space, jax.random.key(0), 9)), jax.random.key(0))
        )
        parts += ["<h3>The data: each factor traversed</h3>", image(plots.image_grid(sheet, space.names), "the data")]
    return "".join(parts)


def _configuration(study: Study) -> str:
    versions = {"jaxdis": jaxdis.__version__, "jax": jax.__version__, "python": platform.python_version()}
    text = json.dumps({"versions": versions, **study.describe()}, indent=1, ensure_ascii=False, default=str)
    return f"<pre>{html.escape(text)}</pre>"


def _labels(table) -> list[str]:
    first = next((name for name in table if name.startswith("final_")), None)
    names = list(table)
    return [name for name in names[: names.index(first)] if name != "id"] if first else names[1:4]


def _best(table, names: Sequence[str]) -> tuple[str, int]:
    """The metric that selects the member shown (MIG if available), and that member's row."""
    name = "mig" if "mig" in names else names[0]
    return name, int(np.nanargmax(table[name])) if np.isfinite(table[name]).any() else 0


def _name(label: dict) -> str:
    settings = ", ".join(f"{key} {value:g}" for key, value in label.items() if key not in UNSAID)
    return f"{label['model']} {settings}".strip()
