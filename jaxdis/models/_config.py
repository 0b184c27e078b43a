"""What is trained, as one hashable value that holds everything that may change a number, and nothing else.

``METHODS`` are the library's methods by name. To add one, see :mod:`jaxdis.models.methods._method`.
"""

import dataclasses
from typing import Any

from jaxdis._core.options import Count, check_fields, checked_value
from jaxdis.data._data_source import DataSource
from jaxdis.models.methods._infogan import InfoGan
from jaxdis.models.methods._labelled_partition import LabelledPartition
from jaxdis.models.methods._method import Method
from jaxdis.models.methods._parted_vae import PartedVae
from jaxdis.models.methods._pca import Pca
from jaxdis.models.methods._resnet_vae import ResnetVae
from jaxdis.models.methods._vae import Vae
from jaxdis.models.methods._weak_de import WeakDe
from jaxdis.models.methods.slots._genesis import Genesis
from jaxdis.models.methods.slots._iodine import Iodine
from jaxdis.models.methods.slots._monet import Monet

METHODS: dict[str, type[Method]] = {
    "vae": Vae,
    "pca": Pca,
    "parted_vae": PartedVae,
    "weak_de": WeakDe,
    "labelled_partition": LabelledPartition,
    "resnet_vae": ResnetVae,
    "infogan": InfoGan,
    "monet": Monet,
    "genesis": Genesis,
    "iodine": Iodine,
}


@dataclasses.dataclass(frozen=True)
class Config:
    """One training program. Hashable: it is the identity of a study's cells.

    Attributes:
      data: a data set's name in ``jaxdis.data``; only a label if data are passed to ``train``.
      source: the file, for a data set that is read from one; its content identifies it, not its path.
      method: what is trained, such as :class:`~jaxdis.models.Vae`, or any other instance of a class in ``METHODS``.
      steps: updates per member; None: as many as the method says.
    """

    data: str = "dsprites"
    source: DataSource | None = None
    method: Method = Vae()
    steps: Count | None = None

    def __post_init__(self):
        checked_value("method", Method, self.method)
        steps = self.method.default_steps if self.steps is None else checked_value("steps", Count, self.steps)
        object.__setattr__(self, "steps", steps)
        check_fields(self)


def describe(value) -> Any:
    """A config as plain JSON values; each dataclass is a dict with its type."""
    if dataclasses.is_dataclass(value):
        if hasattr(value, "description"):
            return value.description()
        names = [field.name for field in dataclasses.fields(value) if field.metadata.get("identity", True)]
        if hasattr(value, "scope"):  # a module of Flax, whose place in another one does not identify it
            names = [name for name in names if name not in ("parent", "name")]
        return {"type": type(value).__name__, **{name: describe(getattr(value, name)) for name in names}}
    if isinstance(value, tuple | list):
        return [describe(entry) for entry in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    if callable(value) or hasattr(value, "encode"):
        named = value if hasattr(value, "__qualname__") else type(value)
        return {"type": "own", "name": f"{named.__module__}.{named.__qualname__}"}
    raise ValueError(f"config: must be dataclasses of plain values, got {type(value).__name__}")


def types_of_configs() -> dict[str, type]:
    """What descriptions may name: the methods in ``METHODS`` and the parts that each brings."""
    parts = dict.fromkeys(part for method in METHODS.values() for part in method.types)  # in a fixed order
    return {kind.__name__: kind for kind in (Config, DataSource, *METHODS.values(), *parts)}


class UnknownType(ValueError):
    """A type from outside this package, such as a user's own network or method."""


def restored(description) -> Any:
    """The inverse of :func:`describe`, for this package's types and the methods in ``METHODS``.

    Raises:
      UnknownType: for any other type.
      ValueError: for a value that the type does not allow, or one that descriptions leave out, such as a path: what
        comes from a file may not choose what is opened.
    """
    if isinstance(description, list):
        return tuple(restored(entry) for entry in description)
    if not isinstance(description, dict):
        return description
    fields = {name: restored(entry) for name, entry in description.items() if name != "type"}
    types = types_of_configs()
    if description.get("type") not in types:
        raise UnknownType(f"config: must have a type among {', '.join(types)}, got {description.get('type')!r}")
    try:
        value = types[description["type"]](**fields)
    except TypeError as error:
        raise ValueError(f"config: {error}") from None
    if unexpected := sorted(description.keys() - describe(value).keys()):
        raise ValueError(f"config: must be what jaxdis describes, got {unexpected[0]!r} of a {description['type']}")
    return value
