"""Which factors codes encode together: relations, independent groups and merges (Locatello et al. 2020, §6.1.2)."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from jaxdis import plots
from jaxdis._core.spec import Spec
from jaxdis.evaluation._relate import relate
from jaxdis.metrics import Blend
from jaxdis.relations import RELATIONS
from jaxdis.scores import independent_groups
from jaxdis.study._compute_cells import samples_of
from jaxdis.study._definition import Member, Study, metric_of
from jaxdis.study._store import Store
from jaxdis.study.report import _statistics as results
from jaxdis.study.report._html import Picture
from jaxdis.study.report._statistics import spearman_of_columns
from jaxdis.study.report._subject import Subject

# The relation of Figures 17 to 19 if a study has no other.
RELATION = RELATIONS["mutual_information"]
_groups = jax.jit(independent_groups)


def chosen_members(subject: Subject, column: str) -> dict[str, int]:
    """Rows of the best, the median and the worst member by a column; fewer if the column has fewer values."""
    defined = np.flatnonzero(np.isfinite(subject.table[column]))
    order = defined[np.argsort(subject.table[column][defined], kind="stable")]
    if not len(order):
        return {}
    best, worst = (0, -1) if subject.lower_is_better(column) else (-1, 0)
    rows = {"best": order[best], "median": order[len(order) // 2], "worst": order[worst]}
    return {name: int(row) for name, row in rows.items()}


def relations_of(study: Study) -> dict[str, Spec]:
    """The relations under which a study computes independent groups; mutual information if it does not."""
    blends = [metric for _, metric in study.metrics if isinstance(metric, Blend)]
    wanted = [metric.relation for metric in blends if metric.score.name == "independent_groups"]
    return {spec.title or spec.name: spec for spec in wanted} or {RELATION.title: RELATION}


def structure(subject: Subject, store: Store, members: Mapping[str, Member], column: str) -> Sequence[Picture]:
    """Figures 17 to 19: the relation, its independent groups and its merges, of three members and each relation.

    ``members`` are those of the study by id, ``column`` the score by which three are chosen.
    """
    specs = relations_of(subject.study)
    matrices, curves, trees = [], [], []
    for which, row in chosen_members(subject, column).items():
        member = members[str(subject.table["id"][row])]
        training = subject.study.trainings[member.training]
        samples = samples_of(training, subject.study.sampling)
        arrays = store.arrays("encode", member.encode)
        test = (arrays["test_mean"], samples.test)
        for title, spec in specs.items():
            relation = relate(arrays["mean"], samples.train, spec, test=test if spec.reads.test else None)
            groups = jax.tree.map(np.asarray, _groups(relation))
            label = f"{which}: {title}"
            matrices.append((label, np.asarray(relation.strength)))
            curves.append((label, groups.threshold, groups.groups, groups.discovered))
            trees.append((label, groups.merge_pair, groups.merge_threshold))
    if not matrices:
        return []
    names, columns = samples.train.names, len(specs)
    chosen = f"best, median and worst member by {subject.titles[column]} (rows)"
    return [
        Picture(f"Relations of codes and factors: {chosen}", plots.relation_panels(matrices, names, columns)),
        Picture(f"Independent groups by threshold: {chosen}", plots.group_panels(curves, columns)),
        Picture(f"Factors that codes encode together: {chosen}", plots.dendrogram_panels(trees, names, columns)),
    ]


def merges(subject: Subject, store: Store, members: Mapping[str, Member]) -> Sequence[Picture]:
    """Figures 34 and 35: at which rank each pair of factors merges, mean over members, by relation.

    Rank 0 is the first of all merges. Only for studies with a metric of independent groups.
    """
    ranks_by_relation: dict[str, list[np.ndarray]] = {}
    for place, (name, metric) in enumerate(subject.metrics):
        if not isinstance(metric, Blend) or metric.score.name != "independent_groups":
            continue
        title = metric.relation.title or metric.relation.name
        for train in map(str, subject.table["id"]):
            parts = store.score(members[train].scores[place], name)["parts"]
            pairs = np.array(parts[f"{name}.merge_pair"], int)
            ranks_by_relation.setdefault(title, []).append(merge_ranks(pairs))
    names = _factor_names(subject)
    return [
        Picture(
            f"At which merge two factors join, mean over members: {title}",
            plots.heat_map(np.mean(ranks, axis=0), names, names),
        )
        for title, ranks in ranks_by_relation.items()
    ]


def merge_ranks(pairs: np.ndarray) -> np.ndarray:
    """``[k, k]``: the number of the merge that first joins two factors; NaN on the diagonal.

    Args:
      pairs: ``[k − 1, 2]``, clusters that are joined, as :func:`jaxdis.scores.independent_groups` lists them.
    """
    k = len(pairs) + 1
    clusters = {j: [j] for j in range(k)}
    ranks = np.full((k, k), np.nan)
    for number, (a, b) in enumerate(pairs.tolist()):
        for i in clusters[a]:
            for j in clusters[b]:
                ranks[i, j] = ranks[j, i] = number
        clusters[k + number] = clusters.pop(a) + clusters.pop(b)
    return ranks


def _factor_names(subject: Subject) -> tuple[str, ...]:
    data = str(subject.table["data"][0])
    training = next(training for training in subject.study.trainings if training.config.data == data)
    return samples_of(training, subject.study.sampling).train.names


def blends(subject: Subject) -> Sequence[Picture]:
    """Rank correlation of scores under one relation, and of one score under several relations."""
    metrics = {name: metric for name, metric in subject.metrics if isinstance(metric, Blend)}
    columns_by_metric: dict[str, list[str]] = {}
    for column in subject.names:
        if (name := metric_of(subject, column)) in metrics and results.varies(subject.table[column]):
            columns_by_metric.setdefault(name, []).append(column)
    by_relation: dict[str, list[str]] = {}
    by_score: dict[str, list[str]] = {}
    for name, columns in columns_by_metric.items():
        metric = metrics[name]
        by_relation.setdefault(metric.relation.title or metric.relation.name, []).extend(columns)
        for column in columns:
            field = column[len(name) :].replace(".", " ").replace("_", " ")
            by_score.setdefault(f"{metric.score.title or metric.score.name}{field}", []).append(column)
    relations = [
        (f"Scores under one relation: {title}", names) for title, names in by_relation.items() if len(names) > 2
    ]
    scores = [
        (f"One score under several relations: {title}", names) for title, names in by_score.items() if len(names) > 2
    ]
    return [
        Picture(
            title, plots.rank_map(spearman_of_columns(subject.table, names), [subject.titles[name] for name in names])
        )
        for title, names in relations + scores
    ]


MEASURES = ("total_correlation", "code_information")


def dependence(subject: Subject) -> Sequence[Picture]:
    """Both measures of mean and sampled codes against regularization and each other; none if columns are missing."""
    names = [name for measure in MEASURES for name in (measure, f"{measure}_sampled")]
    if not set(names).issubset(subject.names):
        return []
    table = {**subject.table, "model": np.array(subject.models)}
    titles = ["total correlation of means", "of samples", "information between codes of means", "of samples"]
    against = plots.scores_by_regularization(table, subject.regularization, names, titles=titles)
    clouds = [
        ("of samples, nats", "of means, nats", subject.table[f"{measure}_sampled"], subject.table[measure])
        for measure in MEASURES
    ]
    return [
        Picture("Dependence among codes against regularization strength; lines join medians", against),
        Picture(
            "Total correlation (left) and information (right) of mean codes against sampled codes",
            plots.point_clouds(clouds),
        ),
    ]


GROUPS = ("lowest third", "middle third", "highest third")
# Columns in a scatter of efficiencies.
MOST_SCATTERS = 8


def learning(subject: Subject) -> Sequence[Picture]:
    """Rank correlation with accuracy by number of samples, efficiency against scores, accuracy of thirds by a score."""
    tasks = [name for name, _ in subject.metrics if name.startswith("downstream")]
    curves = {task: by_size(subject, task) for task in tasks}
    columns = [name for task in tasks for name in (*curves[task].values(), f"{task}.efficiency")]
    columns = [name for name in columns if name in subject.table and results.varies(subject.table[name])]
    scores = [name for name in subject.headline_columns() if metric_of(subject, name) not in tasks]
    if not columns or not scores:
        return []
    matrix = spearman_of_columns(subject.table, scores, columns)
    heads = [subject.titles.get(name, name.replace("_", " ")) for name in columns]
    rows = [subject.titles[name] for name in scores]
    pictures = [
        Picture(
            "Rank correlation of scores with accuracy by number of training samples, and with efficiency",
            plots.rank_map(matrix, rows, heads),
        )
    ]
    efficiencies = [name for name in columns if name.endswith(".efficiency")]
    if efficiencies:
        table = {**subject.table, "model": np.array(subject.models)}
        pictures.append(
            Picture(
                "Statistical efficiency against scores",
                plots.scatter_matrix(table, efficiencies, scores[:MOST_SCATTERS]),
            )
        )
    for name in [name for name in ("dci.disentanglement", "mig") if name in subject.table]:
        for task in tasks:
            if len(curves[task]) > 1 and np.isfinite(subject.table[name]).sum() >= 2 * len(GROUPS):
                caption = f"Accuracy of {task.replace('_', ' ')} of members in three groups by {subject.titles[name]}"
                pictures.append(Picture(caption, _of_thirds(subject, name, curves[task])))
    return pictures


def by_size(subject: Subject, task: str) -> dict[int, str]:
    """Number of training samples → column of accuracy."""
    ends = {name: name.removeprefix(f"{task}.") for name in subject.table if name.startswith(f"{task}.")}
    return {int(end): name for name, end in ends.items() if end.isdigit()}


def _of_thirds(subject: Subject, name: str, curve: dict[int, str]):
    """A figure of accuracy by number of samples, a line per third; members without the score are in no group."""
    defined = np.flatnonzero(np.isfinite(subject.table[name]))
    order = defined[np.argsort(subject.table[name][defined], kind="stable")]
    thirds = dict(zip(GROUPS, np.array_split(order, len(GROUPS)), strict=True))
    least = min(map(len, thirds.values()))
    accuracy = np.stack([subject.table[column] for column in curve.values()])
    columns = {group: accuracy[:, rows[:least]] for group, rows in thirds.items()}
    return plots.curves(np.log10(list(curve)), columns, "log10 of training samples", "accuracy")
