"""Networks and likelihoods of slots in NumPy float64, slot by slot, and gradients of a method against differences."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit, logsumexp

from jaxdis.models.training._image_source import as_source
from tests.models.methods.derived import flat, layer, nested

SHAPE = (4, 6, 2)


def pictures(n=3, seed=0):
    return np.random.default_rng(seed).random((n, *SHAPE))


def source(n=6):
    return as_source(pictures(n).astype(np.float32))


def correlate(x, w, stride=1, padding=0):
    x = np.pad(x, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))[:, ::stride, ::stride]
    return np.einsum("nhwcij,ijco->nhwo", windows, w)


def spread(x, w):
    """Transposed convolution of stride 2 and kernel size 5, as every pixel's contribution."""
    n, h, width, _ = x.shape
    out = np.zeros((n, 2 * h + 3, 2 * width + 3, w.shape[-1]))
    for r in range(h):
        for c in range(width):
            out[:, 2 * r : 2 * r + 5, 2 * c : 2 * c + 5] += np.einsum("nc,ijco->nijo", x[:, r, c], w)
    return out[:, 2 : 2 + 2 * h, 2 : 2 + 2 * width]


def relu(x):
    return np.maximum(x, 0)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def deviation(x):
    return np.logaddexp(0, x + 0.5) + 1e-8


def lstm(params, x, memory):
    """The cell of PyTorch: (hidden, cell)."""
    hidden, cell = memory
    i, f, g, o = (x @ params[f"i{gate}"]["kernel"] + layer(params[f"h{gate}"], hidden) for gate in "ifgo")
    cell = expit(f) * cell + expit(i) * np.tanh(g)
    return expit(o) * np.tanh(cell), cell


def encoder(params, x, activation):
    for i in range(sum(name.startswith("convolution") for name in params)):
        conv = params[f"convolution_{i}"]
        x = activation(correlate(x, conv["kernel"], 2, 1) + conv["bias"])
    return layer(params["dense_1"], activation(layer(params["dense_0"], x.reshape(len(x), -1))))


def broadcast(params, codes, activation, grown=True):
    """Codes and coordinates at every pixel, then convolutions."""
    convolutions = [params[f"convolution_{i}"] for i in range(len(params) - 1)]
    kernels = [conv["kernel"] for conv in (*convolutions, params["last"])]
    margin = sum(len(kernel) // 2 for kernel in kernels) if grown else 0
    height, width = (side + 2 * margin for side in SHAPE[:2])
    x = np.zeros((len(codes), height, width, codes.shape[1] + 2))
    x[..., :-2] = codes[:, None, None]
    x[..., -2] = np.linspace(-1, 1, height)[:, None]
    x[..., -1] = np.linspace(-1, 1, width)
    for conv in convolutions:
        x = activation(correlate(x, conv["kernel"], 1, 0 if grown else len(conv["kernel"]) // 2) + conv["bias"])
    last = params["last"]
    return correlate(x, last["kernel"], 1, 0 if grown else len(last["kernel"]) // 2) + last["bias"]


def log_normal(x, mean, sigma):
    return -((x - mean) ** 2) / (2 * sigma**2) - np.log(sigma * np.sqrt(2 * np.pi))


def error(images, shown, log_masks, deviations, mixture):
    """Negative log-likelihood of each image; lists over slots."""
    logs = [log_normal(images, picture, sigma) for picture, sigma in zip(shown, deviations, strict=True)]
    if mixture == "pixel":
        logs = [log.sum(-1, keepdims=True) for log in logs]
    terms = [log + mask[..., None] for log, mask in zip(logs, log_masks, strict=True)]
    return -logsumexp(terms, axis=0).sum((1, 2, 3))


def assert_gradients(gradients, loss, params, seed=0, rtol=1e-4, without=()):
    """Each leaf's derivatives in two directions, its own and a random one, against central differences of ``loss``.

    No gradient but of the leaves that are named ``without`` may vanish. Sums in float32 and differences leave errors
    well below the tolerance, which is relative to the leaf's gradient.
    """
    rng, leaves, got = np.random.default_rng(seed), flat(params), flat(gradients)
    assert set(leaves) == set(got)
    whole = np.sqrt(sum((g**2).sum() for g in got.values()))
    assert whole > 0
    for name, leaf in leaves.items():
        size = np.linalg.norm(got[name])
        assert (size > 1e-6 * whole) != any(name.startswith(part) for part in without), name
        own = got[name] / size if size > 1e-6 * whole else np.ones(leaf.shape) / np.sqrt(leaf.size)
        random = rng.normal(size=leaf.shape)
        for way in (own, random / np.linalg.norm(random)):
            ends = [loss(nested({**leaves, name: leaf + sign * 1e-5 * way})) for sign in (1, -1)]
            wanted = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose((got[name] * way).sum(), wanted, atol=rtol * size + 1e-6 * whole, err_msg=name)


def assert_micro_batches(method, state, settings, without=None):
    """An update by micro-batches of one image moves parameters and statistics as that of the whole batch does."""
    key, step = jax.random.key(9), jnp.int32(0)
    (whole, losses), (parts, others) = (
        jax.jit(each.update)(state, step, key, settings, source())
        for each in (method, dataclasses.replace(method, micro_batch=1))
    )
    np.testing.assert_allclose(others, losses, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), parts.model.statistics, whole.model.statistics
    )
    before, one, other = (flat(each.model.params) for each in (state, whole, parts))
    moved = {name: np.abs(one[name] - before[name]).max() for name in before}
    assert np.median(list(moved.values())) > 1e-4
    for name in before.keys() - {without}:
        np.testing.assert_allclose(other[name], one[name], atol=0.02 * moved[name] + 1e-6, err_msg=name)


def jittered(params, seed=5, size=0.3):
    """Parameters away from where they begin, where some gradients vanish."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + size * rng.normal(size=leaf.shape).astype(np.float32), params)


def settings(method, **changes):
    [name] = method.variants
    return jax.tree.map(jnp.float32, method.variants[name].settings(**changes))
