"""Dang-Nhu 2022 from trained slot models: what their studies do not hold, claims' statistics, Tables 1 to 6."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from jaxdis import models
from jaxdis._core.finite import finite, mean
from jaxdis.data import DATASETS
from jaxdis.encoders._slot_metrics import SLOT_METRICS, Structured
from jaxdis.models._zoo import concatenate
from jaxdis.papers.harness._page import Beside, Measured
from jaxdis.papers.harness._paper import Finished
from jaxdis.papers.harness._printed import Row, printed_in
from jaxdis.papers.harness._readings import lead_of
from jaxdis.papers.harness._verdict import Part, by_member, by_seed, exact, of_values, share
from jaxdis.study._compute_cells import (
    labels_of_scenes,
    member_zoo,
    scenes_of,
    slots_encoded,
    slots_scored,
    training_data,
)
from jaxdis.study._definition import Member, Sampling, Training
from jaxdis.study.report._statistics import Table, spearman

SPRITES = "multi_dsprites"
# Printed columns and those of the studies; segmentation is compared on the pixels of objects.
COLUMNS = {
    "object.disentanglement": "structured_slots.object.disentanglement",
    "object.completeness": "structured_slots.object.completeness",
    "property.disentanglement": "structured_slots.property.disentanglement",
    "property.completeness": "structured_slots.property.completeness",
    "informativeness": "structured_slots.informativeness",
    "ari": "segmentation.ari_foreground",
    "msc": "segmentation.covering_foreground",
}
OBJECT_D, ARI = COLUMNS["object.disentanglement"], COLUMNS["ari"]
# Printed names of colors; all other properties are called as in the data sets, size as scale on CLEVR6.
COLORS = {"r_channel": "red", "g_channel": "green", "b_channel": "blue"}


class SlotZoo:
    """The finished studies of all data sets as one table: a row per member, models called as they are printed."""

    def __init__(self, finished: Mapping[str, Finished]):
        self.finished = dict(finished)
        self.rows = [(name, place) for name, run in finished.items() for place in range(len(run.members))]
        orders = ("structured_slots.order_agreement", "structured_slots.order_mismatch")
        names = ("data", "model", "seed", *COLUMNS.values(), *orders)
        names += ("structured_given.object.disentanglement", "structured_given.object.completeness")
        names += tuple(map(_as_printed, COLUMNS.values()))
        columns = {name: np.concatenate([_column(run, name) for run in finished.values()]) for name in names}
        regularized = np.concatenate([run.table["regularized"] for run in finished.values()])
        self.table: Table = {**columns, "regularized": regularized == "yes"}

    def of(self, **wanted) -> Table:
        keep = np.all([self.table[name] == value for name, value in wanted.items()], axis=0)
        return {name: column[keep] for name, column in self.table.items()}

    @property
    def data(self) -> list[str]:
        return list(dict.fromkeys(map(str, self.table["data"])))

    def models(self, data: str) -> list[str]:
        return list(dict.fromkeys(map(str, self.of(data=data)["model"])))

    def each(self) -> list[tuple[str, str]]:
        return [(data, model) for data in self.data for model in self.models(data)]

    def parts(self, part: str, **wanted) -> list[np.ndarray]:
        """A part of ``structured_slots`` for the members in these rows that have it."""
        keep = np.all([self.table[name] == value for name, value in wanted.items()], axis=0)
        values = []
        for (name, place), kept in zip(self.rows, keep, strict=True):
            run = self.finished[name]
            score = [metric for metric, _ in run.study.metrics].index("structured_slots")
            parts = run.store.score(run.members[place].scores[score], "structured_slots")["parts"]
            if kept and f"structured_slots.{part}" in parts:
                values.append(np.array(parts[f"structured_slots.{part}"], float))
        return values

    def properties(self, data: str) -> dict[str, list[int]]:
        """Factors for each property of objects, without the background."""
        places: dict[str, list[int]] = {}
        for place, (thing, name) in enumerate(self.labels(data)):
            if thing != DATASETS[data].scenes.background:
                places.setdefault(name, []).append(place)
        return places

    def labels(self, data: str) -> list[tuple[str, str]]:
        """The object and the property of each factor."""
        return list(labels_of_scenes(self.finished[data].study.trainings[0]).values())

    def by_property(self, part: str, data: str, model: str) -> dict[str, float]:
        """A part with one number per factor, averaged over objects and seeds, for regularized members."""
        rows = np.array(self.parts(part, data=data, model=model, regularized=True))
        return {name: mean(rows[:, places]) for name, places in self.properties(data).items()} if len(rows) else {}


def _as_printed(column: str) -> str:
    """The same number by Algorithm 1 as printed, from the model's order."""
    return column.replace("structured_slots", "structured_printed")


