"""One member of a report in detail: what its codes encode and how they change an image, or what its slots hold."""

import html
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import models, plots
from jaxdis.data import DATASETS
from jaxdis.data._contact_sheet import traversals as factor_traversals
from jaxdis.evaluation._relate import relate
from jaxdis.models._encoding import decodes
from jaxdis.models._images import Images
from jaxdis.models._traversal import reconstructions, traversals
from jaxdis.models.methods.slots._base import SlotMethod
from jaxdis.scores import independent_groups
from jaxdis.study._compute_cells import member_zoo, samples_of, scenes_of
from jaxdis.study._definition import Member, Study
from jaxdis.study._store import Store
from jaxdis.study.report._html import folded, image, side_by_side

# Values of a traversal.
STEPS = 9
# Scenes shown: the first ones, which belong to one local group.
SHOWN = 8
# A color for each slot; slots beyond these repeat them.
COLORS = np.array(
    [
        (0.12, 0.47, 0.71),
        (1.00, 0.50, 0.05),
        (0.17, 0.63, 0.17),
        (0.84, 0.15, 0.16),
        (0.58, 0.40, 0.74),
        (0.55, 0.34, 0.29),
        (0.89, 0.47, 0.76),
        (0.50, 0.50, 0.50),
    ],
    np.float32,
)


_draw = jax.jit(lambda images, rows, key: images(rows, key))


class _Closer:
    """A member's zoo, samples and codes, and the pictures made of them."""

    def __init__(self, study: Study, store: Store, member: Member):
        training = study.trainings[member.training]
        self.member, self.data = member, training.config.data
        self.zoo = member_zoo(study, store, member)
        self.factors, _, _, self.render = samples_of(training, study.sampling)
        self.arrays = store.arrays("encode", member.encode)
        self.relation = relate(self.arrays["mean"], self.factors, "mutual_information")
        self.shares = np.asarray(self.relation.strength) / np.asarray(self.relation.ceiling)

    def at_a_glance(self) -> str:
        """How each code changes an image, next to what it encodes."""
        encodes = (
            "<p>The larger a square, the more a code (row) tells about a factor (column): mutual information as a share"
            " of the factor's entropy.</p>" + image(plots.hinton(self.shares, self.factors.names), "Hinton diagram")
        )
        walked = self._traversals()
        if not walked:
            return encodes
        return side_by_side(f"<div>{walked}</div>", f"<div>{encodes}</div>")

    def at_length(self) -> str:
        """The numbers behind the diagram, independent groups, reconstructions and the data."""
        groups = jax.jit(independent_groups)(self.relation)
        codes = [f"code {i}" for i in range(len(self.shares))]
        parts = [
            "<h3>Mutual information as a share of entropy</h3>",
            image(plots.heat_map(self.shares, codes, self.factors.names, most=1.0), "shares"),
            "<h3>Independent groups</h3>",
            image(plots.groups_curve(*map(np.asarray, (groups.threshold, groups.groups, groups.discovered))), "groups"),
            "<p>Two factors are joined at the threshold at which one code encodes both.</p>",
            image(
                plots.dendrogram(*map(np.asarray, (groups.merge_pair, groups.merge_threshold)), self.factors.names),
                "joins",
            ),
        ]
        if decodes(self.zoo.config.method):
            pairs = reconstructions(self.zoo, self._images(10))[0].transpose(1, 0, 2, 3, 4)
            sheet = image(plots.image_grid(pairs, ("image", "made")), "reconstructions")
            parts.append(f"<h3>Images and what the member makes of them</h3>{sheet}")
        if DATASETS[self.data].scenes is None:
            parts.append(f"<h3>The data: each factor traversed</h3>{self._sheet()}")
        return folded("More about this member", "".join(parts))

    def _traversals(self) -> str:
        if not decodes(self.zoo.config.method):
            return ""
        has_prior = self.zoo.config.method.has_prior
        shown = self._images(1 if has_prior else 10)
        walked = traversals(self.zoo, shown, num_values=STEPS, relative=not has_prior)[0, 0]
        unit = "" if has_prior else " standard deviations"
        labels = [f"code {i}" for i in range(len(walked))]
        return f"<p>Each row changes one code from −2 to 2{unit} and keeps the others.</p>" + image(
            plots.image_grid(walked, labels), "latent traversals"
        )

    def _images(self, count: int) -> np.ndarray:
        return np.asarray(_draw(Images.of(self.render), self.factors.values[:count], jax.random.key(0)))

    def _sheet(self) -> str:
        space = DATASETS[self.data].space
        rows = jnp.asarray(factor_traversals(space, jax.random.key(0), STEPS))
        sheet = np.asarray(_draw(Images.of(self.render), rows, jax.random.key(0)))
        return image(plots.image_grid(sheet, space.names), "the data")


