"""The platform on which a program will run, as a value that is read while the program is traced.

Several primitives have one form for CPUs and one for accelerators. Which of them is traced depends on the devices that
will run the program, not on the default device of the process: :class:`jaxdis._core.executor.Layout` traces what it
places within :func:`tracing_for`, and JAX keeps traces of different platforms apart.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

import jax

# An environment variable whose platform overrides that of the devices: its forms then run anywhere, such as in tests.
FORMS_VARIABLE = "JAXDIS_FORMS"
_context = jax.make_user_context(default_value=None)


def platform_of(devices: Sequence[jax.Device]) -> str:
    """The platform whose forms the devices run: ``cpu``, ``gpu`` or ``tpu``."""
    return os.environ.get(FORMS_VARIABLE) or devices[0].platform


def tracing_for(platform: str) -> AbstractContextManager:
    """Trace the forms of a platform inside a ``with`` statement."""
    return _context(platform)


def on_cpu() -> bool:
    """Whether the program that is being traced takes the forms for CPUs.

    Outside of :func:`tracing_for`, that is decided by the default device.
    """
    return (_context.value or os.environ.get(FORMS_VARIABLE) or jax.default_backend()) == "cpu"