def _column(finished: Finished, name: str) -> np.ndarray:
    if name != "model":
        return finished.table.get(name, np.full(len(finished.members), np.nan))
    return np.array([_printed(member.label) for member in finished.members])


def independent(finished: Mapping[str, Finished]) -> dict[str, dict]:
    """Scores without Algorithm 2: regularized members on scenes of Multi-dSprites that are no local groups."""
    if SPRITES not in finished:
        return {}
    run, scores_by_model = finished[SPRITES], {}
    metrics = {name: metric for name, metric in run.study.metrics if isinstance(metric, Structured)}
    for training, chosen in _regularized(run):
        zoo = concatenate([member_zoo(run.study, run.store, member) for member in chosen])
        scores = _scored(zoo, training, dataclasses.replace(run.study.sampling, groups=1), metrics)
        scores_by_model[_printed(chosen[0].label)] = {
            name: {field: scores[f"{name}.object.{field}"].tolist() for field in ("disentanglement", "completeness")}
            for name in metrics
        }
    return scores_by_model


def beginning(finished: Mapping[str, Finished]) -> dict[str, dict]:
    """How regularized models of Multi-dSprites score after one update."""
    if SPRITES not in finished:
        return {}
    sprites, scores_by_model = finished[SPRITES], {}
    for training, chosen in _regularized(sprites):
        keys, hyperparameters, _ = training.members()
        config = dataclasses.replace(training.config, steps=1)
        data = training_data(dataclasses.replace(training, pool=None))
        zoo = models.train(config, keys, hyperparameters, data=data)
        scores = _scored(zoo, training, sprites.study.sampling, SLOT_METRICS)
        scores_by_model[_printed(chosen[0].label)] = {
            name: scores[COLUMNS[name]].tolist() for name in ("object.disentanglement", "ari", "msc")
        }
    return scores_by_model


def _regularized(run: Finished) -> Iterator[tuple[Training, list[Member]]]:
    """Trainings with their members."""
    for place, training in enumerate(run.study.trainings):
        if dict(training.labels)["regularized"] == "yes":
            yield training, [member for member in run.members if member.training == place]


def _scored(zoo: models.Zoo, training: Training, sampling: Sampling, metrics: Mapping) -> dict[str, np.ndarray]:
    """All columns of these metrics."""
    drawn, render = scenes_of(training, sampling)
    seen = slots_encoded(zoo, drawn, render, sampling)
    kinds, numbers = training.config.method.code_kinds, range(len(zoo))
    scores = slots_scored(tuple(metrics.items()), seen["codes"], seen["segments"], drawn, sampling, numbers, kinds)
    return {name: values for _, more in scores for name, values in more.items()}


def _printed(label: Mapping) -> str:
    """What a model is called in print."""
    return {"attention": "monet_att", "decoder": "monet_dec"}.get(label.get("masks", ""), label["model"])


def parts_of_claims(zoo: SlotZoo, without_groups: Mapping, at_start: Mapping) -> dict[str, list[Part]]:
    """The statistics of every claim about trained models."""
    parts_by_claim = {
        "ablation_lowers_property": [
            Part(
                f"{data}, {model}: regularized minus (R)", _fall(zoo, data, model, "property.disentanglement"), above=0
            )
            for data, model in zoo.each()
        ],
        "ablation_lowers_object": [_most(zoo, "object.disentanglement", 1)],
        "ablation_raises_ari": [_most(zoo, "ari", -1)],
        "object_against_ari": [
            Part(data, by_member(zoo.of(data=data), lambda t: spearman(t[OBJECT_D], t[ARI])), below=0.5)
            for data in zoo.data
        ],
        "dec_above_att": [
            Part(f"{data}: {title}", _between(zoo, data, column, *order), above=0)
            for data in zoo.data
            for title, column, order in (
                ("ARI of (Att.) minus (Dec.)", ARI, ("monet_att", "monet_dec")),
                ("object D of (Dec.) minus (Att.)", OBJECT_D, ("monet_dec", "monet_att")),
            )
        ],
        "low_at_start": [
            Part(f"{model}: {name}, end minus beginning", of_values(_rise(zoo, model, name, values)), above=0)
            for model, columns in at_start.items()
            for name, values in columns.items()
        ],
        "genesis_best": [
            Part(f"{data}: GENESIS minus the best other", by_seed(zoo.of(data=data, regularized=True), _lead), above=0)
            for data in zoo.data
        ],
        "object_d_is_c": [
            Part("object level, largest |D − C|", exact(_apart(zoo, "object")), below=0.025),
            Part("property level, largest |D − C|", exact(_apart(zoo, "property")), above=0.025),
        ],
    }
    if SPRITES in zoo.data:
        parts_by_claim |= _of_sprites(zoo, without_groups)
    if "clevr6" in zoo.data:
        errors = [zoo.by_property("informativeness.per_factor", "clevr6", m)["rotation"] for m in zoo.models("clevr6")]
        parts_by_claim["rotation_unreadable"] = [Part("smallest error of rotation", exact(min(errors)), above=0.95)]
    return parts_by_claim