def closer(study: Study, store: Store, member: Member) -> str:
    """A member's pictures: what is seen at a glance, and more to unfold."""
    if study.has_slots:
        return _scenes(study, store, member)
    view = _Closer(study, store, member)
    return view.at_a_glance() + view.at_length()


def _scenes(study: Study, store: Store, member: Member) -> str:
    """Scenes, what slots show of them before and after probing, and which objects the slots hold."""
    arrays = store.arrays("encode", member.encode)
    training = study.trainings[member.training]
    drawn, render = scenes_of(training, study.sampling)
    scenes = np.asarray(Images.of(render)(drawn.factors.values[:SHOWN], jax.random.key(study.sampling.seed)))
    rows = {"scene": scenes}
    slots: dict[str, np.ndarray] = {}
    if isinstance(training.config.method, SlotMethod):
        parts = models.slot_parts(member_zoo(study, store, member), scenes)
        masks = parts.masks[0][..., None]
        rows["reconstruction"] = parts.reconstruction[0]
        slots = {
            f"slot {s + 1}": pictures
            for s, pictures in enumerate(np.moveaxis(masks * parts.pictures[0] + 1 - masks, 1, 0))
        }
    rows["segments"] = COLORS[arrays["segments"][:SHOWN] % len(COLORS)]
    fragments = [
        f"<p>{html.escape(member.label['model'])}, seed {member.label['seed']}.</p>",
        "<h3>What each slot shows</h3><p>Scenes of one local group; segments have a color for the slot with the largest"
        " mask. Slots are pictures inside their masks, in the order of the model, which may differ from scene to scene."
        "</p>",
        image(_sheet({**rows, **slots}), "scenes, segments and slots"),
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
        if slots and (orders := parts_of.get(f"{name}.orders")) is not None:
            ordered = _ordered(slots, np.array(orders, int)[:SHOWN])
            fragments += [
                f"<h3>Slots in the order of {html.escape(name.replace('_', ' '))}</h3><p>The same scenes: each row"
                " should hold the same object.</p>",
                image(_sheet({"scene": scenes, **ordered}), "slots after probing"),
            ]
    return "".join(fragments)


def _ordered(slots: Mapping[str, np.ndarray], orders: np.ndarray) -> dict[str, np.ndarray]:
    """Position ``p`` shows the slot ``orders[:, p]`` of each scene."""
    stacked = np.stack(list(slots.values()), axis=1)
    taken = np.take_along_axis(stacked, orders[:, :, None, None, None], axis=1)
    return {f"position {p + 1}": picture for p, picture in enumerate(np.moveaxis(taken, 1, 0))}


def _sheet(rows: Mapping[str, np.ndarray]):
    """Rows of images, of one or of three channels (others as their mean), as one picture."""
    colored = [
        np.broadcast_to(
            picture if picture.shape[-1] == 3 else picture.mean(-1, keepdims=True), (*picture.shape[:-1], 3)
        )
        for picture in rows.values()
    ]
    return plots.image_grid(np.stack(colored).astype(np.float32), list(rows))
