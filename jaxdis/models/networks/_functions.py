"""The one door for encoders and decoders: whatever a network is, it becomes three pure functions.

A network is

* one of this package's, or any ``flax.linen`` module with methods ``encode`` and ``decode``;
* a pair of ``flax.linen`` modules, the encoder and the decoder;
* a class of ``flax.nnx`` modules with these methods, or a function ``rngs → module``, or a pair of either;
* three functions ``init(key) → params``, ``encode(params, images)`` and ``decode(params, codes)``, as a tuple, as
  :class:`Own`, or as the attributes of any hashable object.

Encoding images ``[n, h, w, c]`` yields means and log-variances ``[n, d]`` each, and decoding codes ``[n, d]`` logits
``[n, h, w, c]``.

``tests/models/networks/test_functions.py`` has an example of each.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array

from jaxdis._core.options import check_fields
from jaxdis.models.networks._layers import Network, draw

_NAMES = ("init", "encode", "decode")
_WAY_OUT = (
    "pass a flax.linen module with methods encode and decode, a pair of linen modules, a class of flax.nnx modules, or "
    "three functions (init, encode, decode)"
)


class Functions(NamedTuple):
    """``init(key, image_shape) → params``, ``encode(params, images)`` and ``decode(params, codes)``."""

    init: Callable[..., Any]
    encode: Callable[..., Any]
    decode: Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Own:
    """Three functions as a network, with a name.

    Attributes:
      init, encode, decode: the functions. They belong to the compilation key and should be defined at module level: a
        function that is defined on each call is compiled on each call.
      name: name by which run directories identify the network. Functions cannot be stored; pass them to
        ``jaxdis.models.load(path, method=…)``.
      image_shape: ``(height, width, channels)``; None: the data's.
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


@functools.lru_cache(maxsize=256)
def functions_of(network) -> Functions:
    """A network's three functions; equal networks have the same."""
    parts = network if isinstance(network, tuple) else (network,)
    if len(parts) == 3 and all(map(callable, parts)):
        return _of_functions(*parts)
    if len(parts) in (1, 2) and all(isinstance(part, nn.Module) for part in parts):
        return _of_linen(network if len(parts) == 1 else LinenPair(*parts))
    if any(isinstance(part, nnx.Module) for part in parts):
        raise ValueError(
            "network: must be a class of nnx modules or a function rngs → module, as every member draws parameters of "
            f"its own, got an instance, {_named(network)}"
        )
    linen_class = any(isinstance(part, type) and issubclass(part, nn.Module) for part in parts)
    if len(parts) == 1 and not linen_class and all(callable(getattr(network, name, None)) for name in _NAMES):
        return _of_functions(*(getattr(network, name) for name in _NAMES))
    if len(parts) in (1, 2) and not linen_class and all(map(callable, parts)):
        return _of_nnx(network if len(parts) == 1 else functools.partial(NnxPair, *parts), _named(network))
    raise ValueError(f"network: must be a network, got {_named(network)}; {_WAY_OUT}")


def check_hashable(network) -> None:
    """Raise ValueError unless the network can be in a compilation key, and is one."""
    try:
        hash(network)
    except TypeError:
        raise ValueError(
            f"network: must be a hashable value, such as a frozen dataclass, got {_named(network)}"
        ) from None
    functions_of(network)


@functools.lru_cache(maxsize=64)
def check_network(network, image_shape: tuple[int, int, int]) -> None:
    """Trace a network on two images' shape: arrays of other shapes could broadcast unnoticed in a loss."""
    functions = functions_of(network)
    params = jax.eval_shape(lambda key: functions.init(key, image_shape), jax.random.key(0))
    posterior = jax.eval_shape(functions.encode, params, jax.ShapeDtypeStruct((2, *image_shape), jnp.float32))
    shapes = [array.shape for array in jax.tree.leaves(posterior)]
    if len(shapes) != 2 or shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] != 2:
        raise ValueError(f"network: encode must return means and log-variances, [n, d], got {shapes} for n = 2")
    logits = jax.eval_shape(functions.decode, params, posterior[0])
    if getattr(logits, "shape", None) != (2, *image_shape):
        got = getattr(logits, "shape", type(logits).__name__)
        raise ValueError(f"network: decode must return logits of shape {(2, *image_shape)} for n = 2, got {got}")


class LinenPair(nn.Module):
    encoder: nn.Module
    decoder: nn.Module

    def encode(self, images):
        return self.encoder(images)

    def decode(self, codes):
        return self.decoder(codes)


class NnxPair(nnx.Module):
    def __init__(self, encoder: Callable, decoder: Callable, rngs: nnx.Rngs):
        self.encode, self.decode = encoder(rngs=rngs), decoder(rngs=rngs)


def _of_functions(init: Callable, encode: Callable, decode: Callable) -> Functions:
    return Functions(lambda key, _: init(key), encode, decode)