def _of_sprites(zoo: SlotZoo, without_groups: Mapping) -> dict[str, list[Part]]:
    """Claims about Multi-dSprites alone."""
    parts_by_claim: dict[str, list[Part]] = {"em_needed": [], "em_needed_alone": [], "color_first": []}
    for model in zoo.models(SPRITES):
        rows = zoo.of(data=SPRITES, model=model, regularized=True)
        with_both, neither = rows[OBJECT_D], np.array(without_groups[model]["structured_given"]["disentanglement"])
        parts_by_claim["em_needed"].append(
            Part(f"{model}: with both minus without", of_values(with_both - neither), above=0.2)
        )
        alone = of_values(with_both - rows["structured_given.object.disentanglement"])
        bounds = {"above": -0.1, "below": 0.1} if model == "genesis" else {"above": 0.2}
        parts_by_claim["em_needed_alone"].append(Part(f"{model}: with EM minus without", alone, **bounds))
        errors = zoo.by_property("informativeness.per_factor", SPRITES, model)
        complete = zoo.by_property("completeness.per_factor", SPRITES, model)
        parts_by_claim["color_first"] += [
            Part(f"{model}: largest error of colors minus smallest of others", exact(_colors(errors, max)), below=0),
            Part(
                f"{model}: least completeness of colors minus largest of others", exact(_colors(complete, min)), above=0
            ),
        ]
    rows = zoo.of(data=SPRITES)
    parts_by_claim["em_finds_iou_order"] = [
        Part("share of scenes in the same order", of_values(rows["structured_slots.order_agreement"]), above=0.5),
        Part("slots out of place", of_values(rows["structured_slots.order_mismatch"]), below=2),
    ]
    joints = np.array(zoo.parts("kind.joint", data=SPRITES, model="genesis", regularized=True))
    if len(joints):  # kinds of codes are rows, first masks; kinds of properties columns, first what the background has
        parts_by_claim["mask_is_extrinsic"] = [
            Part("component codes, extrinsic", of_values(joints[:, 1, 1]), below=0.05),
            Part("mask codes, intrinsic", of_values(joints[:, 0, 0]), above=0.1),
        ]
    return parts_by_claim


def _fall(zoo: SlotZoo, data: str, model: str, name: str):
    """Interval for the regularized members' mean minus the others'."""

    def difference(table: Table) -> float:
        column, regular = table[COLUMNS[name]], table["regularized"].astype(bool)
        return mean(column[regular]) - mean(column[~regular])

    return by_seed(zoo.of(data=data, model=model), difference)


def _most(zoo: SlotZoo, name: str, sign: int) -> Part:
    """Of how many models the regularized members have more (``sign`` 1) or less (−1)."""
    wins = [sign * _fall(zoo, data, model, name).value > 0 for data, model in zoo.each()]
    return Part("share of models and data sets", share(sum(wins), len(wins)), above=0.5)


def _between(zoo: SlotZoo, data: str, column: str, first: str, second: str):
    """Interval for one model's mean minus another's; undefined where one was not trained."""
    return by_seed(
        zoo.of(data=data, regularized=True),
        lambda t: mean(t[column][t["model"] == first]) - mean(t[column][t["model"] == second]),
    )


def _rise(zoo: SlotZoo, model: str, name: str, values: Sequence[float]) -> np.ndarray:
    return zoo.of(data=SPRITES, model=model, regularized=True)[COLUMNS[name]] - np.array(values)


def _lead(table: Table) -> float:
    means = {str(model): mean(table[OBJECT_D][table["model"] == model]) for model in np.unique(table["model"])}
    return lead_of("genesis", means) if "genesis" in means and len(means) > 1 else float("nan")


