"""A primitive with a definition, a form for CPUs and a form for accelerators."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxdis._core.platforms import adds_in_place, on_cpu, traced_platform


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A function that takes the form of the platform on which it will run.

    Attributes:
      reference: the definition on the host, as plain as it can be written. Tests call it; programs do not.
      forms: functions that jit and vmap accept, by name.
      cpu: which form CPUs take.
      accelerator: which form GPUs and TPUs take.
      tpu: which form TPUs take, if it is another.
      in_place: whether the accelerators' form adds to places that are known at run time; deterministic programs for
        GPUs then take the TPUs' form.
    """

    reference: Callable
    forms: Mapping[str, Callable]
    cpu: str
    accelerator: str
    tpu: str | None = None
    in_place: bool = False

    def __call__(self, *arguments, form: str | None = None, **options) -> Any:
        return self.forms[form or self._chosen()](*arguments, **options)

    def _chosen(self) -> str:
        if on_cpu():
            return self.cpu
        as_on_tpus = not adds_in_place() if self.in_place else traced_platform() == "tpu"
        return self.tpu if self.tpu and as_on_tpus else self.accelerator
