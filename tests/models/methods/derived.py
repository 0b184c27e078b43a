"""Helpers to write a method's losses out in NumPy float64, with gradients by central differences."""

import jax
import numpy as np

from jaxdis.models.training._image_source import as_source
from tests.models.reference import gradient


def flat(tree) -> dict[str, np.ndarray]:
    """Leaves of nested dicts as float64, by path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"/".join(str(part.key) for part in path): np.asarray(leaf, np.float64) for path, leaf in leaves}


def nested(leaves: dict[str, np.ndarray]) -> dict:
    tree: dict = {}
    for path, leaf in leaves.items():
        *above, name = path.split("/")
        node = tree
        for part in above:
            node = node.setdefault(part, {})
        node[name] = leaf
    return tree


def double(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def differences(function, tree, step=1e-6):
    """The gradient of a function of nested dicts."""
    return nested(gradient(lambda leaves: function(nested(leaves)), flat(tree), step))


def assert_close(got, wanted, rtol=1e-4):
    """Leaf by leaf, relative to the largest entry of the leaf: the sums are float32 and the differences end at 1e-9."""
    got, wanted = flat(got), flat(wanted)
    assert set(got) == set(wanted)
    for name in got:
        np.testing.assert_allclose(got[name], wanted[name], atol=rtol * np.abs(wanted[name]).max() + 1e-8, err_msg=name)


def adam(moments) -> tuple:
    """First and second moments, and the number of updates."""
    return moments.mu, moments.nu, int(moments.count)


def layer(params, x):
    return x @ params["kernel"] + params["bias"]


def leaky(x, slope):
    return np.where(x > 0, x, slope * x)


def squares(n=12, seed=0):
    """Images ``[n, 4, 4, 1]`` and two factors, of three and two values."""
    rng = np.random.default_rng(seed)
    images = rng.random((n, 4, 4, 1)).astype(np.float32)
    return as_source((images, np.stack([rng.permutation(np.arange(n) % 3), np.arange(n) % 2], axis=1)))


def first_step(params, gradients, rate):
    """Parameters after Adam's first update, whose bias-corrected moments are g and g²."""
    return jax.tree.map(lambda p, g: p - rate * g / (np.abs(g) + 1e-8), params, gradients)
