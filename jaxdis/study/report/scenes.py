"""One member whose representation is by slots, seen closely."""

import html

import jax
import numpy as np

from jaxdis import plots
from jaxdis.models.images import Images
from jaxdis.study.definition import Member, Study
from jaxdis.study.make import scenes_of
from jaxdis.study.report.page import image
from jaxdis.study.store import Store

# Scenes shown.
_SHOWN = 10


def closer(study: Study, store: Store, member: Member) -> str:
    """Scenes, the slot of each pixel, and which objects the slots hold."""
    arrays = store.arrays("encode", member.encode)
    drawn, render = scenes_of(study.trainings[member.training], study.sampling)
    n = drawn.factors.num_samples
    places = np.arange(0, n, max(1, n // _SHOWN))[:_SHOWN]
    scenes = np.asarray(Images.of(render)(drawn.factors.values[places], jax.random.key(0)))
    slots = arrays["codes"].shape[1]
    levels = arrays["segments"][places][..., None] / np.float32(max(1, slots - 1))
    pairs = np.stack([np.broadcast_to(scenes.mean(-1, keepdims=True), levels.shape), levels])
    parts = [
        f"<p>{html.escape(member.label['model'])}, seed {member.label['seed']}.</p>",
        "<h3>The slot of each pixel</h3><p>Scenes, and the slot with the largest mask as a shade of gray. The order of "
        "slots may differ from scene to scene.</p>",
        image(plots.image_grid(pairs.astype(np.float32), ("scene", "slot")), "scenes and segments"),
    ]
    for (name, _), score in zip(study.metrics, member.scores, strict=True):
        joint = store.result("score", score)["parts"].get(f"{name}.object.joint")
        if joint is not None:
            matrix = np.array(joint, np.float32)
            objects = list(dict.fromkeys(thing for thing, _ in drawn.scenes.labels(drawn.space).values()))
            parts += [
                "<h3>Which slot holds which object</h3><p>Area: share of the importance for the object, after slots "
                "were put in order.</p>",
                image(plots.hinton(matrix / max(matrix.max(), 1e-12), objects), "objects in slots"),
            ]
    return "".join(parts)
