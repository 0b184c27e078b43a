"""The page of Dang-Nhu 2022: claims about probing and about autoencoders of objects, and what is exact."""

import math
from collections.abc import Mapping

import numpy as np

from jaxdis import plots
from jaxdis.papers.dangnhu2022._slot_zoo import ARI, OBJECT_D, SPRITES, SlotZoo, parts_of_claims
from jaxdis.papers.dangnhu2022._slot_zoo import tables as tables_of_zoo
from jaxdis.papers.harness import Beside, Content, Figure, Finding, Measured, Part, Reproduction, exact, printed_in
from jaxdis.papers.harness._page import differences_in
from jaxdis.papers.harness._printed import words_in
from jaxdis.papers.harness._verdict import findings, of_values

# Iterations of EM after which it should have converged.
EARLY = 20
COLORS = ("red", "green", "blue")


def content(made: Reproduction) -> Content:
    probing, oracle = made.pieces["probing"], made.pieces["oracle"]
    autoencoders = f"{len(oracle['regularized'])} autoencoders of objects cut out by their true masks"
    small = f"five slots of 16 codes, planted in a known order or shuffled; and {autoencoders}."
    exact = [("Theorem and chance", f"<p>{words_in(__package__)['exact']}</p>")]
    differences = differences_in(__package__)
    checked_claims = claims(probing, oracle)
    if not made.studies:
        differs = [*differences_in(__package__, "differences_small"), *differences]
        tables, figures = _tables(probing, oracle), _figures(probing)
        return Content(f"No slot model is trained: {small}", differs, checked_claims, tables, figures, exact)
    zoo = SlotZoo({name: made.finished(name) for name in made.studies})
    without_groups = made.pieces["independent"]
    size = f"{len(zoo.table['seed'])} models of slots; {small}"
    parts = parts_of_claims(zoo, without_groups, made.pieces["beginning"])
    trained = findings(__package__, parts, next(iter(made.studies)))
    both = {checked.claim.id: checked for checked in (*checked_claims, *trained)}
    drawn = [*_figures(probing), *_against_segmentation(zoo), *_projections(zoo)]
    return Content(size, differences, list(both.values()), tables_of_zoo(zoo, without_groups), drawn, exact)


# Claims about models of slots, which stand-ins do not refute.
_OF_MODELS = ("ablation_lowers_property", "object_d_is_c", "color_first", "mask_is_extrinsic", "em_finds_iou_order")


def claims(probing: Mapping, oracle: Mapping) -> list[Finding]:
    """Every claim that needs no slot model."""
    with_em, without = (np.array(probing[name]["object.disentanglement"]) for name in ("with_em", "without_em"))
    trace = np.array(probing["trace"])
    early = (trace[0] - trace[min(EARLY, len(trace) - 1)]) / (trace[0] - trace[-1])
    regular = np.array(oracle["regularized"])
    scores = {name: np.array(values) for name, values in oracle["scores"].items()}
    errors = np.array(oracle["errors"])
    properties = oracle["properties"]
    color = [properties.index(name) for name in COLORS]
    other = [place for place, name in enumerate(properties) if name not in COLORS]
    differences = {
        level: np.abs(scores[f"{level}.disentanglement"] - scores[f"{level}.completeness"])
        for level in ("object", "property")
    }
    apart = differences["property"][regular] - differences["object"][regular]
    colors = errors[:, color].max(axis=1) - errors[:, other].min(axis=1)

    def joint(kinds: str) -> list[float]:
        return [row[kinds] for row in oracle["joint"]]

    fall = scores["property.disentanglement"][regular] - scores["property.disentanglement"][~regular]
    parts = {
        "em_needed_alone": [
            Part("shuffled slots: with EM minus without", exact(with_em[1] - without[1]), above=0.2),
            Part("slots in order: with EM minus without", exact(with_em[0] - without[0]), above=-0.05, below=0.05),
        ],
        "em_finds_iou_order": [
            Part("share of scenes ordered as planted", exact(probing["exact"][1]), above=0.5),
            Part("slots out of place", exact(probing["mismatch"][1]), below=2),
        ],
        "em_converges": [Part(f"share of the fall after {EARLY} iterations", exact(early), above=0.9)],
        "theorem_2": [Part("least of score minus bound", exact(min(probing["bounds"])), above=-1e-6)],
        "ablation_lowers_property": [Part("with KL minus without, by seed", of_values(fall), above=0)],
        "object_d_is_c": [
            Part("object level, |D − C|", of_values(differences["object"][regular]), below=0.05),
            Part("property level minus object level", of_values(apart), above=0),
        ],
        "color_first": [Part("largest error of colors minus smallest of others", of_values(colors[regular]), below=0)],
        "mask_is_extrinsic": [
            Part("component codes, extrinsic", of_values(joint("component/extrinsic")), below=0.05),
            Part("mask codes, intrinsic", of_values(joint("mask/intrinsic")), above=0.1),
        ],
    }
    checked = findings(__package__, parts, small=True)
    standins = ("models: stand-ins for trained models of slots",)
    return [one._replace(unmet=standins) if one.claim.id in _OF_MODELS else one for one in checked]


