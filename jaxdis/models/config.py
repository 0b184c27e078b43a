"""What is trained, as one hashable value: everything that may change a number, and nothing that may not."""

import dataclasses
from typing import Annotated, Any, Literal

from jaxdis.models.networks.architectures import Convolutional, Discriminator, Mlp
from jaxdis.models.networks.autoencoder import Autoencoder
from jaxdis.models.objectives.table import OBJECTIVES, Objective
from jaxdis.models.objectives.total_correlation import Estimator
from jaxdis.options import Count, Positive, Range, check_fields

Decay = Annotated[float, Range(0, 1, below=True)]


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam's static numbers (Kingma & Ba 2015); the learning rate is a hyperparameter."""

    b1: Decay = 0.9
    b2: Decay = 0.999
    epsilon: Positive = 1e-8

    def __post_init__(self):
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class Adversary:
    """How FactorVAE's discriminator is trained beside the autoencoder.

    Attributes:
      order: ``simultaneous``: both gradients at the same parameters and on the same batch (Locatello et al. 2020);
        ``split_batch``: a batch of twice the size, the first half for the autoencoder and the joint, the second half,
        encoded again, for the permuted codes (Kim & Mnih 2018, algorithm 1; the code behind Mahon et al. 2024);
        ``sequential``: the autoencoder first, then the discriminator on fresh codes of the updated encoder (the code of
        Julka et al. 2024).
      encoder_sees_discriminator: with ``split_batch``, let the encoder also descend on the discriminator's loss of the
        joint, as the code behind Mahon et al. (2024) does because its codes are not detached.
      clip: keep the discriminator's probabilities within [1e-6, 1 − 1e-6] in its loss (code of Locatello et al. 2020).
    """

    order: Literal["simultaneous", "split_batch", "sequential"] = "simultaneous"
    encoder_sees_discriminator: bool = False
    clip: bool = True
    network: Discriminator = Discriminator()
    optimizer: Adam = Adam(b1=0.5, b2=0.9)

    def __post_init__(self):
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class Config:
    """One training program. Hashable: the compilation's key, the cell's identity and the command line's flags at once.

    Attributes:
      data: name of a data set in ``jaxdis.data``; when data are passed to ``train``, only a label.
      objective: row of ``OBJECTIVES``, or several that share one loss, for a zoo that mixes them.
      network: :class:`~jaxdis.models.networks.architectures.Mlp`,
        :class:`~jaxdis.models.networks.architectures.Convolutional` or any hashable object with ``init``, ``encode``
        and ``decode`` (see :mod:`jaxdis.models.networks.custom`).
      steps: updates of each member.
      batch_size: images of one update (per half for ``split_batch``).
      estimator: of total correlation, for the objectives that weigh it.
      reconstruction: ``bernoulli`` (cross-entropy of logits; targets need not be binary) or ``squared_error`` (½‖x−x̂‖²,
        the decoder's output being the mean).
      subtract_entropy: report Bernoulli reconstruction less the images' own entropy (changes no gradient).
      precision: of the networks' matrix products: ``float32``, ``tensorfloat32`` (accelerators; the same as float32 on
        CPU) or ``bfloat16`` activations. Parameters, losses and moments are float32 always.
    """

    data: str = "dsprites"
    objective: str | tuple[str, ...] = "beta"
    network: Any = Mlp()
    steps: Count = 3000
    batch_size: Count = 64
    estimator: Estimator = "mss"
    reconstruction: Literal["bernoulli", "squared_error"] = "bernoulli"
    subtract_entropy: bool = False
    precision: Literal["float32", "tensorfloat32", "bfloat16"] = "float32"
    optimizer: Adam = Adam()
    adversary: Adversary = Adversary()

    def __post_init__(self):
        check_fields(self)

    def autoencoder(self, micro_batch: int | None = None) -> Autoencoder:
        """The network as programs run it."""
        return Autoencoder(self.network, self.precision, micro_batch)


def objective_of(config: Config) -> Objective:
    """The row that a config trains; the first of several, after checking that they share one loss."""
    names = (config.objective,) if isinstance(config.objective, str) else tuple(config.objective)
    if not names:
        raise ValueError("objective: needs at least one name, got ()")
    for name in names:
        if name not in OBJECTIVES:
            raise ValueError(f"objective: needs one of {', '.join(OBJECTIVES)}, got {name!r}")
    rows = [OBJECTIVES[name] for name in names]
    if len({row.loss for row in rows}) > 1:
        raise ValueError(f"objective: a mixed zoo needs objectives that share one loss, got {', '.join(names)}")
    return rows[0]


def describe(value) -> Any:
    """A config as plain JSON values; dataclasses say their type."""
    if dataclasses.is_dataclass(value):
        if hasattr(value, "description"):
            return value.description()
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [describe(entry) for entry in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    raise ValueError(f"config: needs dataclasses of plain values, got {type(value).__name__}")


def restored(description) -> Any:
    """The inverse of :func:`describe`, for the types of this package.

    Raises:
      ValueError: for another type, such as a user's own network.
    """
    if isinstance(description, list):
        return tuple(restored(entry) for entry in description)
    if not isinstance(description, dict):
        return description
    fields = {name: restored(entry) for name, entry in description.items() if name != "type"}
    if description.get("type") not in _TYPES:
        raise ValueError(f"config: needs a type among {', '.join(_TYPES)}, got {description.get('type')!r}")
    try:
        return _TYPES[description["type"]](**fields)
    except TypeError as error:
        raise ValueError(f"config: {error}") from None


_TYPES = {kind.__name__: kind for kind in (Config, Adam, Adversary, Discriminator, Mlp, Convolutional)}
