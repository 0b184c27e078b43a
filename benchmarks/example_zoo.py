"""The models of ``jaxdis.data.example()``: ``python -m benchmarks.example_zoo FOLDER`` trains them and writes the file.

Perceptrons on dSprites of 32 × 32 pixels, under three objectives, five strengths and two seeds. Images are of a quarter
turn, within which no shape repeats. Training takes about an hour on one core; the same command resumes it.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdis
from jaxdis._core.files import write_arrays
from jaxdis.data._datasets import FILE

# A picture has a quarter of dSprites' pixels, so that strengths are about a quarter of those in the papers.
SWEEP = {
    "beta": {"beta": [0.02, 0.25, 1.0, 2.0, 4.0], "learning_rate": 1e-3},
    "beta_tc": {"beta": [2.0, 4.0, 8.0, 16.0, 32.0], "learning_rate": 1e-3},
    "dip_ii": {"lambda_off_diagonal": [0.3, 1.0, 1.7, 3.0, 10.0], "learning_rate": 1e-3},
}
SEEDS, UPDATES = 2, 100_000
BATCH_SIZE, HIDDEN, NUM_CODES = 32, (64, 64), 8
NUM_SAMPLES = 2000
SHAPES, SCALES, TURNS, PLACES = 3, 6, 10, range(8, 24)


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """All images, uint8 ``[46080, 32, 32, 1]``, and their classes ``[46080, 5]``."""
    axes = np.meshgrid(*map(np.arange, (SHAPES, SCALES, TURNS)), PLACES, PLACES, indexing="ij")
    classes = np.stack([axis.ravel() for axis in axes], axis=1).astype(np.int32)
    _, render = jaxdis.data.dsprites()

    @jax.jit
    def halved(rows):
        return jnp.round(255 * render(rows).reshape(-1, 32, 2, 32, 2, 1).mean((2, 4))).astype(jnp.uint8)

    images = [np.asarray(halved(part)) for part in np.split(classes, len(classes) // 2560)]
    return np.concatenate(images), classes - np.array([0, 0, 0, PLACES[0], PLACES[0]], np.int32)


def trained(folder: Path, images: np.ndarray, updates: int = UPDATES, sweep=SWEEP, seeds=SEEDS) -> jaxdis.models.Zoo:
    """The zoo, resumed from the checkpoints of the folder."""
    network = jaxdis.models.Mlp(hidden=HIDDEN, num_codes=NUM_CODES)
    method = jaxdis.models.Vae(objective=tuple(sweep), network=network, batch_size=BATCH_SIZE)
    config = jaxdis.models.Config(data="dsprites, 32 x 32", method=method, steps=updates)
    members = jaxdis.models.members(sweep, seeds, jaxdis.models.Vae)
    return jaxdis.models.train(
        config, *members, data=images, directory=folder, log_every=1000, checkpoint_every=5000,
        devices=jax.devices()[:1], progress=True,
    )  # fmt: skip


def write(path: Path, zoo: jaxdis.models.Zoo, images: np.ndarray, classes: np.ndarray) -> None:
    """The file of the codes, factors and members."""
    rows = np.sort(np.random.default_rng(0).choice(len(images), NUM_SAMPLES, replace=False))
    means = zoo.encode(images[rows]).mean
    losses = zoo.losses.loss[:, -1].tolist()
    members = [
        (label["model"], label.get("beta", label.get("lambda_off_diagonal")), label["seed"], round(loss, 2))
        for label, loss in zip(zoo.labels, losses, strict=True)
    ]
    header = {"factors": ["shape", "scale", "orientation", "x", "y"], "shapes": ["square", "ellipse", "heart"]}
    header |= {"columns": ["objective", "strength", "seed", "loss"], "members": members}
    arrays = {"codes": np.asarray(means, np.float16), "factors": classes[rows].astype(np.uint8)}
    write_arrays(path, header, arrays)


if __name__ == "__main__":
    images, classes = pictures()
    write(FILE, trained(Path(sys.argv[1]), images), images, classes)
