"""Products over few numbers, whose results an accelerator need not store."""

from jaxtyping import Array, Float

from jaxdis._core.kernels.kernel import Kernel

# Terms of a sum that an accelerator computes sooner, for each of its readers, than it would store it and read it again.
FEW = 16


def _in_its_readers(left: Float[Array, "s e"], right: Float[Array, "e n"]) -> Float[Array, "s n"]:
    if left.shape[1] > FEW:
        return left @ right
    return sum(left[:, i, None] * right[i][None, :] for i in range(left.shape[1]))


# ``thin_product(left [s, e], right [e, n]) -> [s, n]``, of few numbers ``e``. As a sum of products it becomes a part of
# what reads it; libraries for products store their results.
thin_product = Kernel(
    lambda left, right: left @ right,
    {"stored": lambda left, right: left @ right, "in its readers": _in_its_readers},
    cpu="stored",
    accelerator="in its readers",
)
