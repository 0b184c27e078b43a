"""Users' own models: three pure functions.

Any hashable object with ``init(key) → params``, ``encode(params, images [n, h, w, c]) → (mean, log_variance) [n, d]``
and ``decode(params, codes [n, d]) → logits [n, h, w, c]`` is a network. :class:`Own` makes one of plain functions:

    def init(key): return {"in": jax.random.normal(key, (256, 8)) * 0.1, "out": jnp.zeros((4, 256))}
    def encode(params, images): return jnp.split(images.reshape(-1, 256) @ params["in"], 2, axis=1)
    def decode(params, codes): return (codes @ params["out"]).reshape(-1, 16, 16, 1)

    config = jaxdis.models.Config(method=jaxdis.models.Vae(network=Own(init, encode, decode, name="linear")))

A flax nnx module is split once into its graph, which is static, and its state, which is the parameters:

    graph = nnx.split(Autoencoder(nnx.Rngs(0)))[0]

    def init(key): return nnx.to_pure_dict(nnx.split(Autoencoder(nnx.Rngs(key)))[1])
    def encode(params, images): return nnx.merge(graph, params).encode(images)
    def decode(params, codes): return nnx.merge(graph, params).decode(codes)
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxdis._core.options import check_fields


@dataclasses.dataclass(frozen=True)
class Own:
    """Three functions as a network.

    Attributes:
      init, encode, decode: the functions described above. They are part of the compilation key and should be defined at
        module level: a function that is defined on each call is compiled on each call.
      name: name by which run directories identify the network. Functions cannot be stored; pass them to
        ``jaxdis.models.load(path, method=…)``.
      image_shape: ``(height, width, channels)``; None: that of the data.
    """

    init: Callable[..., Any]
    encode: Callable[..., Any]
    decode: Callable[..., Any]
    name: str = "own"
    image_shape: tuple[int, int, int] | None = None

    def __post_init__(self):
        check_fields(self)

    def description(self) -> dict:
        return {"type": "Own", "name": self.name, "image_shape": list(self.image_shape or ())}


def as_network(network):
    """The network itself if it is a dataclass with an image shape, else its three functions as :class:`Own`.

    Raises:
      ValueError: if one of the three functions is missing or the object cannot be hashed.
    """
    missing = [name for name in ("init", "encode", "decode") if not callable(getattr(network, name, None))]
    if missing:
        kind = getattr(network, "__name__", type(network).__name__)
        raise ValueError(
            f"network: needs functions init, encode and decode, {kind} lacks {', '.join(missing)}; "
            "jaxdis.models.Own makes a network of three functions, such as those of a Flax module"
        )
    try:
        hash(network)
    except TypeError:
        raise ValueError(
            f"network: needs a hashable value, such as a frozen dataclass, got {type(network).__name__}"
        ) from None
    if dataclasses.is_dataclass(network) and hasattr(network, "image_shape"):
        return network
    name = getattr(network, "name", type(network).__name__)
    shape = getattr(network, "image_shape", None)
    return Own(network.init, network.encode, network.decode, str(name), None if shape is None else tuple(shape))


@functools.lru_cache(maxsize=64)
def check_network(network, image_shape: tuple[int, int, int]) -> None:
    """Trace a network on the shape of two images: arrays of other shapes could broadcast unnoticed in a loss.

    Raises:
      ValueError: if codes are not two arrays ``[2, d]``, or the images of codes not ``[2, h, w, c]``.
    """
    params = jax.eval_shape(network.init, jax.random.key(0))
    posterior = jax.eval_shape(network.encode, params, jax.ShapeDtypeStruct((2, *image_shape), jnp.float32))
    shapes = [array.shape for array in jax.tree.leaves(posterior)]
    if len(shapes) != 2 or shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] != 2:
        raise ValueError(f"network: encode needs two arrays [n, d], means and log-variances, got {shapes} for n = 2")
    logits = jax.eval_shape(network.decode, params, posterior[0])
    if getattr(logits, "shape", None) != (2, *image_shape):
        got = getattr(logits, "shape", type(logits).__name__)
        raise ValueError(f"network: decode needs logits of shape {(2, *image_shape)} for n = 2, got {got}")
