"""A primitive with a definition, a form for CPUs and a form for accelerators."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxdis._core.platforms import traced_platform


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A function that takes the form of the platform on which it will run.

    Attributes:
      reference: the definition on the host, as plain as it can be written. Tests call it; programs do not.
      forms: functions that jit and vmap accept, by name.
      cpu: which form CPUs take.
      accelerator: which form GPUs and TPUs take.
      tpu: which form TPUs take, if it is another.
    """

    reference: Callable
    forms: Mapping[str, Callable]
    cpu: str
    accelerator: str
    tpu: str | None = None

    def __call__(self, *arguments, form: str | None = None, **options) -> Any:
        chosen = {"cpu": self.cpu, "tpu": self.tpu}.get(traced_platform()) or self.accelerator
        return self.forms[form or chosen](*arguments, **options)
