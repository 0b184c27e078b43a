"""The codes in ``trained_codes.npz``: ``python -m benchmarks.trained_codes FOLDER`` trains the models and writes them.

Two perceptrons, a β-TCVAE and a β-VAE, on all of dSprites at 32 × 32 pixels, with the standard workload's size: 10,000
and 5,000 samples, 10 codes, factors of 3, 6, 40, 32 and 32 classes. Training takes about 20 minutes on one core; the
same command resumes it. Probes stop early on codes that are drawn; on these they take the time that users wait.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdis
from jaxdis._core.files import write_arrays
from jaxdis.models import Config, Mlp, Vae, members

FILE = Path(__file__).with_name("trained_codes.npz")
SIZES = (3, 6, 40, 32, 32)
NUM_SAMPLES, NUM_CODES = 15_000, 10
# A picture has a quarter of dSprites' pixels, so that strengths are about a quarter of those in the papers.
SWEEP = {"beta_tc": {"beta": [8.0], "learning_rate": 1e-3}, "beta": {"beta": [1.0], "learning_rate": 1e-3}}
UPDATES = 50_000


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """All images, uint8 ``[737280, 32, 32, 1]``, and their classes ``[737280, 5]``."""
    classes = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), axis=1).astype(np.int32)
    _, render = jaxdis.data.dsprites()

    @jax.jit
    def halved(rows):
        return jnp.round(255 * render(rows).reshape(-1, 32, 2, 32, 2, 1).mean((2, 4))).astype(jnp.uint8)

    return np.concatenate([np.asarray(halved(part)) for part in np.split(classes, 180)]), classes


def main(folder: Path, updates: int = UPDATES) -> None:
    images, classes = pictures()
    network = Mlp(hidden=(256, 256), num_codes=NUM_CODES)
    method = Vae(objective=tuple(SWEEP), network=network, batch_size=64)
    zoo = jaxdis.models.train(
        Config(data="dsprites, 32 x 32", method=method, steps=updates), *members(SWEEP, 1, Vae), data=images,
        directory=folder, log_every=1000, checkpoint_every=5000, devices=jax.devices()[:1], progress=True,
    )  # fmt: skip
    rows = np.random.default_rng(0).choice(len(images), NUM_SAMPLES, replace=False)
    header = {"members": zoo.labels, "loss": zoo.losses.loss[:, -1].round(2).tolist(), "updates": updates}
    # Three of four bytes, which keep the file below a megabyte; of half precision, codes would be tied.
    codes = np.ascontiguousarray(zoo.encode(images[rows]).mean, "<f4")[..., None].view(np.uint8)[..., 1:]
    arrays = {"codes": np.ascontiguousarray(codes), "factors": classes[rows].astype(np.uint8)}
    write_arrays(FILE, header, arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
