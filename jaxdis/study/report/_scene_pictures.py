"""One member whose representation consists of slots, in detail."""

import html
from collections.abc import Mapping

import jax
import numpy as np

from jaxdis import models, plots
from jaxdis.models._images import Images
from jaxdis.models.methods.slots._base import SlotMethod
from jaxdis.study._cells import Member
from jaxdis.study._definition import Study
from jaxdis.study._make import member_zoo, scenes_of
from jaxdis.study._store import Store
from jaxdis.study.report._html import image

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


def closer(study: Study, store: Store, member: Member) -> str:
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
