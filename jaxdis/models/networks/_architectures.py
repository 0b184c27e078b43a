"""The library's encoders and decoders, and the discriminator, as ``flax.linen`` modules, and the layers that they have.

This is also the one door for networks, which become three pure functions. Layers are those in ``flax.linen``, with
convolutions in their fast forms. This is the one place where a form is chosen: ``flax.linen.Conv`` makes the
parameters, and what it is given as ``conv_general_dilated`` computes.

A network is

* one of this package's, or any ``flax.linen`` module with methods ``encode`` and ``decode``;
* a pair of ``flax.linen`` modules, the encoder and the decoder;
* a class of ``flax.nnx`` modules with these methods, or a function ``rngs → module``, or a pair of either;
* three functions ``init(key) → params``, ``encode(params, images)`` and ``decode(params, codes)``, as a tuple, as
  :class:`Own`, or as the attributes of any hashable object.

Encoding images ``[n, h, w, c]`` yields means and log-variances ``[n, d]`` each, and decoding codes ``[n, d]`` logits
``[n, h, w, c]`` (``tests/models/networks/test_functions.py`` has an example of each).

References: Hochreiter & Schmidhuber 1997 (``Lstm``); Ba et al. 2016 (``ImageNorm``); Ulyanov et al. 2016
(``InstanceNorm``).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.kernels import convolution
from jaxdis._core.options import CheckedFields, Count, NonNegative, Units, check_fields, checked

Dense = nn.Dense
Lstm = nn.OptimizedLSTMCell
Conv = functools.partial(nn.Conv, conv_general_dilated=convolution.convolution)
# Of stride 2 with kernels of 4 and 5, and with a mean of 2 × 2 pixels after it or an enlargement before it.
ConvTranspose = functools.partial(nn.Conv, kernel_size=(4, 4), conv_general_dilated=convolution.transposed_convolution)
ConvTransposeFive = functools.partial(
    nn.Conv, kernel_size=(5, 5), conv_general_dilated=convolution.transposed_convolution_five
)
PooledConv = functools.partial(nn.Conv, kernel_size=(3, 3), conv_general_dilated=convolution.pooled_convolution)
EnlargedConv = functools.partial(nn.Conv, kernel_size=(3, 3), conv_general_dilated=convolution.enlarged_convolution)
# Flax's default variance, E x² − (E x)², loses digits of maps that are far from 0.
_EXACT = {"epsilon": 1e-5, "use_fast_variance": False}
InstanceNorm = functools.partial(nn.InstanceNorm, **_EXACT)
# Over all positions and channels of an image, with a scale and an offset per channel.
ImageNorm = functools.partial(nn.LayerNorm, reduction_axes=(-3, -2, -1), feature_axes=-1, **_EXACT)
BatchNorm = functools.partial(nn.BatchNorm, momentum=0.9, **_EXACT)


class Network(nn.Module):
    """A module whose fields are checked against their annotations."""

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    def __repr__(self) -> str:
        fields = (field.name for field in dataclasses.fields(self) if field.name not in ("parent", "name"))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


class UnbiasedBatchNorm(nn.Module):
    """Batch normalization whose running variances have n − 1 degrees of freedom, as in PyTorch; Flax's have n."""

    momentum: float = 0.9

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool) -> Float[Array, "n h w c"]:
        channels = hidden.shape[-1:]
        scale = self.param("scale", nn.initializers.ones, channels)
        offset = self.param("bias", nn.initializers.zeros, channels)
        fills = {"mean": jnp.zeros, "var": jnp.ones}
        running = [self.variable("batch_stats", name, fill, channels) for name, fill in fills.items()]
        mean, variance = (moment.value for moment in running)
        if training:
            mean, variance = hidden.mean((0, 1, 2)), hidden.var((0, 1, 2))
            count = hidden.size // hidden.shape[-1]
            batch = mean, variance * (count / max(count - 1, 1))
            for moment, new in zip(running, batch, strict=True):
                moment.value = self.momentum * moment.value + (1 - self.momentum) * new
        factor = scale * jax.lax.rsqrt(variance + 1e-5)
        mean, factor, offset = (part.reshape(1, 1, 1, -1) for part in (mean, factor, offset))
        return (hidden - mean) * factor + offset


class Perceptron(nn.Module):
    widths: tuple[int, ...]
    activation: Callable

    @nn.compact
    def __call__(self, hidden: Float[Array, "n i"]) -> Float[Array, "n o"]:
        return chain([Dense(width, name=f"dense_{i}") for i, width in enumerate(self.widths)], hidden, self.activation)