def _tables(probing: Mapping, oracle: Mapping) -> list[Beside]:
    """Tables 1 and 2."""
    printed = printed_in(__package__).tables
    rows = {
        "measured": (100 * probing["exact"][1], probing["mismatch"][1]),
        "best_possible": (100.0, 0.0),
        "worst_possible": (0.0, 5.0),
        "chance_level": (100 / math.factorial(5), 4.0),
    }
    columns = ("exactly_matching", "average_mismatch")

    def permuted(row, column: str) -> Measured:
        return Measured(float(rows[row.key["permutation"]][columns.index(column)]))

    def by_kind(row, column: str) -> Measured:
        kind = row.key["latent"].removesuffix("_latent")
        return Measured.over([joint[f"{kind}/{column}"] for joint in oracle["joint"]])

    planted = "Measured on planted slots, whose order is known; the other rows are exact."
    masked = "Of two autoencoders on true masks; the print is of GENESIS."
    return [Beside.of(printed["table_1"], permuted, planted), Beside.of(printed["table_2"], by_kind, masked)]


def _figures(probing: Mapping) -> list[Figure]:
    trace = np.array(probing["trace"])
    iterations = np.arange(len(trace)).astype(float).tolist()
    drawn = plots.curves(iterations, {"error": trace[:, None]}, "iteration of EM", "error of the regressions")
    return [Figure("Figure 6", "Error of permutation-invariant probing by iteration, mean over groups", drawn)]


def _against_segmentation(zoo: SlotZoo) -> list[Figure]:
    """What the regularization changes, and disentanglement against segmentation."""
    if SPRITES not in zoo.data:
        return []
    groups = {}
    for model in zoo.models(SPRITES):
        for regularized, ending in ((True, ""), (False, ", ablated")):
            rows = zoo.of(data=SPRITES, model=model, regularized=regularized)
            if len(rows["seed"]):
                groups[model + ending] = rows
    drawn, most = [], max(len(rows["seed"]) for rows in groups.values())
    for panel, name, words in (("a", OBJECT_D, "Disentanglement of objects"), ("b", ARI, "ARI of foreground pixels")):
        # A point per seed; groups may have lost members.
        points = {group: np.full(most, np.nan) for group in groups}
        for group, rows in groups.items():
            points[group][: len(rows[name])] = rows[name]
        caption = f"{words}, with and without regularization"
        drawn.append(Figure(f"Figure 3 {panel}", caption, plots.score_points(points)))
    trained = zoo.of(data=SPRITES, regularized=True)
    table = {"model": trained["model"], "disentanglement of objects": trained[OBJECT_D], "ARI": trained[ARI]}
    both = plots.scatter_matrix(table, ["disentanglement of objects"], ["ARI"])
    words = f"Disentanglement of objects against ARI; colors in the order {', '.join(zoo.models(SPRITES))}"
    return [*drawn, Figure("Figure 3 c", words, both)]


def _projections(zoo: SlotZoo) -> list[Figure]:
    """Mean projected importances of the regularized members of each model."""
    levels = {"object": "slots and objects", "property": "codes of a slot and properties"}
    drawn = []
    for data, number in {SPRITES: "Figures 4 and 10", "clevr6": "Figure 11"}.items():
        for place, (level, words) in enumerate(levels.items()) if data in zoo.data else ():
            names = list(dict.fromkeys(pair[place] for pair in zoo.labels(data)))
            for model in zoo.models(data):
                if members := zoo.parts(f"{level}.joint", data=data, model=model, regularized=True):
                    picture = plots.hinton(np.mean(members, axis=0), names)
                    drawn.append(Figure(number, f"{model}: importances of {words}, mean over seeds", picture))
    return drawn
