"""A paper's training runs as values: what is trained, and which members."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from jaxdis.models import About, Config, Members


class Run(NamedTuple):
    """One program and its members: ``train(run.config, *run.members)``."""

    config: Config
    members: Members


@dataclasses.dataclass(frozen=True)
class Preset:
    """A function from a data set's name and options to runs, and its description for ``jaxdis list presets``."""

    make: Callable[..., tuple[Run, ...]]
    about: About
