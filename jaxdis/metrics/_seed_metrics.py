"""Metrics that compare the members trained under one setting with several seeds; studies compute them as cells."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core.options import Positive, check_fields
from jaxdis._core.precision import single_precision
from jaxdis.metrics._between_members import udr
from jaxdis.metrics._metric import About


@dataclasses.dataclass(frozen=True)
class Udr:
    """Unsupervised disentanglement ranking for each member among its setting's seeds.

    Attributes:
      kind, penalty: as in :func:`jaxdis.metrics.udr`.
      least_kl: a code is informative if its mean KL divergence from the prior exceeds this many nats; for a method
        without a posterior, whose codes have variance 0, all codes that vary are informative.
    """

    kind: Literal["lasso", "spearman"] = "lasso"
    penalty: Positive = 0.1
    least_kl: Positive = 0.01

    about: ClassVar[About] = About(
        "Unsupervised disentanglement ranking (UDR)",
        "How well do the codes of a member map one to one onto those of other seeds?",
        ("duan2020",),
        reads_factors=False,
    )
    errors: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __post_init__(self):
        check_fields(self)

    def describe(self) -> dict:
        return {"of_seeds": "udr", **dataclasses.asdict(self)}

    @single_precision
    def score(self, codes: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """``[m]`` from posterior means and variances ``[m, n, d]``; NaN for a single member.

        A member with non-finite codes is left out and scored NaN.
        """
        scores = np.full(len(codes), np.nan)
        finite = np.isfinite(codes).all(axis=(1, 2))
        if finite.sum() > 1:
            codes, variances = (jnp.asarray(array[finite], jnp.float32) for array in (codes, variances))
            active = informative(codes, variances, self.least_kl)
            scores[finite] = udr(codes, active, kind=self.kind, penalty=self.penalty).score
        return scores


def informative(means: Float[Array, "m n d"], variances: Float[Array, "m n d"], least: float) -> Bool[Array, "m d"]:
    """Codes whose mean KL divergence from a standard normal exceeds ``least`` nats; all if variances are 0."""
    safe = jnp.where(variances > 0, variances, 1.0)
    divergence = 0.5 * (means**2 + variances - jnp.log(safe) - 1)
    return jnp.where((variances > 0).all(axis=1), divergence.mean(axis=1) > least, True)


SEED_METRICS = {"udr": Udr()}
