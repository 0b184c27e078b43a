"""Encoding and decoding with every member in a zoo: members over devices, images in equal chunks."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core import executor
from jaxdis._core.arrays import as_numpy, check_one_array, check_real
from jaxdis._core.display import Progress, reported
from jaxdis._core.executor import Layout
from jaxdis._core.options import Count, checked_devices, checked_value, shown
from jaxdis._core.platforms import Program, on_cpu
from jaxdis._core.precision import single_precision
from jaxdis._core.resources import live_bytes
from jaxdis.models._images import Images, check_image_shape, checked_images, noise_key, unit_images
from jaxdis.models.methods._method import Method

# Images at a time at most: one program then serves any number of images.
_CHUNK = 256
# Fewer where their intermediate results would take more bytes than this under one member: scenes of 128 × 128 in slots
# take 100 MB an image.
_BYTES = 1 << 30
# Members that encode them together on an accelerator.
_TOGETHER = 8


@single_precision
def encode(
    method: Method,
    params,
    images,
    *,
    render=None,
    key=None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    summary: Callable | None = None,
    what: str = "represent",
    progress: Progress = False,
) -> Any:
    """How every member represents images, or what the summary makes of it; see :meth:`jaxdis.models.Zoo.encode`.

    With a ``render``, images are never held in memory together, and an image's noise depends on the key and on the
    image's place alone. ``batch_size`` is rounded up so that devices share images evenly; None: 256, or fewer where
    these would take more than about 1 GB under one member. ``what`` names the function of the method that is applied.
    """
    drawn = render is not None
    rows = _checked_factors(images, render) if drawn else checked_images(images, "images", method.image_shape)
    layout = _layout(params, devices)
    placed = layout.place(params)
    key = noise_key(jax.random.key(0) if key is None else key)
    renderer = Images.of(render) if drawn else None
    if drawn:
        check_image_shape(jax.eval_shape(renderer, rows[:1], key).shape, "render", method.image_shape)
    renderer, key = layout.share((renderer, key))
    program = functools.partial(_encode, method, what, summary, layout, placed, renderer, key)
    at_once = checked_value("batch_size", Count | None, batch_size)
    at_once = at_once or images_at_once(getattr(method, what), params, method.image_shape)
    return _in_chunks(program, rows, at_once, _num_members(params), layout, progress)


@single_precision
def decode(
    method: Method, params, codes, *, batch_size: int | None = None, devices: Sequence[jax.Device] | None = None
) -> np.ndarray:
    """Expected images ``[m, n, h, w, c]`` in [0, 1] for codes ``[m, n, d]``, or ``[n, d]`` for every member (``[…, s,
    d]`` for slots)."""
    if not decodes(method):
        raise ValueError(f"method: needs a decoder, {type(method).__name__} has none")
    check_one_array(codes, "codes")
    codes = as_numpy(codes, "codes")
    check_real(codes, "codes")
    codes = codes.astype(np.float32)
    m, shape = _num_members(params), code_shape(method, params)
    codes = np.broadcast_to(codes, (m, *codes.shape)) if codes.ndim == 1 + len(shape) else codes
    if codes.ndim != 2 + len(shape) or codes.shape[0] != m or codes.shape[2:] != shape or not codes.size:
        needed = ", ".join(map(str, shape))
        raise ValueError(f"codes: must have shape [n, {needed}] or [{m}, n, {needed}], got {codes.shape}")
    layout = _layout(params, devices)
    placed = layout.place(params)

    def program(part, start):
        members = (placed, layout.place(np.swapaxes(part, 0, 1)))
        return _decode(method, layout, members)

    at_once = checked_value("batch_size", Count | None, batch_size) or images_at_once(method.decode, params, shape)
    return _in_chunks(program, np.swapaxes(codes, 0, 1), at_once, m, layout)


def images_at_once(function: Callable, params, shape: tuple[int, ...]) -> int:
    """How many images in this shape, or their codes, a function takes at a time beside a member."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), params)
    bytes_of_one = live_bytes(function, one, jax.ShapeDtypeStruct((1, *shape), np.float32))
    fitting = max(1, _BYTES // max(bytes_of_one, 1))
    return min(_CHUNK, 1 << fitting.bit_length() - 1)  # a power of two


def decodes(method: Method) -> bool:
    return callable(getattr(method, "decode", None))


def code_shape(method: Method, params) -> tuple[int, ...]:
    """``(d,)``, or ``(s, d)`` with slots; params have leaves ``[m, …]``."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), params)
    image = jax.ShapeDtypeStruct((1, *method.image_shape), np.float32)
    return jax.eval_shape(method.represent, one, image)[0].shape[1:]


@functools.partial(Program, layout=3, static_argnums=(0, 1, 2, 3))
def _encode(
    method: Method,
    what: str,
    summary: Callable | None,
    layout: Layout,
    params,
    renderer: Images | None,
    key,
    rows,
    start,
):
    """Representations for images, or for what a renderer draws from factors; ``start`` is the first row's place."""

    def drawn(rows, shared):
        (factors, places), (renderer, key) = rows, shared
        return unit_images(renderer.apart(factors, jax.vmap(jax.random.fold_in, (None, 0))(key, places)))

    if renderer is None:
        images = unit_images(rows)
    else:
        places = start + jnp.arange(len(rows), dtype=jnp.uint32)
        images = layout.spread(drawn, (rows, places), (renderer, key))

    def represented(params, images):
        representation = getattr(method, what)(params, images)
        return representation if summary is None else summary(representation)

    return layout.map(represented, params, images)


@functools.partial(Program, layout=1, static_argnums=(0, 1))
def _decode(method: Method, layout: Layout, members):
    return layout.map(lambda member, _: method.decode(*member), members)


def _in_chunks(
    program: Callable, rows: np.ndarray, batch_size: int, num_members: int, layout: Layout, progress: Progress = False
):
    """``program(chunk, start)`` over chunks of rows; its leaves ``[members, rows, …]`` without padded rows."""
    n, num_devices = len(rows), len(layout.devices)
    if not n:
        raise ValueError("images: must have at least one, got none")
    size = min(batch_size, n)
    size = -(-size // num_devices) * num_devices
    running = (program(executor.take(rows, places), np.uint32(places[0])) for places in executor.chunks(n, size))
    parts = []
    with reported(progress, "encoding", "images") as show:
        for part in executor.fetched(running):
            parts.append(part)
            show(min(len(parts) * size, n), n)
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:num_members, :n], *parts)


def _num_members(params) -> int:
    return jax.tree.leaves(params)[0].shape[0]


def _layout(params, devices) -> Layout:
    devices = jax.devices()[:1] if devices is None and on_cpu() else checked_devices(devices)
    layout = Layout.over(devices, _num_members(params))
    if layout.platform == "cpu":
        return layout
    each = -(-_num_members(params) // len(layout.devices))
    return dataclasses.replace(layout, at_once=min(each, _TOGETHER))


def _checked_factors(factors, render) -> np.ndarray:
    """Factors ``[n, k]`` for a renderer: class numbers, or real with a continuous one."""
    if not callable(render):
        raise ValueError(f"render: must be a function of factors, got {shown(render)}")
    rows = as_numpy(factors, "factors")
    if rows.ndim != 2 or rows.dtype.kind not in "iuf" or not len(rows):
        raise ValueError(f"factors: must be numbers [n, k], got shape {rows.shape} and dtype {rows.dtype}")
    return rows.astype(np.float32 if rows.dtype.kind == "f" else np.int32)