def _of_linen(module: nn.Module) -> Functions:
    _check_methods(module, _named(module))

    def both(module, images):
        return module.decode(module.encode(images)[0])

    def init(key, image_shape):
        begin, images = functools.partial(module.init, method=both), jnp.zeros((1, *image_shape))
        if isinstance(module, Network):
            if module.image_shape is None:
                raise ValueError("image_shape: must be (height, width, channels) for this network, got None")
            return draw(key, jax.eval_shape(begin, key, images)["params"], module.initialization)
        variables = begin(key, images)
        if odd := sorted(variables.keys() - {"params"}):
            raise ValueError(f"network: must have modules with parameters alone, got one with {odd[0]}")
        return variables.get("params", {})

    def run(method, params, inputs):
        return module.apply({"params": params}, inputs, method=method)

    return Functions(init, functools.partial(run, "encode"), functools.partial(run, "decode"))


def _of_nnx(make: Callable, name: str) -> Functions:
    try:
        module = nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0)))
    except Exception as error:
        advice = "a function such as lambda rngs: Module(8, rngs=rngs) gives a class its other arguments"
        raise ValueError(f"network: {name}(rngs=…) fails ({error}); {advice}") from error
    if not isinstance(module, nnx.Module):
        raise ValueError(f"network: must be a network, got {name}; {_WAY_OUT}")
    _check_methods(module, name)
    if odd := sorted({type(leaf).__name__ for _, leaf in nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.Param)))}):
        raise ValueError(f"network: must have modules with parameters alone, got one with {odd[0]}")
    graph = nnx.split(module)[0]

    def init(key, _):
        return nnx.to_pure_dict(nnx.split(make(rngs=nnx.Rngs(key)))[1])

    def run(method, params, inputs):
        return getattr(nnx.merge(graph, params), method)(inputs)

    return Functions(init, functools.partial(run, "encode"), functools.partial(run, "decode"))


def _check_methods(module, name: str) -> None:
    if missing := [method for method in ("encode", "decode") if not callable(getattr(module, method, None))]:
        raise ValueError(f"network: {name} lacks {' and '.join(missing)}; {_WAY_OUT}")


def _named(network) -> str:
    if isinstance(network, tuple):
        return f"a tuple of {', '.join(map(_named, network)) or 'nothing'}"
    return getattr(network, "__name__", type(network).__name__)


# Micro-batches give the same loss and gradient with less memory traffic. On CPU, the activations of eight images
# stay in cache, whereas those for a batch with 64 do not, and a convolutional update takes half the time. The loss
# couples a batch's images through their posteriors alone, so the encoder and the decoder run per micro-batch and
# everything between them runs on the whole batch.

# "highest" keeps accelerators from rounding float32 to fewer bits by default.
PRODUCTS = {"float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}


@dataclasses.dataclass(frozen=True)
class Autoencoder:
    """A network, how precise its matrix products are, and how many images a micro-batch has (None: all images)."""

    network: Any
    precision: str = "float32"
    micro_batch: int | None = None

    def encode(self, params, images: Array) -> tuple[Array, Array]:
        """Posterior means and log-variances, ``[n, d]`` float32 each.

        The backward pass recomputes each micro-batch instead of storing it.
        """

        def posterior(images):
            with jax.default_matmul_precision(PRODUCTS[self.precision]):
                mean, log_variance = functions_of(self.network).encode(self._cast(params), self._cast(images))
            return mean.astype(jnp.float32), log_variance.astype(jnp.float32)

        n = images.shape[0]
        if self._takes_whole(n):
            return posterior(images)
        mean, log_variance = lax.map(jax.checkpoint(posterior, prevent_cse=False), self._split(images))
        return mean.reshape(n, -1), log_variance.reshape(n, -1)

    def decode(self, params, codes: Array) -> Array:
        """Logits ``[n, h, w, c]``, float32, for the whole batch."""
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            return functions_of(self.network).decode(self._cast(params), self._cast(codes)).astype(jnp.float32)

    def decoded_loss(self, params, codes: Array, images: Array, loss: Callable[[Array, Array], Array]) -> Array:
        """``loss(decode(params, codes), images)``, which must be a sum over images.

        With micro-batches, the gradient is computed in the same pass as the value: a scalar's cotangent only scales it.
        """

        def part_loss(params, codes, images):
            return loss(self.decode(params, codes), images)

        if self._takes_whole(codes.shape[0]):
            return part_loss(params, codes, images)

        @jax.custom_vjp
        def total(params, codes):
            def add(value, part):
                return value + part_loss(params, *part), None

            return lax.scan(add, jnp.zeros(()), (self._split(codes), self._split(images)))[0]

        def forward(params, codes):
            def add(carry, part):
                value, gradients = jax.value_and_grad(part_loss, argnums=(0, 1))(params, *part)
                return (carry[0] + value, jax.tree.map(jnp.add, carry[1], gradients[0])), gradients[1]

            start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
            (value, of_params), of_codes = lax.scan(add, start, (self._split(codes), self._split(images)))
            return value, (of_params, of_codes.reshape(codes.shape))

        def backward(gradients, cotangent):
            return jax.tree.map(lambda leaf: (cotangent * leaf).astype(leaf.dtype), gradients)

        total.defvjp(forward, backward)
        return total(params, codes)

    def _cast(self, tree):
        return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tree) if self.precision == "bfloat16" else tree

    def _takes_whole(self, n: int) -> bool:
        return self.micro_batch is None or self.micro_batch >= n

    def _split(self, array: Array) -> Array:
        return array.reshape(array.shape[0] // self.micro_batch, self.micro_batch, *array.shape[1:])