def chain(layers, hidden: Array, activation: Callable = nn.relu) -> Array:
    """The layers in sequence, with an activation between them."""
    for layer in layers[:-1]:
        hidden = activation(layer(hidden))
    return layers[-1](hidden)


def leaky(values: Array, slope: float) -> Array:
    return jax.nn.leaky_relu(values, slope) if slope else jax.nn.relu(values)


def shapes_of(module: nn.Module, *inputs, **named) -> dict:
    """The shapes of a module's variables, by collection, for inputs like these."""
    return jax.eval_shape(functools.partial(module.init, **named), jax.random.key(0), *inputs)


def blank_statistics(shapes: dict) -> dict:
    """Running moments before the first update: mean 0 and variance 1."""
    fill = {"mean": jnp.zeros, "var": jnp.ones}
    return jax.tree.map_with_path(lambda path, leaf: fill[path[-1].key](leaf.shape), shapes.get("batch_stats", {}))


def apply(module: nn.Module, params: dict, *inputs, **named):
    return module.apply({"params": params}, *inputs, **named)


def normalized(module: nn.Module, params: dict, statistics: dict, *inputs, training: bool, **named):
    """A module's outputs, and its running moments after them, which only training moves."""
    variables = {"params": params, "batch_stats": statistics}
    if not training:
        return module.apply(variables, *inputs, training=False, **named), statistics
    outputs, moved = module.apply(variables, *inputs, training=True, mutable=["batch_stats"], **named)
    return outputs, moved.get("batch_stats", {})


Initialization = Literal["glorot", "kaiming", "torch"]


def draw(key, shapes, scheme: Initialization):
    """Fill a module's parameter tree.

    Args:
      shapes: nested dicts whose leaves have a ``shape``; kernels are ``[…, in, out]``. Layers without a kernel are
        normalizations, which begin with scale 1 and bias 0.
      scheme: how weights are distributed:

        * ``glorot``: uniform ±√(6 / (fan_in + fan_out)), with zero biases (Locatello et al. 2020, released code).
        * ``torch``: PyTorch's default, uniform ±1/√fan_in, also for biases (Julka et al. 2024).
        * ``kaiming``: uniform ±√(6 / fan_in), with biases as in ``torch`` (the code behind Mahon et al. 2024).

        PyTorch takes a transposed convolution's fan-in from its *output* channels, and so do the last two schemes for
        layers named ``transposed…``.
    """
    number = itertools.count()

    def layer(path: tuple[str, ...], shapes: dict) -> dict[str, Array]:
        if "kernel" not in shapes:
            return blank(shapes)
        kernel = shapes["kernel"].shape
        field = math.prod(kernel[:-2])
        fan_in, fan_out = field * kernel[-2], field * kernel[-1]
        if scheme != "glorot" and any(name.startswith("transposed") for name in path):
            fan_in = fan_out
        bound = {
            "glorot": math.sqrt(6 / (fan_in + fan_out)),
            "kaiming": math.sqrt(6 / fan_in),
            "torch": 1 / math.sqrt(fan_in),
        }[scheme]
        bias_bound = 0.0 if scheme == "glorot" else 1 / math.sqrt(fan_in)
        keys = jax.random.split(jax.random.fold_in(key, next(number)))
        bounds = zip(("kernel", "bias"), keys, (bound, bias_bound), strict=True)
        return {name: _uniform(key, shapes[name].shape, bound) for name, key, bound in bounds if name in shapes}

    return fill(shapes, layer)


def blank(shapes: dict) -> dict[str, Array]:
    """A normalization before the first update."""
    return {"scale": jnp.ones(shapes["scale"].shape), "bias": jnp.zeros(shapes["bias"].shape)}


def fill(tree: dict, draw_layer: Callable, order: Callable | None = None, path: tuple[str, ...] = ()) -> dict:
    """A tree of layers, each of which ``draw_layer(path, shapes)`` draws in turn.

    Layers are ordered by their names, or by the sorting key ``order`` for names, however the dict orders them.
    """
    if "kernel" in tree or "scale" in tree:
        return draw_layer(path, tree)
    return {name: fill(tree[name], draw_layer, order, (*path, name)) for name in sorted(tree, key=order)}


