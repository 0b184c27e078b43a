"""Figures that Locatello et al. 2020 draw of a zoo, for any study.

Code groups (§6.1.2), blends that share a relation or a score (Figures 15, 16 and 20), dependence among codes (Figures 2
to 4 and 29 to 33), and classifiers trained on few or many codes (Figures 23 to 28).
"""

import functools
import html
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import models, plots
from jaxdis._core.store import Store
from jaxdis.data import DATASETS
from jaxdis.data._datasets import traversals as factor_traversals
from jaxdis.encoders import _simulated as simulated
from jaxdis.evaluation._evaluate import relate
from jaxdis.metrics import Blend
from jaxdis.metrics._metric import Column
from jaxdis.models._images import Images
from jaxdis.models._zoo import decodes, reconstructions, traversals
from jaxdis.models.methods.slots._base import SlotMethod
from jaxdis.relations import RELATIONS
from jaxdis.scores import independent_groups
from jaxdis.study._compute_cells import member_zoo, samples_of, scenes_of
from jaxdis.study._definition import Member, Study, metric_of
from jaxdis.study.report import _statistics as results
from jaxdis.study.report._html import Picture, folded, image
from jaxdis.study.report._statistics import Table, spearman_of_columns
from jaxdis.study.report._subject import Subject

# The relation of Figures 17 to 19 if a study has no other.
RELATION = RELATIONS["mutual_information"]
# Of mean and sampled codes, how dependent they are.
MEASURES = ("total_correlation", "code_information")
GROUPS = ("lowest third", "middle third", "highest third")
# Columns in a scatter of efficiencies.
MOST_SCATTERS = 8
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


