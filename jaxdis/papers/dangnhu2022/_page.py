"""The page of Dang-Nhu 2022: claims about probing and about autoencoders of objects, and what is exact."""

import math
from collections.abc import Mapping

import numpy as np

from jaxdis import plots
from jaxdis.papers.dangnhu2022._figures import figures
from jaxdis.papers.dangnhu2022._slot_zoo import SlotZoo, parts_of_claims
from jaxdis.papers.dangnhu2022._slot_zoo import tables as tables_of_zoo
from jaxdis.papers.harness._beside import Beside, Measured
from jaxdis.papers.harness._differences import Fact
from jaxdis.papers.harness._paper import Reproduction
from jaxdis.papers.harness._paper_page import Content, Figure
from jaxdis.papers.harness._printed import printed_in
from jaxdis.papers.harness._verdict import Finding, Part, exact, of_values

# Iterations of EM after which it should have converged.
EARLY = 20
COLORS = ("red", "green", "blue")


def content(made: Reproduction) -> Content:
    probing, oracle = made.pieces["probing"], made.pieces["oracle"]
    small = (
        "five slots of 16 codes, planted in a known order or shuffled; and"
        f" {len(oracle['regularized'])} autoencoders of objects cut out by their true masks."
    )
    exact = [("Theorem and chance", _exact())]
    checked_claims = claims(probing, oracle)
    if not made.studies:
        tables = [_table_1(probing), _table_2(oracle)]
        size = f"No slot model is trained: {small}"
        return Content(size, [*_OF_SMALL, *FACTS], checked_claims, tables, _figures(probing), exact)
    zoo = SlotZoo({name: made.finished(name) for name in made.studies})
    without_groups = made.pieces["independent"]
    size = f"{len(zoo.rows)} models of slots; {small}"
    printed = printed_in(__package__).claims
    trained = parts_of_claims(zoo, without_groups, made.pieces["beginning"])
    study = next(iter(made.studies))
    both = {checked.claim.id: checked for checked in checked_claims} | {
        name: Finding(printed[name], tuple(parts), study=study) for name, parts in trained.items() if parts
    }
    drawn = [*_figures(probing), *figures(zoo)]
    return Content(size, FACTS, list(both.values()), tables_of_zoo(zoo, without_groups), drawn, exact)


_OF_SMALL = (
    "MONet, GENESIS and IODINE are not trained here: their rows of Tables 3 to 6 are not measured. Planted slots"
    " and autoencoders of true segments stand in for what probing and the KL terms do.",
    "Multi-dSprites with four objects; images of 32 × 32 pixels; CLEVR6 is left out.",
    "Two groups of 1,000 scenes in place of ten of 5,000; forests of depth 8 in place of 15.",
)
FACTS = (
    Fact(
        "Algorithm 1",
        "EM from the model's order, 100 iterations (20 on CLEVR6)",
        "that in Table 3; from the best of several orders in all other tables and claims",
    ),
    Fact(
        "App. C.4",
        "the background slot is left out on both data sets",
        "on Multi-dSprites alone, so that CLEVR6 has seven slots",
        "a printed C of .48 would become .52",
    ),
    Fact("App. C.4", "4,000 scenes to fit, 500 to validate, 500 to test", "4,000 to fit, 1,000 to test; none validate"),
    Fact("Metric", "‖f(z) − v‖ / ‖v‖", "of centered properties, so that 1 is the error of the mean"),
    Fact("App. C.2", "IODINE with the parameters of its authors, who clip gradients", "no clipping, as in the code"),
    Fact("App. C.2", "MONet as its authors trained it, by RMSProp", "Adam, as in the code"),
    Fact("Figures 5, 7–9", "scenes by slot, before and after probing", "in the reports of studies, not on the page"),
)


# Claims about models of slots, which stand-ins do not refute.
_OF_MODELS = ("ablation_lowers_property", "object_d_is_c", "color_first", "mask_is_extrinsic", "em_finds_iou_order")
_STANDINS = ("models: stand-ins for trained models of slots",)


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
            Part(
                "property level minus object level",
                of_values(differences["property"][regular] - differences["object"][regular]),
                above=0,
            ),
        ],
        "color_first": [
            Part(
                "largest error of colors minus smallest of others",
                of_values((errors[:, color].max(axis=1) - errors[:, other].min(axis=1))[regular]),
                below=0,
            )
        ],
        "mask_is_extrinsic": [
            Part(
                "component codes, extrinsic",
                of_values([row["component/extrinsic"] for row in oracle["joint"]]),
                below=0.05,
            ),
            Part("mask codes, intrinsic", of_values([row["mask/intrinsic"] for row in oracle["joint"]]), above=0.1),
        ],
    }
    printed = printed_in(__package__).claims
    remarks = {
        "em_needed_alone": "On planted slots.",
        "em_finds_iou_order": "Against the planted order; chance is 1/120 and 4.",
        "ablation_lowers_property": "Autoencoders of objects cut out by true masks.",
        "mask_is_extrinsic": "An autoencoder of masks and one of masked objects. The latter has to draw objects in"
        " their places, which it therefore encodes; in GENESIS the mask does that.",
        "color_first": "Autoencoders of objects cut out by true masks, which encode places first: these change most"
        " pixels.",
    }
    return [
        Finding(printed[name], tuple(statistics), remarks.get(name, ""), unmet=_STANDINS if name in _OF_MODELS else ())
        for name, statistics in parts.items()
    ]


def _table_1(probing: Mapping) -> Beside:
    printed = printed_in(__package__).tables["table_1"]
    rows = {
        "measured": (100 * probing["exact"][1], probing["mismatch"][1]),
        "best_possible": (100.0, 0.0),
        "worst_possible": (0.0, 5.0),
        "chance_level": (100 / math.factorial(5), 4.0),
    }
    measured = {
        (place, column): Measured(float(value))
        for place, row in enumerate(printed.rows)
        for column, value in zip(("exactly_matching", "average_mismatch"), rows[row.key["permutation"]], strict=True)
    }
    return Beside(printed, measured, "Measured on planted slots, whose order is known; the other rows are exact.")


def _table_2(oracle: Mapping) -> Beside:
    printed = printed_in(__package__).tables["table_2"]
    measured = {}
    for place, row in enumerate(printed.rows):
        kind = row.key["latent"].removesuffix("_latent")
        for column in row.values:
            values = np.array([joint[f"{kind}/{column}"] for joint in oracle["joint"]])
            measured[place, column] = Measured(
                float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan
            )
    return Beside(printed, measured, "Of two autoencoders on true masks; the print is of GENESIS.")


def _figures(probing: Mapping) -> list[Figure]:
    trace = np.array(probing["trace"])
    iterations = np.arange(len(trace)).astype(float).tolist()
    drawn = plots.curves(iterations, {"error": trace[:, None]}, "iteration of EM", "error of the regressions")
    return [Figure("Figure 6", "Error of permutation-invariant probing by iteration, mean over groups", drawn)]


def _exact() -> str:
    six, five, chance = 1 - math.log(2, 6), 1 - math.log(2, 5), 100 / math.factorial(5)
    return (
        f"<p>A factor spread over two of six slots has completeness 1 − log₆ 2 = {six:.3f}; the text has .57, which is"
        f" 1 − log₅ 2 = {five:.3f}, for five slots. Table 1's chance level is 1/5! = {chance:.2f} %, and four of"
        " five slots out of place.</p>"
    )
