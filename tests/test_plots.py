"""Pictures, where a wrong one would still look like a picture."""

import numpy as np

from jaxdis import plots


def test_images_of_bytes_are_those_of_floats():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4, 3), dtype=np.uint8)
    assert plots.image_grid(images) == plots.image_grid(images / 255) != plots.image_grid(images / 510)


def test_names_are_no_mathematics():
    hostile = r"$\frac{$"
    assert plots.curves([0.0, 1.0], {hostile: np.ones((2, 1))}, hostile, hostile).startswith(b"\x89PNG")
    assert plots.loss_curves({hostile: [np.ones(3)]}, 5, hostile).startswith(b"\x89PNG")
    assert plots.hinton(np.eye(2), (hostile, "a")).startswith(b"\x89PNG")