def _apart(zoo: SlotZoo, level: str) -> float:
    """Largest difference between D and C in the printed rows, which are means over seeds."""
    gaps = []
    for data, model in zoo.each():
        for regularized in (True, False):
            rows = zoo.of(data=data, model=model, regularized=regularized)
            d, c = (mean(rows[COLUMNS[f"{level}.{of}"]]) for of in ("disentanglement", "completeness"))
            gaps.append(abs(d - c))
    return max(gaps)


def _colors(scores: Mapping[str, float], worst: Callable) -> float:
    """The worst color minus the best other property."""
    best = min if worst is max else max
    colors = [value for name, value in scores.items() if name in COLORS.values()]
    return worst(colors) - best(value for name, value in scores.items() if name not in COLORS.values())


def tables(zoo: SlotZoo, without_groups: Mapping) -> list[Beside]:
    """Tables 1 to 6 next to the printed ones."""
    printed = printed_in(__package__).tables
    sprites = zoo.of(data=SPRITES)
    orders = [
        _percent(sprites["structured_slots.order_agreement"]),
        _spread(sprites["structured_slots.order_mismatch"]),
    ]
    first = {(0, name): value for name, value in zip(("exactly_matching", "average_mismatch"), orders, strict=True)}
    return [
        Beside(printed["table_1"], first, "Mean and standard error over all members."),
        Beside(printed["table_2"], _table_2(zoo), "Mean and standard error over regularized members of GENESIS."),
        Beside(
            printed["table_3"],
            _table_3(zoo, _as_printed),
            "By Algorithm 1 as printed, from the order of the model. ARI and mSC on the pixels of objects.",
        ),
        Beside(
            printed["table_3"]._replace(id="table_3_best_start", label="Table 3 from the best start"),
            _table_3(zoo, str),
            "By Algorithm 1 from the best of several orders.",
        ),
        Beside(printed["table_4"], _table_4(zoo, without_groups)),
        *(
            Beside(printed[name], _by_property(zoo, data, printed[name].rows), "Means over objects, groups and seeds.")
            for name, data in (("table_5", SPRITES), ("table_6", "clevr6"))
            if data in zoo.data
        ),
    ]


def _percent(values: np.ndarray | Sequence[float]) -> Measured:
    return _spread(np.asarray(values, float), 100.0)


def _spread(values: np.ndarray, unit: float = 1.0) -> Measured:
    """Mean and standard error."""
    defined = finite(unit * values)
    error = defined.std(ddof=1) / np.sqrt(len(defined)) if len(defined) > 1 else float("nan")
    return Measured(mean(defined), float(error))


def _table_2(zoo: SlotZoo) -> dict[tuple[int, str], Measured]:
    joints = np.array(zoo.parts("kind.joint", data=SPRITES, model="genesis", regularized=True))
    if not len(joints):
        return {}
    return {
        (row, column): _spread(joints[:, row, place])
        for row in range(2)
        for place, column in enumerate(("intrinsic", "extrinsic"))
    }


def _table_3(zoo: SlotZoo, column: Callable[[str], str]) -> dict[tuple[int, str], Measured]:
    measured = {}
    for place, row in enumerate(printed_in(__package__).tables["table_3"].rows):
        key = row.key
        rows = zoo.of(data=key["dataset"], model=key["model"], regularized=key["regularized"])
        measured |= {(place, name): _percent(rows[column(COLUMNS[name])]) for name in row.values if len(rows["model"])}
    return measured


def _table_4(zoo: SlotZoo, without_groups: Mapping) -> dict[tuple[int, str], Measured]:
    measured = {}
    for place, row in enumerate(printed_in(__package__).tables["table_4"].rows):
        model, left_out = row.key["model"], set(row.key["without_algorithms"])
        metric = "structured_given" if 1 in left_out else "structured_slots"
        rows = zoo.of(data=SPRITES, model=model, regularized=True)
        for field in ("disentanglement", "completeness"):
            if 2 in left_out:
                values = without_groups.get(model, {}).get(metric, {}).get(field, [])
            else:
                values = rows[f"{metric}.object.{field}"]
            measured[place, f"object.{field}"] = _percent(values)
    return measured


def _by_property(zoo: SlotZoo, data: str, rows: Sequence[Row]) -> dict[tuple[int, str], Measured]:
    measured = {}
    for model in zoo.models(data):
        for kind in ("completeness", "informativeness"):
            values = zoo.by_property(f"{kind}.per_factor", data, model)
            for place, row in enumerate(rows):
                name = COLORS.get(row.key["property"], row.key["property"])
                if name in values:
                    measured[place, f"{kind}.{model}"] = Measured(100 * values[name])
    return measured
