"""Networks at reduced precision, float32 on both sides."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class InPrecision:
    """A network whose products are done in another precision; in and out it is float32."""

    network: Any
    precision: str

    def encode(self, params, images):
        with self._matmul():
            mean, log_variance = self.network.encode(self._cast(params), self._cast(images))
        return mean.astype(jnp.float32), log_variance.astype(jnp.float32)

    def decode(self, params, codes):
        with self._matmul():
            return self.network.decode(self._cast(params), self._cast(codes)).astype(jnp.float32)

    def _cast(self, tree):
        return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tree) if self.precision == "bfloat16" else tree

    def _matmul(self):
        # "highest" keeps accelerators from rounding float32 to fewer bits on their own account.
        names = {"float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}
        return jax.default_matmul_precision(names[self.precision])