def structure(subject: Subject, store: Store, members: Mapping[str, Member], column: str) -> Sequence[Picture]:
    """Figures 17 to 19: the relation, its independent groups and its merges, of three members and each relation.

    ``members`` are those of the study by id, ``column`` the score by which three are chosen.
    """
    blends = [metric for _, metric in subject.metrics if isinstance(metric, Blend)]
    wanted = [metric.relation for metric in blends if metric.score.name == "independent_groups"] or [RELATION]
    specs = {spec.title or spec.name: spec for spec in wanted}
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
            trees.append((label, groups.merge_pair, groups.merge_threshold, samples.train.names))
    if not matrices:
        return []
    names, columns = samples.train.names, len(specs)
    counted = plots.panels_of(plots.groups_curve, curves, columns, 2.8, 2.0)
    joined = plots.panels_of(plots.dendrogram, trees, columns, 2.0 + plots.inches(names), 0.9 + 0.26 * len(names))
    chosen = f"best, median and worst member by {subject.titles[column]} (rows)"
    return [
        Picture(f"Relations of codes and factors: {chosen}", plots.relation_panels(matrices, names, columns)),
        Picture(f"Independent groups by threshold: {chosen}", counted),
        Picture(f"Factors that codes encode together: {chosen}", joined),
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
    data = str(subject.table["data"][0])
    training = next(training for training in subject.study.trainings if training.config.data == data)
    names = samples_of(training, subject.study.sampling).train.names
    caption = "At which merge two factors join, mean over members"
    return [
        Picture(f"{caption}: {title}", plots.heat_map(np.mean(ranks, axis=0), names, names))
        for title, ranks in ranks_by_relation.items()
    ]


def merge_ranks(pairs: np.ndarray) -> np.ndarray:
    """``[k, k]``: the number of the merge that first joins two factors; NaN on the diagonal.

    ``pairs [k − 1, 2]`` are clusters that are joined, as :func:`jaxdis.scores.independent_groups` lists them.
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


def blends(subject: Subject) -> Sequence[Picture]:
    """Rank correlation of scores under one relation, and of one score under several relations."""
    metrics = {name: metric for name, metric in subject.metrics if isinstance(metric, Blend)}
    by_relation: dict[str, list[str]] = {}
    by_score: dict[str, list[str]] = {}
    for column in subject.names:
        if (name := metric_of(subject, column)) in metrics and results.varies(subject.table[column]):
            relation, score = metrics[name].relation, metrics[name].score
            field = column[len(name) :].replace(".", " ").replace("_", " ")
            by_relation.setdefault(relation.title or relation.name, []).append(column)
            by_score.setdefault(f"{score.title or score.name}{field}", []).append(column)
    alike = {f"Scores under one relation: {title}": names for title, names in by_relation.items()}
    alike |= {f"One score under several relations: {title}": names for title, names in by_score.items()}
    return [
        Picture(title, plots.rank_map(spearman_of_columns(subject.table, names), [subject.titles[n] for n in names]))
        for title, names in alike.items()
        if len(names) > 2
    ]


def one_against_others(table: Table, columns: Mapping[str, str]) -> list:
    """Every setting's medians over seeds on one data set against the others, by title: four panels to a figure."""
    panels = []
    for title, column in columns.items():
        medians, data = results.medians_by_data(table, column)
        others = zip(data[1:], medians[1:], strict=True)
        panels += [(data[0], f"{title}: {other}", medians[0], row) for other, row in others]
    return [plots.point_clouds(panels[start : start + 4]) for start in range(0, len(panels), 4)]


def dependence(subject: Subject) -> Sequence[Picture]:
    """Both measures of mean and sampled codes against regularization and each other; none if columns are missing."""
    names = [name for measure in MEASURES for name in (measure, f"{measure}_sampled")]
    if not set(names).issubset(subject.names):
        return []
    titles = ["total correlation of means", "of samples", "information between codes of means", "of samples"]
    against = plots.scores_by_regularization(subject.titled, subject.regularization, names, titles=titles)
    clouds = [
        ("of samples, nats", "of means, nats", subject.table[f"{measure}_sampled"], subject.table[measure])
        for measure in MEASURES
    ]
    caption = "Total correlation (left) and information (right) of mean codes against sampled codes"
    return [
        Picture("Dependence among codes against regularization strength; lines join medians", against),
        Picture(caption, plots.point_clouds(clouds)),
    ]


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
    caption = "Rank correlation of scores with accuracy by number of training samples, and with efficiency"
    pictures = [Picture(caption, plots.rank_map(matrix, rows, heads))]
    efficiencies = [name for name in columns if name.endswith(".efficiency")]
    if efficiencies:
        drawn = plots.scatter_matrix(subject.titled, efficiencies, scores[:MOST_SCATTERS])
        pictures.append(Picture("Statistical efficiency against scores", drawn))
    for name in [name for name in ("dci.disentanglement", "mig") if name in subject.table]:
        for task in tasks:
            if len(curves[task]) > 1 and np.isfinite(subject.table[name]).sum() >= 2 * len(GROUPS):
                caption = f"Accuracy of {task.replace('_', ' ')} of members in three groups by {subject.titles[name]}"
                pictures.append(Picture(caption, _of_thirds(subject, name, curves[task])))
    return pictures


def by_size(subject: Subject, task: str) -> dict[int, str]:
    """Number of training samples → column of accuracy."""
    ends = {name: Column.read(name, [task]) for name in subject.table}
    return {int(end.field): name for name, end in ends.items() if end.metric == task and end.field.isdigit()}


def _of_thirds(subject: Subject, name: str, curve: dict[int, str]):
    """A figure of accuracy by number of samples, a line per third; members without the score are in no group."""
    defined = np.flatnonzero(np.isfinite(subject.table[name]))
    order = defined[np.argsort(subject.table[name][defined], kind="stable")]
    thirds = dict(zip(GROUPS, np.array_split(order, len(GROUPS)), strict=True))
    least = min(map(len, thirds.values()))
    accuracy = np.stack([subject.table[column] for column in curve.values()])
    columns = {group: accuracy[:, rows[:least]] for group, rows in thirds.items()}
    return plots.curves(np.log10(list(curve)), columns, "log10 of training samples", "accuracy")


# Values of a traversal.
STEPS = 9
# Scenes shown: the first ones, which belong to one local group.
SHOWN = 8
# A color for each slot; slots beyond these repeat them.
_PERCENT = [(12, 47, 71), (100, 50, 5), (17, 63, 17), (84, 15, 16), (58, 40, 74), (55, 34, 29), (89, 47, 76), (50,) * 3]
COLORS = (np.array(_PERCENT) / 100).astype(np.float32)


def closer(study: Study, store: Store, member: Member) -> str:
    """A member's pictures: what is seen at a glance, and more to unfold."""
    return (_scenes if study.has_slots else _codes)(study, store, member)


def _codes(study: Study, store: Store, member: Member) -> str:
    """How each code changes an image, next to what it encodes, and the numbers behind that."""
    training = study.trainings[member.training]
    zoo, (factors, _, _, render) = member_zoo(study, store, member), samples_of(training, study.sampling)
    relation = relate(store.arrays("encode", member.encode)["mean"], factors, "mutual_information")
    shares = np.asarray(relation.strength) / np.asarray(relation.ceiling)
    draw, key = functools.partial(simulated.drawn, Images.of(render)), jax.random.key(0)
    encodes = (
        "<p>The larger a square, the more a code (row) tells about a factor (column): mutual information as a share"
        " of the factor's entropy.</p>" + image(plots.hinton(shares, factors.names), "Hinton diagram")
    )
    groups, codes = jax.tree.map(np.asarray, _groups(relation)), [f"code {i}" for i in range(len(shares))]
    parts = [
        "<h3>Mutual information as a share of entropy</h3>",
        image(plots.heat_map(shares, codes, factors.names, most=1.0), "shares"),
        "<h3>Independent groups</h3>",
        image(plots.groups_curve(groups.threshold, groups.groups, groups.discovered), "groups"),
        "<p>Two factors are joined at the threshold at which one code encodes both.</p>",
        image(plots.dendrogram(groups.merge_pair, groups.merge_threshold, factors.names), "joins"),
    ]
    if decodes(zoo.config.method):
        has_prior = zoo.config.method.has_prior
        shown = np.asarray(draw(factors.values[: 1 if has_prior else 10], key))
        walked = traversals(zoo, shown, num_values=STEPS, relative=not has_prior)[0, 0]
        unit = "" if has_prior else " standard deviations"
        sheet = image(plots.image_grid(walked, codes), "latent traversals")
        moved = f"<p>Each row changes one code from −2 to 2{unit} and keeps the others.</p>{sheet}"
        # In one row, or below one another where the window is narrow.
        encodes = f'<div class="side"><div>{moved}</div><div>{encodes}</div></div>'
        pairs = reconstructions(zoo, np.asarray(draw(factors.values[:10], key)))[0].transpose(1, 0, 2, 3, 4)
        sheet = image(plots.image_grid(pairs, ("image", "made")), "reconstructions")
        parts.append(f"<h3>Images and what the member makes of them</h3>{sheet}")
    row = DATASETS[training.config.data]
    if row.scenes is None:
        walked = np.asarray(draw(jnp.asarray(factor_traversals(row.space, key, STEPS)), key))
        sheet = image(plots.image_grid(walked, row.space.names), "the data")
        parts.append(f"<h3>The data: each factor traversed</h3>{sheet}")
    return encodes + folded("More about this member", "".join(parts))


def _scenes(study: Study, store: Store, member: Member) -> str:
    """Scenes, what slots show of them before and after probing, and which objects the slots hold."""
    arrays = store.arrays("encode", member.encode)
    training = study.trainings[member.training]
    drawn = scenes_of(training, study.sampling)
    scenes = np.asarray(Images.of(drawn.render)(jnp.asarray(drawn.rows[:SHOWN]), jax.random.key(study.sampling.seed)))
    rows, slots = {"scene": scenes}, None
    if isinstance(training.config.method, SlotMethod):
        parts = models.slot_parts(member_zoo(study, store, member), scenes)
        masks = parts.masks[0][..., None]
        rows["reconstruction"] = parts.reconstruction[0]
        slots = masks * parts.pictures[0] + 1 - masks
    rows["segments"] = COLORS[arrays["segments"][:SHOWN] % len(COLORS)]
    fragments = [
        f"<p>{html.escape(member.label['model'])}, seed {member.label['seed']}.</p>",
        "<h3>What each slot shows</h3><p>Scenes of one local group; segments have a color for the slot with the largest"
        " mask. Slots are pictures inside their masks, in the order of the model, which may differ from scene to scene."
        "</p>",
        image(_slot_sheet(rows, "slot", slots), "scenes, segments and slots"),
    ]
    for (name, _), score in zip(study.metrics, member.scores, strict=True):
        parts_of = store.score(score, name)["parts"]
        if (joint := parts_of.get(f"{name}.object.joint")) is not None:
            matrix = np.array(joint, np.float32)
            objects = list(dict.fromkeys(object_name for object_name, _ in drawn.scenes.labels(drawn.space).values()))
            fragments += [
                "<h3>Which slot holds which object</h3><p>Area: share of the importance for the object, after slots "
                "were put in order.</p>",
                image(plots.hinton(matrix / max(matrix.max(), 1e-12), objects), "objects in slots"),
            ]
        if slots is not None and (orders := parts_of.get(f"{name}.orders")) is not None:
            # Position ``p`` shows the slot ``orders[:, p]`` of each scene.
            ordered = np.take_along_axis(slots, np.array(orders, int)[:SHOWN, :, None, None, None], axis=1)
            fragments += [
                f"<h3>Slots in the order of {html.escape(name.replace('_', ' '))}</h3><p>The same scenes: each row"
                " should hold the same object.</p>",
                image(_slot_sheet({"scene": scenes}, "position", ordered), "slots after probing"),
            ]
    return "".join(fragments)


def _slot_sheet(rows: Mapping[str, np.ndarray], name: str, slots: np.ndarray | None):
    """Rows of images with one or three channels (others as their mean), and ``slots [n, s, h, w, c]``, as one
    picture."""
    numbered = () if slots is None else enumerate(np.moveaxis(slots, 1, 0), 1)
    rows = {**rows, **{f"{name} {number}": picture for number, picture in numbered}}
    one = [picture if picture.shape[-1] == 3 else picture.mean(-1, keepdims=True) for picture in rows.values()]
    colored = np.stack([np.broadcast_to(picture, (*picture.shape[:-1], 3)) for picture in one])
    return plots.image_grid(colored.astype(np.float32), list(rows))
