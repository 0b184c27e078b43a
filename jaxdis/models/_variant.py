"""What a zoo sweeps under one name, such as an objective of an autoencoder, and the description of a row of a table."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class About:
    """The description of a row.

    Attributes:
      title: the name in full.
      summary: one sentence.
      references: keys of :data:`jaxdis._core.references.REFERENCES`, the defining paper first.
      settings: the meaning of each argument of ``settings`` of a variant.
    """

    title: str
    summary: str
    references: tuple[str, ...]
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Variant:
    """What the members of one variant have in common.

    Attributes:
      settings: keyword arguments named as in the paper, with its defaults → the hyperparameters, a NamedTuple of
        numbers.
      swept: the argument of ``settings`` that studies sweep; None if there is none.
      about: description for readers, which is not part of what is computed.
      signed: the arguments of ``settings`` that may be negative.
    """

    settings: Callable[..., Any]
    swept: str | None = None
    about: About | None = dataclasses.field(default=None, compare=False, kw_only=True)
    signed: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
