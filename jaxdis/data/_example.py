"""The example zoo: trained models' codes, in a file that comes with the package."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from jaxdis._core.files import read_arrays
from jaxdis.factors import Factors

FILE = Path(__file__).with_name("example.npz")


def example() -> tuple[Float[np.ndarray, "m n d"], Factors, tuple[dict, ...]]:
    """Load codes from 30 trained autoencoders, to try the library before training anything.

    >>> codes, factors, table = jaxdis.data.example()
    >>> codes.shape, factors.names
    ((30, 2000, 8), ('shape', 'scale', 'orientation', 'x', 'y'))
    >>> scores = jaxdis.evaluate(codes, factors, metrics="mig", members=table)
    >>> figure = scores.plot(by="objective")

    The models are perceptrons on dSprites at 32 × 32 pixels: β-VAE, β-TCVAE and DIP-VAE-II at five strengths with two
    seeds each, after 100,000 updates. Their MIG goes from .02 to .39. Orientations span a quarter turn, within which no
    shape repeats. ``benchmarks/example_zoo.py`` in the repository trains the models again.

    Returns:
      ``codes``: float32 ``[m, n, d]``, posterior means, stored as float16. ``factors``: the :class:`jaxdis.Factors` of
      the ``n`` images. ``table``: for each member, a dict of its objective, strength, seed, and final loss in nats.
    """
    header, arrays = read_arrays(FILE)
    columns = dict(zip(header["factors"], arrays["factors"].T, strict=True))
    columns["shape"] = np.array(header["shapes"])[columns["shape"]]
    factors = Factors.from_table(columns, kinds=dict.fromkeys(columns, "classes"))
    table = tuple(dict(zip(header["columns"], member, strict=True)) for member in header["members"])
    return arrays["codes"].astype(np.float32), factors, table