def draw_lstm(key, shapes: dict) -> dict:
    """Parameters for a ``flax.linen.OptimizedLSTMCell``, uniform on ±1/√units as in PyTorch, with one bias where that
    has two."""
    inputs, units = shapes["ii"]["kernel"].shape
    names = [f"{side}{gate}" for side in "ih" for gate in "ifgo"]
    parts = zip(jax.random.split(key, 3), ((inputs, 4 * units), (units, 4 * units), (4 * units,)), strict=True)
    drawn = [jnp.split(_uniform(part, shape, 1 / math.sqrt(units)), 4, axis=-1) for part, shape in parts]
    cell = {name: {"kernel": kernel} for name, kernel in zip(names, drawn[0] + drawn[1], strict=True)}
    for name, bias in zip(names[4:], drawn[2], strict=True):
        cell[name]["bias"] = bias
    return cell


def begin(key, module: nn.Module, *inputs, scheme: str = "torch", **named) -> tuple[dict, dict]:
    """A module's parameters and running moments, for inputs like these."""
    shapes = shapes_of(module, *inputs, **named)
    return draw(key, shapes["params"], scheme), blank_statistics(shapes)


def _uniform(key, shape: tuple[int, ...], bound: float) -> Array:
    return random.uniform(key, shape, -bound, bound) if bound else jnp.zeros(shape, jnp.float32)


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
class Own(CheckedFields):
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

    encode, decode = (functools.partial(apply, module, method=method) for method in ("encode", "decode"))
    return Functions(init, encode, decode)


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


@dataclasses.dataclass(frozen=True)
class Stacks:
    """An encoder up to its last hidden layer, and a decoder: 4 × 4 convolutions with stride 2, then dense layers.

    Attributes:
      channels: output channels of the encoder's convolutions; () for a perceptron.
      hidden: widths of the dense layers that follow; the last one yields the features.
      decoder_hidden: widths of the decoder's dense layers before the first feature map (or the image).
      decoder_channels: channels in the first feature map and in every transposed convolution except the last.
      slope, last_slope, hidden_slope, decoder_slope: slopes for negative inputs (0: ReLU) after the convolutions, after
        the last one, after the encoder's dense layers, and in the decoder.
      normalized: normalize batches after all convolutions except the decoder's last (Ioffe & Szegedy 2015); no
        convolution then has a bias.
      initialization: as in :class:`jaxdis.models.Mlp`.
    """

    channels: tuple[Units, ...] = ()
    hidden: tuple[Units, ...] = (128, 128)
    decoder_hidden: tuple[Units, ...] = (128, 128)
    decoder_channels: tuple[Units, ...] = ()
    slope: NonNegative = 0.0
    last_slope: NonNegative = 0.0
    hidden_slope: NonNegative = 0.0
    decoder_slope: NonNegative = 0.0
    normalized: bool = False
    initialization: Initialization = "torch"

    def __post_init__(self):
        check_fields(self)
        if len(self.channels) != len(self.decoder_channels):
            raise ValueError(
                "channels, decoder_channels: need as many entries, got "
                f"{len(self.channels)} and {len(self.decoder_channels)}"
            )
        if not self.hidden:
            raise ValueError("hidden: must have at least one layer, got none")

    def init(self, key, image_shape: tuple[int, int, int], num_codes: int) -> tuple[dict, dict]:
        """Parameters, and running batch moments, for ``encoder`` and ``decoder``; no moments without any."""
        encoder = shapes_of(StackEncoder(self), jnp.zeros((1, *image_shape)))
        decoder = shapes_of(StackDecoder(self, image_shape), jnp.zeros((1, num_codes)))
        parts = {"encoder": encoder, "decoder": decoder}
        params = draw(key, {name: part["params"] for name, part in parts.items()}, self.initialization)
        return params, {name: blank_statistics(part) for name, part in parts.items()}

    def features(self, params, images: Float[Array, "n h w c"], running=None, *, training: bool = False):
        """Features ``[n, hidden[-1]]`` and the encoder's running moments, toward which training moves them."""
        return normalized(StackEncoder(self), params, running or {}, images, training=training)

    def logits(self, params, codes: Float[Array, "n d"], image_shape, running=None, *, training: bool = False):
        """Logits ``[n, h, w, c]`` and the decoder's running moments; arguments as for :meth:`features`."""
        return normalized(StackDecoder(self, image_shape), params, running or {}, codes, training=training)


