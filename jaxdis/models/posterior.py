"""Encoding and decoding for a whole zoo, some images at a time."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.arrays import as_numpy
from jaxdis.models.config import Config
from jaxdis.models.images import Images, checked_images, noise_key, unit_images
from jaxdis.models.networks.precision import InPrecision
from jaxdis.models.objectives.distributions import expected_images
from jaxdis.options import Count, checked_value, shown

# One program serves any number of images: chunks are padded to this size.
_CHUNK = 256


class Posterior(NamedTuple):
    """Diagonal Gaussian posteriors: ``mean`` and ``variance``, ``[m, n, d]`` float32 (``[n, d]`` for one member)."""

    mean: np.ndarray
    variance: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Networks:
    """What the programs below are compiled for."""

    network: Any
    precision: str
    reconstruction: str

    @classmethod
    def of(cls, config: Config) -> "_Networks":
        return cls(config.network, config.precision, config.reconstruction)

    def apply(self) -> InPrecision:
        return InPrecision(self.network, self.precision)


def encode(config: Config, params, images, *, render=None, key=None, batch_size: int | None = None) -> Posterior:
    """Posteriors of images under every member.

    Args:
      config: of the zoo.
      params: leaves ``[m, …]``.
      images: ``[n, h, w, c]``, uint8 or real in [0, 1]; with ``render``, factors ``[n, k]``.
      render: ``factors → images`` or ``factors, key → images``, pure: images are then made inside the program and never
        held together.
      key: of the noise that a renderer draws; None: ``jax.random.key(0)``. The noise of an image follows from the key
        and the image's place, whatever the batch size.
      batch_size: images at a time; None: 256.

    Raises:
      ValueError: for images that are not such, or of another shape than the networks'.
    """
    if render is None:
        rows = checked_images(images, "images", config.network.image_shape)
    else:
        rows = _checked_factors(images, render)
    networks = _Networks.of(config)
    drawn = None if render is None else Images.of(render)
    key = noise_key(jax.random.key(0) if key is None else key)
    size, start, parts = _checked_batch(batch_size), 0, []
    for part, count in _chunks(rows, size):
        found = _encode(networks, params, drawn, part, key, np.uint32(start))
        parts.append([np.asarray(leaf)[:, :count] for leaf in found])
        start += count
    mean, log_variance = (np.concatenate(column, axis=1) for column in zip(*parts, strict=True))
    return Posterior(mean, np.exp(log_variance))


def decode(config: Config, params, codes, *, batch_size: int | None = None) -> np.ndarray:
    """Expected images ``[m, n, h, w, c]`` in [0, 1].

    Args:
      codes: ``[m, n, d]``, or ``[n, d]`` for every member.

    Raises:
      ValueError: for codes of another shape.
    """
    codes = as_numpy(codes, "codes")
    if codes.dtype.kind not in "fiub":
        raise ValueError(f"codes: needs real numbers, got dtype {codes.dtype}")
    codes = codes.astype(np.float32)
    m = jax.tree.leaves(params)[0].shape[0]
    codes = np.broadcast_to(codes, (m, *codes.shape)) if codes.ndim == 2 else codes
    d = getattr(config.network, "num_codes", codes.shape[-1] if codes.ndim else 0)
    if codes.ndim != 3 or codes.shape[0] != m or codes.shape[2] != d or not codes.size:
        raise ValueError(f"codes: needs shape [n, {d}] or [{m}, n, {d}], got {codes.shape}")
    networks = _Networks.of(config)
    parts = [
        np.asarray(_decode(networks, params, np.swapaxes(part, 0, 1)))[:, :count]
        for part, count in _chunks(np.swapaxes(codes, 0, 1), _checked_batch(batch_size))
    ]
    return np.concatenate(parts, axis=1)


@functools.partial(jax.jit, static_argnums=0)
def _encode(networks: _Networks, params, drawn: Images | None, rows, key, start):
    """Posteriors of images, or of what a renderer draws of factors that begin at a place among all."""
    if drawn is not None:
        places = start + jnp.arange(len(rows), dtype=jnp.uint32)
        rows = drawn.apart(rows, jax.vmap(jax.random.fold_in, (None, 0))(key, places))
    images = unit_images(rows)
    return jax.lax.map(lambda member: tuple(networks.apply().encode(member, images)), params)


@functools.partial(jax.jit, static_argnums=0)
def _decode(networks: _Networks, params, codes):
    def one(member):
        params, codes = member
        return expected_images(networks.apply().decode(params, codes), networks.reconstruction)

    return jax.lax.map(one, (params, jnp.asarray(codes)))


def _chunks(rows: np.ndarray, size: int):
    """Chunks of one size, the last filled up with its first row, and how many rows of each count."""
    if not len(rows):
        raise ValueError("images: needs at least one, got none")
    size = min(size, len(rows))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        count = len(part)
        yield np.concatenate([part, np.repeat(part[:1], size - count, axis=0)]) if count < size else part, count


def _checked_batch(batch_size: int | None) -> int:
    return checked_value("batch_size", Count | None, batch_size) or _CHUNK


def _checked_factors(factors, render) -> np.ndarray:
    """Class numbers ``[n, k]`` for a renderer."""
    if not callable(render):
        raise ValueError(f"render: needs a function of factors, got {shown(render)}")
    rows = as_numpy(factors, "factors")
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or not len(rows):
        raise ValueError(f"factors: needs whole numbers [n, k], got shape {rows.shape} and dtype {rows.dtype}")
    return rows.astype(np.int32)
