"""What a zoo sweeps under one name, such as an autoencoder's objective, and what describes a row in a table."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class About:
    """What describes a row.

    Attributes:
      title: the name in full.
      summary: one sentence.
      references: keys that ``jaxdis list references`` shows, the defining paper first.
      settings: what each argument to a variant's ``settings`` means.
    """

    title: str
    summary: str
    references: tuple[str, ...]
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Variant:
    """What one variant's members have in common.

    Attributes:
      settings: keyword arguments named as in the paper, with its defaults → the hyperparameters, a NamedTuple with
        numbers.
      swept: the argument to ``settings`` that studies sweep; None if there is none.
      about: description for readers, which does not change what is computed.
      signed: the arguments to ``settings`` that may be negative.
    """

    settings: Callable[..., Any]
    swept: str | None = None
    about: About | None = dataclasses.field(default=None, compare=False, kw_only=True)
    signed: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