class StackEncoder(nn.Module):
    stacks: Stacks

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool = False) -> Float[Array, "n f"]:
        stacks = self.stacks
        slopes = [*[stacks.slope] * (len(stacks.channels) - 1), stacks.last_slope]
        for i, (channels, slope) in enumerate(zip(stacks.channels, slopes, strict=False)):
            layer = Conv(channels, (4, 4), (2, 2), use_bias=not stacks.normalized, name=f"convolution_{i}")
            hidden = layer(hidden)
            if stacks.normalized:
                hidden = UnbiasedBatchNorm(name=f"normalization_{i}")(hidden, training)
            hidden = leaky(hidden, slope)
        hidden = hidden.reshape(len(hidden), -1)
        for i, width in enumerate(stacks.hidden):
            hidden = leaky(Dense(width, name=f"dense_{i}")(hidden), stacks.hidden_slope)
        return hidden


class StackDecoder(nn.Module):
    stacks: Stacks
    image_shape: tuple[int, int, int]

    @nn.compact
    def __call__(self, hidden: Float[Array, "n d"], training: bool = False) -> Float[Array, "n h w c"]:
        stacks, (height, width, colors) = self.stacks, self.image_shape
        for i, units in enumerate(stacks.decoder_hidden):
            hidden = leaky(Dense(units, name=f"dense_{i}")(hidden), stacks.decoder_slope)
        if not stacks.channels:
            return Dense(math.prod(self.image_shape), name="to_image")(hidden).reshape(-1, *self.image_shape)
        scale = 2 ** len(stacks.channels)
        smallest = (-(-height // scale), -(-width // scale), stacks.decoder_channels[0])
        hidden = Dense(math.prod(smallest), name="to_image")(hidden).reshape(-1, *smallest)
        for i, channels in enumerate((*stacks.decoder_channels[1:], colors)):
            hidden = leaky(hidden, stacks.decoder_slope)
            hidden = ConvTranspose(channels, use_bias=not stacks.normalized, name=f"transposed_{i}")(hidden)
            if stacks.normalized and i < len(stacks.channels) - 1:
                hidden = UnbiasedBatchNorm(name=f"normalization_{i}")(hidden, training)
        return hidden[:, :height, :width]


class Mlp(Network):
    """Fully connected encoder and decoder with ReLU; the decoder mirrors the encoder.

    Attributes:
      hidden: widths of the encoder's hidden layers.
      num_codes: latent coordinates.
      image_shape: ``(height, width, channels)``; None: the data's.
      initialization: ``glorot`` (uniform weights, zero biases), ``kaiming`` or ``torch`` (PyTorch's default).
    """

    hidden: tuple[Units, ...] = (128, 128)
    num_codes: Units = 10
    image_shape: tuple[Count, Count, Count] | None = None
    initialization: Initialization = "glorot"

    def setup(self):
        self.encoder = [Dense(width) for width in (*self.hidden, 2 * self.num_codes)]
        self.decoder = [Dense(width) for width in (*self.hidden[::-1], math.prod(self.image_shape))]

    def encode(self, images: Float[Array, "n h w c"]) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Means and log-variances."""
        return tuple(jnp.split(chain(self.encoder, images.reshape(len(images), -1)), 2, axis=-1))

    def decode(self, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        """Logits."""
        return chain(self.decoder, codes).reshape(len(codes), *self.image_shape)


class Convolutional(Network):
    """Convolutions with stride 2 and fully connected layers, and a decoder that mirrors them.

    The defaults are Locatello et al.'s architecture (2020) as released; see :func:`locatello` and :func:`burgess` for
    the published variants. Images may have any size: the decoder works on the next multiple of ``2 ** len(channels)``
    and crops.

    Attributes:
      channels, kernels: output channels and kernel size (2 or 4) of each encoder convolution.
      hidden: widths of the encoder's fully connected layers.
      decoder_hidden: widths of the decoder's fully connected layers before the one that yields the first feature map.
      decoder_channels: channels in the first feature map and in every transposed convolution except the last, which has
        the image's channels; as many entries as ``channels``. All transposed kernels are 4 × 4.
      num_codes: latent coordinates.
      image_shape, initialization: as in :class:`Mlp`.
      interleaved: the outputs of the encoder's last layer are (mean₀, log-variance₀, mean₁, …) instead of all means,
        then all log-variances; this matters only for importing weights.
      compute: ``matmul`` (for a zoo, about as fast as a matrix product) or ``conv`` (as ``flax.linen.Conv``), with
        the same parameters and with values that differ by rounding. ``conv`` has derivatives in forward mode too, such
        as ``jax.jacfwd``, which is how to differentiate images by a few codes.
    """

    channels: tuple[Units, ...] = (32, 32, 64, 64)
    kernels: tuple[Literal[2, 4], ...] = (4, 4, 2, 2)
    hidden: tuple[Units, ...] = (256,)
    decoder_hidden: tuple[Units, ...] = (256,)
    decoder_channels: tuple[Units, ...] = (64, 64, 32, 32)
    num_codes: Units = 10
    image_shape: tuple[Count, Count, Count] | None = None
    initialization: Initialization = "glorot"
    interleaved: bool = False
    compute: Literal["matmul", "conv"] = "matmul"

    def __post_init__(self):
        super().__post_init__()
        lengths = {len(self.channels), len(self.kernels), len(self.decoder_channels)}
        if len(lengths) > 1:
            raise ValueError(
                "channels, kernels, decoder_channels: need one entry for each convolution, got "
                f"{len(self.channels)}, {len(self.kernels)} and {len(self.decoder_channels)}"
            )

    def setup(self):
        fast = self.compute == "matmul"
        conv = {} if fast else {"conv_general_dilated": lax.conv_general_dilated}
        transposed = {} if fast else {"conv_general_dilated": _conv_transpose}
        sizes = zip(self.channels, self.kernels, strict=True)
        self.convolutions = [Conv(units, (size, size), (2, 2), **conv) for units, size in sizes]
        self.encoder = [Dense(units) for units in (*self.hidden, 2 * self.num_codes)]
        height, width = self._smallest_map
        self.decoder = [Dense(units) for units in (*self.decoder_hidden, height * width * self.decoder_channels[0])]
        outputs = (*self.decoder_channels[1:], self.image_shape[2])
        self.transposed = [ConvTranspose(units, **transposed) for units in outputs]

    def encode(self, images: Float[Array, "n h w c"]) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Means and log-variances."""
        hidden = images
        for layer in self.convolutions:
            hidden = nn.relu(layer(hidden))
        outputs = chain(self.encoder, hidden.reshape(len(hidden), -1))
        if self.interleaved:
            return outputs[:, 0::2], outputs[:, 1::2]
        return tuple(jnp.split(outputs, 2, axis=-1))

    def decode(self, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        """Logits."""
        hidden = nn.relu(chain(self.decoder, codes)).reshape(len(codes), *self._smallest_map, self.decoder_channels[0])
        return chain(self.transposed, hidden)[:, : self.image_shape[0], : self.image_shape[1]]

    @property
    def _smallest_map(self) -> tuple[int, int]:
        """Height and width after all encoder convolutions."""
        scale = 2 ** len(self.channels)
        return -(-self.image_shape[0] // scale), -(-self.image_shape[1] // scale)


def _conv_transpose(images: Array, kernel: Array, *_, **__) -> Array:
    return lax.conv_transpose(images, kernel, (2, 2), "SAME")


@checked
def locatello(*, as_released: bool = True, **changes) -> Convolutional:
    """Make Locatello et al.'s network (2020).

    Table 2 has 4 × 4 kernels throughout, whereas the released code, and thus the released models, have 2 × 2 kernels in
    the last two encoder convolutions: 764,245 or 690,517 parameters on one channel. The former is also Julka et al.'s
    network (2024), Table III.

    Args:
      as_released: 2 × 2 kernels in the last two encoder convolutions.
      changes: other fields in :class:`Convolutional`.
    """
    return Convolutional(kernels=(4, 4, 2, 2) if as_released else (4, 4, 4, 4), **changes)


def burgess(**changes) -> Convolutional:
    """Make Burgess et al.'s network (2018), as Mahon et al. (2024) use it: 502,005 parameters on one channel.

    Their code applies a sigmoid and takes the cross-entropy on probabilities. Here the decoder returns logits, which is
    the same function with fewer overflows.
    """
    maps = {"channels": (32,) * 4, "kernels": (4,) * 4, "decoder_channels": (32,) * 4}
    dense = {"hidden": (256, 256), "decoder_hidden": (256, 256)}
    return Convolutional(**{**maps, **dense, "initialization": "kaiming", "interleaved": True, **changes})


class Discriminator(Network):
    """FactorVAE's discriminator: ``layers`` × [dense ``width``, leaky ReLU 0.2], dense 2.

    Locatello et al. (2020), Table 4b. Class 0 is the joint, class 1 the product of marginals.
    """

    layers: Count = 6
    width: Units = 1000
    initialization: Initialization = "glorot"

    @nn.compact
    def __call__(self, codes: Float[Array, "n d"]) -> Float[Array, "n 2"]:
        layers = [Dense(width, name=f"Dense_{i}") for i, width in enumerate((*[self.width] * self.layers, 2))]
        return chain(layers, codes, lambda hidden: nn.leaky_relu(hidden, 0.2))


def num_parameters(params) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
