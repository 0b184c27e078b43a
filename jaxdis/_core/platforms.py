"""The platform on which a program will run, as a value that is read while the program is traced.

Several primitives have one form for CPUs and one for accelerators: each is a :class:`Kernel`. Which is traced depends
on the devices that will run the program, not on the process's default device: :class:`jaxdis._core.executor.Layout`
traces what it places within :func:`tracing_for`, and JAX keeps traces for different platforms apart.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax

# An environment variable whose platform overrides that of the devices: its forms then run anywhere, such as in tests.
FORMS_VARIABLE = "JAXDIS_FORMS"
# XLA's own products on GPUs need tiles that it finds by trying them out; without a device to try them on, or where none
# of the standard ones fits, compiling fails: "Couldn't find output tile sizes". Products of cuBLAS always compile.
COMPILER_OPTIONS = {"gpu": {"xla_gpu_enable_triton_gemm": False}}
# Sums into places that are known at run time are atomic on GPUs, in any order; with these, samples are sorted by place.
DETERMINISTIC_OPTIONS = {"gpu": {"xla_gpu_deterministic_ops": True}}
_context = jax.make_user_context(default_value=None)


def platform_of(devices: Sequence[jax.Device]) -> str:
    """The platform whose forms the devices run: ``cpu``, ``gpu`` or ``tpu``."""
    return os.environ.get(FORMS_VARIABLE) or devices[0].platform


def tracing_for(platform: str, deterministic: bool = False) -> AbstractContextManager:
    """Trace the forms of a platform inside a ``with`` statement, those whose results repeat if ``deterministic``."""
    return _context((platform, deterministic))


def traced_platform() -> str:
    """The platform whose forms the program that is being traced takes.

    Outside of :func:`tracing_for`, that is decided by the default device.
    """
    platform, _ = _context.value or (None, False)
    return platform or os.environ.get(FORMS_VARIABLE) or jax.default_backend()


def adds_in_place() -> bool:
    """Whether the program that is being traced adds numbers to places that are known at run time.

    TPUs would add one number after the other. GPUs add them in any order, and take minutes to compile an order that
    repeats where rows are added.
    """
    _, deterministic = _context.value or (None, False)
    return traced_platform() != "tpu" and not deterministic


def on_cpu() -> bool:
    return traced_platform() == "cpu"


def run_by_cpu() -> bool:
    """Whether the program that is being traced runs on a CPU, whatever its forms."""
    return on_cpu() or (FORMS_VARIABLE in os.environ and jax.default_backend() == "cpu")


class Program:
    """A jitted function, compiled with the options for its :class:`~jaxdis._core.executor.Layout`'s platform."""

    def __init__(self, function: Callable, layout: int, **how):
        self._layout, self._plain = layout, jax.jit(function, **how)
        self._of = {
            (platform, deterministic): jax.jit(function, compiler_options=options | more, **how)
            for platform, options in COMPILER_OPTIONS.items()
            for deterministic, more in ((False, {}), (True, DETERMINISTIC_OPTIONS.get(platform, {})))
        }

    def __call__(self, *arguments):
        return self.of(arguments[self._layout])(*arguments)

    def of(self, layout):
        """The function as it is jitted for a layout's platform."""
        return self._of.get((layout.devices[0].platform, layout.deterministic), self._plain)

    def trace(self, *arguments):
        return self.of(arguments[self._layout]).trace(*arguments)

    def lower(self, *arguments):
        return self.of(arguments[self._layout]).lower(*arguments)

    def _cache_size(self) -> int:
        return sum(program._cache_size() for program in (self._plain, *self._of.values()))


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A function that takes the form of the platform on which it will run; jit and vmap accept each form.

    Attributes:
      in_place: whether the accelerators' form adds to places that are known at run time; deterministic programs for
        GPUs then take the TPUs' form.
      named: forms that can be asked for, by name.
    """

    cpu: Callable
    accelerator: Callable
    tpu: Callable | None = None
    in_place: bool = False
    named: Mapping[str, Callable] = dataclasses.field(default_factory=dict)

    def __call__(self, *arguments, form: str | None = None, **options) -> Any:
        function, platform = self.cpu, traced_platform()
        if form is not None:
            function = self.forms[form]
        elif platform != "cpu":
            as_on_tpus = not adds_in_place() if self.in_place else platform == "tpu"
            function = self.tpu if self.tpu and as_on_tpus else self.accelerator
        return function(*arguments, **options)

    @property
    def forms(self) -> dict[str, Callable]:
        """All forms: those with a name of their own, and those of the platforms."""
        found = dict(self.named)
        for platform in ("cpu", "accelerator", "tpu"):
            function = getattr(self, platform)
            if function is not None and function not in found.values():
                found[platform] = function
        return found
