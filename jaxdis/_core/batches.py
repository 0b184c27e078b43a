"""How many members run together on an accelerator: sizes from a short ladder, each compiled once within its memory."""

import warnings
from collections.abc import Callable

import jax

# Members that run together on one device. Chunks are padded to these, so that zoos of any size share few programs.
RUNGS = (1, 8, 64, 256, 1024)
# Members of a chunk that share one step, by platform: of quick functions, and of those that take a CPU core LONG
# seconds a member; elsewhere all. A TPU's core is one large serial unit: by XLA's cycles for a v5e, MIG takes 0.124 ms
# a member alone, 0.018 with 8 and 0.016 with 64. Small steps cost as much for 64 as for 8: DCI by lasso is bound by
# 1.2 million of them for 64 members, or by 12.9 million, eight at a time. The steps of trees are long, and take longer
# to compile with more members: a forest 82 s of a core with 8, and over 130 with 64.
MOST_TOGETHER = {"tpu": (RUNGS[2], RUNGS[1])}
LONG = 1.0
# Programs of different sizes that one zoo may need.
MOST_SIZES = 3
# Bytes of inputs on one accelerator at a time, and of all that a program needs where a device does not report a limit.
INPUT_BYTES = 1 << 30
UNKNOWN_LIMIT = 4 << 30
# Of the memory of a device, the share that a program may take.
SHARE = 0.8


def rungs_of(count: int, most: int) -> list[int]:
    """Sizes of the chunks that hold ``count`` members of one device, each at most ``most`` members where that is
    possible.

    The next larger rung is taken if more than half of it is filled, or if it is small; else the next smaller one.
    """
    allowed = [rung for rung in RUNGS if rung <= most] or [RUNGS[0]]
    sizes: list[int] = []
    while count > 0:
        smaller = max(rung for rung in allowed if rung <= count)
        larger = min((rung for rung in allowed if rung >= count), default=smaller)
        size = larger if 2 * count > larger or larger <= RUNGS[1] else smaller
        if len(used := set(sizes)) == MOST_SIZES and size not in used:
            size = min(used)
        sizes.append(size)
        count -= size
    return sizes


def together(members: int, platform: str, seconds: float) -> int:
    """How many members of a chunk share one step of a function, of so many seconds of a CPU core for one member."""
    quick, slow = MOST_TOGETHER.get(platform, (members, members))
    return min(members, quick if seconds < LONG else slow)


def limit_of(device: jax.Device) -> int:
    stats = device.memory_stats() or {}
    return int(SHARE * stats["bytes_limit"]) if "bytes_limit" in stats else UNKNOWN_LIMIT


def memory_of(compiled) -> int:
    """Bytes that a compiled program takes beside its arguments."""
    analysis = compiled.memory_analysis()
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)


class Bounded:
    """A program for several members that runs as many together as the memory of a device allows.

    Args:
      statics: ``statics(at_once, *arguments)``: its static arguments with that many members together.
      at_once: the first number to try, one of :data:`RUNGS`.
    """

    def __init__(self, program, statics: Callable[..., tuple], at_once: int, limit: int):
        self._program, self._statics, self.at_once, self._limit = program, statics, at_once, limit
        self._checked: set[tuple] = set()

    def __call__(self, *arguments):
        """Run it; where memory is exhausted nevertheless, say so and run fewer members together."""
        is_new = self._bound(arguments)
        while True:
            try:
                results = self._program(*self._statics(self.at_once, *arguments), *arguments)
                return jax.block_until_ready(results) if is_new else results
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error) or self.at_once == 1:
                    raise
                fewer = max((rung for rung in RUNGS if rung < self.at_once), default=1)
                warnings.warn(
                    f"memory: {self.at_once} members together exhausted that of a device; going on with {fewer}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                self.at_once = fewer

    def _bound(self, arguments) -> bool:
        """Lower the number of members until the program fits; whether its arguments have new shapes.

        JAX keeps what is compiled here, so that the call which follows does not compile it again.
        """
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments))
        if shapes in self._checked:
            return False
        while self.at_once > 1 and (need := self._bytes(arguments)) > self._limit:
            fits = [rung for rung in RUNGS if rung < self.at_once and rung * need <= self.at_once * self._limit]
            self.at_once = max(fits, default=1)
        self._checked.add(shapes)
        return True

    def _bytes(self, arguments) -> int:
        statics = self._statics(self.at_once, *arguments)
        return memory_of(self._program.lower(*statics, *arguments).compile())
