"""Factors → codes with known truth: representations on which a metric's right score is known.

Every function is pure, has static shapes and returns ``(codes, factors)``, so that many seeds need only one ``vmap``.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxdis._core import options, random
from jaxdis._core.options import Count, checked
from jaxdis.factors import Factors

CASES = ("000", "001", "010", "011", "100", "101", "110", "111")

Representation = tuple[Float[Array, "n d"], Factors]
Share = options.Share | Float[Array, ""]  # if traced, a sweep is a single program


@checked
def calibration(case: str, key: PRNGKeyArray, num_samples: Count = 50_000, *, copies: Count = 1) -> Representation:
    """Make one of the eight boundary cases in Julka et al. 2024, Tables II and V: modular? compact? explicit?

    A case's three binary digits: whether each code encodes one factor, whether each factor is encoded by one code, and
    whether all values are encoded. Factors have 9 values, uniform and independent. First digit 0: a code encodes two
    factors. Second digit 0: a factor is spread over two codes. Third digit 0: the first six values of every factor are
    encoded as one.

    =====  ======  ======  =====================================================
    case   codes   factors what each code holds
    =====  ======  ======  =====================================================
    000/1  2       2       the pair of factors in a random permutation of 81 cells, split in two
    010/1  2       3       c1 = 9 z1 + z2; c2 = z3
    100/1  3       2       c1, c2 = base-3 digits of z1; c3 = z2
    110/1  2       2       c1 = z1; c2 = z2
    =====  ======  ======  =====================================================

    Args:
      case: three binary digits, such as ``"110"``.
      num_samples: how many samples, ``n``.
      copies: independent copies side by side, for larger ``d`` and ``k``.

    Returns:
      codes ``[n, d]`` float32 and Factors with size 9.
    """
    if case not in CASES:
        raise ValueError(f"case: must be one of {', '.join(CASES)}, got {options.shown(case)}")
    parts = [_case(case, part, num_samples) for part in jax.random.split(key, copies)]
    codes = jnp.concatenate([codes for codes, _ in parts], axis=1)
    values = jnp.concatenate([values for _, values in parts], axis=1)
    return codes.astype(jnp.float32), _factors(values, 9)


def _case(case: str, key, num_samples: int):
    modular, compact, explicit = (digit == "1" for digit in case)
    draw, shuffle = jax.random.split(key)
    k = 3 if compact and not modular else 2
    values = random.randint(draw, (num_samples, k), 0, 9)
    encoded = values if explicit else jnp.where(values >= 6, values, 0)
    first, second = encoded[:, 0], encoded[:, 1]
    if modular and compact:
        codes = [first, second]
    elif modular:
        codes = [first // 3, first % 3, second]
    elif compact:
        codes = [9 * first + second, encoded[:, 2]]
    else:
        cell = jax.random.permutation(shuffle, 81)[9 * first + second]
        codes = [cell // 9, cell % 9]
    return jnp.stack(codes, axis=1), values


@checked
def warp(alpha: Share, key: PRNGKeyArray, num_samples: Count = 20_000, *, num_factors: Count = 6) -> Representation:
    """Bend each factor by an increasing function that steepens with ``alpha``: Julka et al. 2024, §IV-B.

    ``c = 1000^(1/4 − α) tan(ω (z − 1/2)) + 1/2`` with ``ω = 2 arctan(1000^(α − 1/4) / 2)`` and ``z ~ U[0, 1]``, so that
    ``c`` runs from 0 to 1 for every ``α``. (The formula is misprinted in the paper; this is the one used in its
    experiments.)
    """
    values = random.uniform(key, (num_samples, num_factors))
    steepness = 1000.0 ** (alpha - 0.25)
    codes = jnp.tan(2 * jnp.arctan(steepness / 2) * (values - 0.5)) / steepness + 0.5
    return codes, _factors(values)


@checked
def rotation(alpha: Share, key: PRNGKeyArray, num_samples: Count = 20_000, *, num_factors: Count = 6) -> Representation:
    """Mix each code's factor with its neighbor's, ``(1 − α) z_i + α z_(i−1)``: Julka et al. 2024, §IV-C.

    ``c = z R`` with ``R = (1 − α) I + α P``, ``P`` the cyclic shift; ``z ~ U[0, 1]``. Modular and compact at ``α = 0``,
    least so at ``α = 1/2``.
    """
    values = random.uniform(key, (num_samples, num_factors))
    return (1 - alpha) * values + alpha * jnp.roll(values, 1, axis=1), _factors(values)


@checked
def noise(alpha: Share, key: PRNGKeyArray, num_samples: Count = 20_000, *, num_factors: Count = 6) -> Representation:
    """Mix each factor with noise, ``(1 − α) z + α u`` with ``z, u ~ U[0, 1]``: Julka et al. 2024, §IV-D.

    Modular and compact for every ``α < 1``; at ``α = 1`` the codes are pure noise.
    """
    draw, disturb = jax.random.split(key)
    values = random.uniform(draw, (num_samples, num_factors))
    return (1 - alpha) * values + alpha * random.uniform(disturb, values.shape), _factors(values)


@checked
def toy_model(name: Literal["M1", "M2"]) -> Representation:
    """Make the toy models in Mahon et al. 2024, Table 1, as exact populations with 80 equally likely samples.

    Two binary factors, two binary codes. The first code agrees with each factor in 75 % of the samples (with both when
    they are equal, with each of them half the time when they differ). The second is a coin flip in ``"M1"``; in
    ``"M2"`` it agrees with the first factor in 70 %.
    """
    agreeing = {"M1": 5, "M2": 7}[name]
    # 20 samples per cell; the second code splits each of the two halves 5 : 5 or 7 : 3.
    table = np.array([(a, b, first) for a, b in np.ndindex(2, 2) for first in [a] * 10 + [b] * 10])
    second = np.where(np.arange(len(table)) % 10 < agreeing, table[:, 0], 1 - table[:, 0])
    codes = np.stack([table[:, 2], second], axis=1)
    return jnp.asarray(codes, jnp.float32), _factors(jnp.asarray(table[:, :2], jnp.int32), 2)


@checked
def distributed(
    num_factors: Count = 4, num_values: Count = 3, key: PRNGKeyArray | None = None, num_samples: Count | None = None
) -> Representation:
    """Make codes whose pairs sum to factors, so that no single code is informative: Mahon et al. 2024, Theorem 3.1.

    Code ``i`` holds two digits, ``c_i = (v a_i + b_i + 1/2) / v²``; ``z_i = a_i + b_(i+1) mod v``. Codes ``[n, k]``,
    factors with ``v`` values.

    Args:
      num_factors: how many factors and codes, ``k``.
      num_values: how many values per factor, ``v``.
      key, num_samples: draw ``num_samples`` samples; without both, the exact population with ``v^(2k)`` samples.
    """
    if (key is None) != (num_samples is None):
        raise ValueError("key, num_samples: give both to draw samples, or neither for the exact population")
    if key is None:
        if num_values ** (2 * num_factors) > 1 << 24:
            raise ValueError(
                f"num_factors, num_values: the exact population has {num_values}^{2 * num_factors} samples; "
                "give key and num_samples to draw from it"
            )
        digits = jnp.asarray(np.indices((num_values,) * (2 * num_factors)).reshape(2 * num_factors, -1).T, jnp.int32)
    else:
        digits = random.randint(key, (num_samples, 2 * num_factors), 0, num_values)
    high, low = digits[:, :num_factors], digits[:, num_factors:]
    codes = (num_values * high + low).astype(jnp.float32) + 0.5
    return codes / num_values**2, _factors((high + jnp.roll(low, -1, axis=1)) % num_values, num_values)


@checked
def entangled(
    alpha: Share, key: PRNGKeyArray, num_samples: Count = 20_000, *, num_factors: Count = 2
) -> Representation:
    """Make codes distributed as the factors, each a function of all: Locatello et al. 2020, Theorem 1 and App. A.

    ``f(z) = g⁻¹(h⁻¹(A h(g(z))))``: factors ``z ~ U[0, 1]^k``, so that the map ``g`` to uniform variables is the
    identity; ``h`` the standard normal's quantile function; ``A = I − 2 v vᵀ`` with ``v₁ = √α`` and the other ``v_i =
    √((1 − α) / (k − 1))``, orthogonal without a zero entry. A model that generates from ``z`` and one that generates
    from ``f(z)`` have the same distribution of images, so that no method that sees images alone can tell which of the
    two codes is disentangled. At ``α = 0`` the first code is the first factor.

    Args:
      alpha: ``α`` in (0, 1/2); the proof excludes 0 and 1/2, at which entries in ``A`` vanish.
      num_samples, num_factors: shape of codes and factors, both continuous; at least two factors.

    Contract:

    - Codes are uniform on [0, 1] and independent; their total correlation is 0, as the factors' is.
    - The inverse is the map itself, since ``A`` is its own inverse.
    """
    if num_factors < 2:
        raise ValueError(f"num_factors: must be at least 2, got {num_factors}")
    values = random.uniform(key, (num_samples, num_factors))
    return householder_map(alpha, values), _factors(values)


def householder_map(alpha, values: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """``f`` of :func:`entangled`, for values in [0, 1]."""
    k = values.shape[1]
    rest = jnp.full(k - 1, jnp.sqrt((1 - alpha) / (k - 1)))
    v = jnp.concatenate([jnp.sqrt(jnp.asarray(alpha, jnp.float32))[None], rest])
    edge = jnp.finfo(jnp.float32).eps  # quantiles of 0 and 1 are infinite
    normal = jax.scipy.special.ndtri(jnp.clip(values, edge, 1 - edge))
    turned = normal - 2 * (normal * v[None, :]).sum(axis=1, keepdims=True) * v[None, :]
    return jax.scipy.special.ndtr(turned)


def _factors(values, size: int | None = None) -> Factors:
    k = values.shape[1]
    return Factors(values, (size,) * k, tuple(f"factor_{j}" for j in range(k)))


__all__ = ["CASES", "calibration", "distributed", "entangled", "noise", "rotation", "toy_model", "warp"]
