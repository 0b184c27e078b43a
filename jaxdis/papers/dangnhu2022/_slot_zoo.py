"""Dang-Nhu 2022 from trained slot models: what their studies do not hold, claims' statistics, Tables 1 to 6."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from jaxdis import models
from jaxdis._core.finite import finite, mean
from jaxdis.data import DATASETS
from jaxdis.encoders._evaluate_slots import SLOT_METRICS, MemberSlots, Structured, slots_of_zoo, slots_scored
from jaxdis.models._zoo import concatenate
from jaxdis.papers.harness import Beside, Finished, Measured, Part, exact, printed_in
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._printed import Row, words_in
from jaxdis.papers.harness._printed import Table as Printed
from jaxdis.papers.harness._verdict import by_member, by_seed, of_values, per_data, share
from jaxdis.study import _compute_cells as compute_cells
from jaxdis.study._definition import Member, Sampling, Training
from jaxdis.study.report._statistics import Table, spearman

SPRITES = "multi_dsprites"
# Printed columns and those of the studies; segmentation is compared on the pixels of objects.
COLUMNS: Mapping[str, str] = words_in(__package__)["columns"]
OBJECT_D, ARI = COLUMNS["object.disentanglement"], COLUMNS["ari"]
# Printed names of colors; all other properties are called as in the data sets, size as scale on CLEVR6.
COLORS = {"r_channel": "red", "g_channel": "green", "b_channel": "blue"}


class SlotZoo:
    """The finished studies of all data sets as one table: a row per member, models called as they are printed."""

    def __init__(self, finished: Mapping[str, Finished]):
        self.finished = dict(finished)
        orders = ("structured_slots.order_agreement", "structured_slots.order_mismatch")
        names = ("data", "model", "seed", *COLUMNS.values(), *orders)
        names += ("structured_given.object.disentanglement", "structured_given.object.completeness")
        names += tuple(map(_as_printed, COLUMNS.values()))
        columns = {name: np.concatenate([_column(run, name) for run in finished.values()]) for name in names}
        regularized = np.concatenate([run.table["regularized"] for run in finished.values()])
        self.table: Table = {**columns, "regularized": regularized == "yes"}

    def of(self, **wanted) -> Table:
        return readings.of(self.table, **wanted)

    @property
    def data(self) -> list[str]:
        return readings.data_of(self.table)

    def models(self, data: str) -> list[str]:
        return readings.models_of(self.of(data=data))

    def each(self) -> list[tuple[str, str]]:
        return [(data, model) for data in self.data for model in self.models(data)]

    def parts(self, part: str, **wanted) -> list[np.ndarray]:
        """A part of ``structured_slots`` for the members in these rows that have it."""
        keep = np.all([self.table[name] == value for name, value in wanted.items()], axis=0)
        values = [value for run in self.finished.values() for value in run.parts(f"structured_slots.{part}")]
        return [value for value, kept in zip(values, keep, strict=True) if kept and value is not None]

    def properties(self, data: str) -> dict[str, list[int]]:
        """Factors for each property of objects, without the background."""
        places: dict[str, list[int]] = {}
        for place, (thing, name) in enumerate(self.labels(data)):
            if thing != DATASETS[data].scenes.background:
                places.setdefault(name, []).append(place)
        return places

    def labels(self, data: str) -> list[tuple[str, str]]:
        """The object and the property of each factor."""
        row, config = DATASETS[data], self.finished[data].study.trainings[0].config
        return list(row.scenes.labels(row.space_of(data, config.source)).values())

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
        zoo = concatenate([compute_cells.member_zoo(run.study, run.store, member) for member in chosen])
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
        data = compute_cells.training_data(dataclasses.replace(training, pool=None))
        zoo = models.train(config, keys, hyperparameters, data=data)
        scores = _scored(zoo, training, sprites.study.sampling, SLOT_METRICS)
        scores_by_model[_printed(chosen[0].label)] = {
            name: scores[COLUMNS[name]].tolist() for name in ("object.disentanglement", "ari", "msc")
        }
    return scores_by_model


def _regularized(run: Finished) -> Iterator[tuple[Training, list[Member]]]:
    for place, training in enumerate(run.study.trainings):
        if dict(training.labels)["regularized"] == "yes":
            yield training, [member for member in run.members if member.training == place]


def _scored(zoo: models.Zoo, training: Training, sampling: Sampling, metrics: Mapping) -> dict[str, np.ndarray]:
    drawn = compute_cells.scenes_of(training, sampling)
    seen = slots_of_zoo(zoo, drawn.rows, drawn.render, sampling.seed)
    kinds = training.config.method.code_kinds
    given = MemberSlots(*seen, drawn.samples(), sampling.groups, range(len(zoo)), kinds)
    return {name: values for more in slots_scored(metrics, given).values() for name, values in more.items()}


def _printed(label: Mapping) -> str:
    """What a model is called in print."""
    return {"attention": "monet_att", "decoder": "monet_dec"}.get(label.get("masks", ""), label["model"])


def parts_of_claims(zoo: SlotZoo, without_groups: Mapping, at_start: Mapping) -> dict[str, list[Part]]:
    """The statistics of every claim about trained models."""

    def at_end(model: str) -> Table:
        return zoo.of(data=SPRITES, model=model, regularized=True)

    def between(column: str, first: str, second: str):
        """One model's mean minus another's; undefined where one was not trained."""
        return lambda t: mean(t[column][t["model"] == first]) - mean(t[column][t["model"] == second])

    falls = {(d, m): _fall(zoo, d, m, "property.disentanglement") for d, m in zoo.each()}
    trained = zoo.of(regularized=True)
    orders = {
        "ARI of (Att.) minus (Dec.)": between(ARI, "monet_att", "monet_dec"),
        "object D of (Dec.) minus (Att.)": between(OBJECT_D, "monet_dec", "monet_att"),
    }
    parts_by_claim = {
        "ablation_lowers_property": [
            Part(f"{data}, {model}: regularized minus (R)", fall, above=0) for (data, model), fall in falls.items()
        ],
        "ablation_lowers_object": [_most(zoo, "object.disentanglement", 1)],
        "ablation_raises_ari": [_most(zoo, "ari", -1)],
        "object_against_ari": per_data(zoo.table, lambda t: spearman(t[OBJECT_D], t[ARI]), by=by_member, below=0.5),
        "dec_above_att": [
            Part(f"{data}: {title}", by_seed(rows, order), above=0)
            for data, rows in readings.each_data(trained)
            for title, order in orders.items()
        ],
        "low_at_start": [
            Part(f"{model}: {name}, end minus beginning", of_values(at_end(model)[COLUMNS[name]] - values), above=0)
            for model, columns in at_start.items()
            for name, values in columns.items()
        ],
        "genesis_best": [
            Part(f"{data}: GENESIS minus the best other", by_seed(rows, _lead), above=0)
            for data, rows in readings.each_data(trained)
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
    parts_by_claim: dict[str, list[Part]] = {"em_needed": [], "em_needed_alone": [], "color_first": []}
    for model in zoo.models(SPRITES):
        rows = zoo.of(data=SPRITES, model=model, regularized=True)
        with_both, neither = rows[OBJECT_D], np.array(without_groups[model]["structured_given"]["disentanglement"])
        gain = of_values(with_both - neither)
        parts_by_claim["em_needed"].append(Part(f"{model}: with both minus without", gain, above=0.2))
        alone = of_values(with_both - rows["structured_given.object.disentanglement"])
        bounds = {"above": -0.1, "below": 0.1} if model == "genesis" else {"above": 0.2}
        parts_by_claim["em_needed_alone"].append(Part(f"{model}: with EM minus without", alone, **bounds))
        errors = zoo.by_property("informativeness.per_factor", SPRITES, model)
        complete = zoo.by_property("completeness.per_factor", SPRITES, model)
        error, lead = exact(_colors(errors, max)), exact(_colors(complete, min))
        parts_by_claim["color_first"] += [
            Part(f"{model}: largest error of colors minus smallest of others", error, below=0),
            Part(f"{model}: least completeness of colors minus largest of others", lead, above=0),
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
    return Part("share of models and data sets", share(wins), above=0.5)


def _lead(table: Table) -> float:
    means = {str(model): mean(table[OBJECT_D][table["model"] == model]) for model in np.unique(table["model"])}
    return readings.lead_of("genesis", means) if "genesis" in means and len(means) > 1 else float("nan")


def _apart(zoo: SlotZoo, level: str) -> float:
    """Largest difference between D and C in the printed rows, which are means over seeds."""
    columns, gaps = [COLUMNS[f"{level}.{of}"] for of in ("disentanglement", "completeness")], []
    for (data, model), regularized in itertools.product(zoo.each(), (True, False)):
        rows = zoo.of(data=data, model=model, regularized=regularized)
        gaps.append(abs(mean(rows[columns[0]]) - mean(rows[columns[1]])))
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
    orders = {
        (0, "exactly_matching"): _spread(sprites["structured_slots.order_agreement"], 100.0),
        (0, "average_mismatch"): _spread(sprites["structured_slots.order_mismatch"]),
    }
    joints = np.array(zoo.parts("kind.joint", data=SPRITES, model="genesis", regularized=True))
    places = itertools.product(range(2), enumerate(("intrinsic", "extrinsic"))) if len(joints) else ()
    kinds = {(row, column): _spread(joints[:, row, place]) for row, (place, column) in places}
    by_property = {SPRITES: "table_5", "clevr6": "table_6"}
    best_start = printed["table_3"]._replace(id="table_3_best_start", label="Table 3 from the best start")
    remark = "By Algorithm 1 as printed, from the order of the model. ARI and mSC on the pixels of objects."
    return [
        Beside(printed["table_1"], orders, "Mean and standard error over all members."),
        Beside(printed["table_2"], kinds, "Mean and standard error over regularized members of GENESIS."),
        _table_3(zoo, printed["table_3"], _as_printed, remark),
        _table_3(zoo, best_start, str, "By Algorithm 1 from the best of several orders."),
        _table_4(zoo, printed["table_4"], without_groups),
        *(_by_property(zoo, printed[name], data) for data, name in by_property.items() if data in zoo.data),
    ]


def _spread(values: np.ndarray | Sequence[float], unit: float = 1.0) -> Measured:
    """Mean and standard error."""
    defined = finite(unit * np.asarray(values, float))
    error = defined.std(ddof=1) / np.sqrt(len(defined)) if len(defined) > 1 else float("nan")
    return Measured(mean(defined), float(error))


def _table_3(zoo: SlotZoo, printed: Printed, column_of: Callable[[str], str], remark: str) -> Beside:
    def measure(row: Row, column: str) -> Measured | None:
        key = row.key
        rows = zoo.of(data=key["dataset"], model=key["model"], regularized=key["regularized"])
        return _spread(rows[column_of(COLUMNS[column])], 100.0) if len(rows["model"]) else None

    return Beside.of(printed, measure, remark)


def _table_4(zoo: SlotZoo, printed: Printed, without_groups: Mapping) -> Beside:
    def measure(row: Row, column: str) -> Measured:
        model, left_out = row.key["model"], set(row.key["without_algorithms"])
        metric = "structured_given" if 1 in left_out else "structured_slots"
        if 2 in left_out:
            return _spread(without_groups.get(model, {}).get(metric, {}).get(column.removeprefix("object."), []), 100.0)
        return _spread(zoo.of(data=SPRITES, model=model, regularized=True)[f"{metric}.{column}"], 100.0)

    return Beside.of(printed, measure)


def _by_property(zoo: SlotZoo, printed: Printed, data: str) -> Beside:
    kinds = ("completeness", "informativeness")
    values = {f"{kind}.{m}": zoo.by_property(f"{kind}.per_factor", data, m) for kind in kinds for m in zoo.models(data)}

    def measure(row: Row, column: str) -> Measured | None:
        value = values.get(column, {}).get(COLORS.get(row.key["property"], row.key["property"]))
        return None if value is None else Measured(100 * value)

    return Beside.of(printed, measure, "Means over objects, groups and seeds.")
