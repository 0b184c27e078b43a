"""What is trained, as one hashable value: everything that may change a number, and nothing else."""

import dataclasses
from typing import Annotated, Any, Literal

from jaxdis.data.source import DataSource
from jaxdis.models.networks.architectures import Convolutional, Discriminator, Mlp
from jaxdis.models.networks.autoencoder import Autoencoder
from jaxdis.models.objectives.table import OBJECTIVES, Objective
from jaxdis.models.objectives.total_correlation import Estimator
from jaxdis.options import Count, Positive, Range, check_fields

Decay = Annotated[float, Range(0, 1, below=True)]


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam's static settings (Kingma & Ba 2015); the learning rate is a hyperparameter."""

    b1: Decay = 0.9
    b2: Decay = 0.999
    epsilon: Positive = 1e-8

    def __post_init__(self):
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class DiscriminatorTraining:
    """How FactorVAE's discriminator is trained beside the autoencoder.

    Attributes:
      order: order of the two updates:

        * ``simultaneous``: both gradients are taken at the same parameters and on the same batch (Locatello et al.
          2020).
        * ``split_batch``: a batch of twice the size, whose first half is for the autoencoder and the joint and whose
          second half, encoded separately, is for the permuted codes (Kim & Mnih 2018, algorithm 1; the code behind
          Mahon et al. 2024).
        * ``sequential``: the autoencoder first, then the discriminator on fresh codes of the updated encoder (the code
          of Julka et al. 2024).
      encoder_sees_discriminator: whether the encoder also descends on the discriminator's loss of the joint, as in the
        code behind Mahon et al. (2024), where codes are not detached.
      clip: whether the discriminator's probabilities are clipped to [1e-6, 1 − 1e-6] in its loss, as in the code of
        Locatello et al. (2020).
      network, optimizer: the discriminator and its optimizer.
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
    """One training program. Hashable: it is the compilation key and the identity of a study's cells.

    Attributes:
      data: name of a data set in ``jaxdis.data``; only a label if data are passed to ``train``.
      source: the file of a data set that is read from one; its content identifies it, not its path.
      objective: name of a row of ``OBJECTIVES``, or of several that share one loss, for a zoo that mixes them.
      network: :class:`~jaxdis.models.networks.architectures.Mlp`,
        :class:`~jaxdis.models.networks.architectures.Convolutional` or any hashable object with ``init``, ``encode``
        and ``decode`` (see :mod:`jaxdis.models.networks.custom`).
      steps: updates of each member.
      batch_size: images per update (per half for ``split_batch``).
      estimator: estimator of total correlation on a batch, as in
        :func:`~jaxdis.models.objectives.total_correlation.decompose`.
      reconstruction: ``bernoulli`` (cross-entropy of logits; targets need not be binary) or ``squared_error`` (½‖x−x̂‖²,
        where the decoder's output is the mean).
      subtract_entropy: report the Bernoulli reconstruction error minus the entropy of the images, which changes no
        gradient.
      precision: precision of the networks' matrix products: ``float32``, ``tensorfloat32`` (on accelerators; the same
        as float32 on CPU) or ``bfloat16`` activations. Parameters, losses and moments are always float32.
      optimizer: optimizer of the autoencoder.
      discriminator: discriminator of the objective ``factor``, and how it is trained.
    """

    data: str = "dsprites"
    source: DataSource | None = None
    objective: str | tuple[str, ...] = "beta"
    network: Any = Mlp()
    steps: Count = 3000
    batch_size: Count = 64
    estimator: Estimator = "mss"
    reconstruction: Literal["bernoulli", "squared_error"] = "bernoulli"
    subtract_entropy: bool = False
    precision: Literal["float32", "tensorfloat32", "bfloat16"] = "float32"
    optimizer: Adam = Adam()
    discriminator: DiscriminatorTraining = DiscriminatorTraining()

    def __post_init__(self):
        check_fields(self)

    def autoencoder(self, micro_batch: int | None = None) -> Autoencoder:
        """The network as programs run it."""
        return Autoencoder(self.network, self.precision, micro_batch)


def objective_of(config: Config) -> Objective:
    """The row of ``OBJECTIVES`` that a config trains (of several, the first).

    Raises:
      ValueError: for an unknown name, or for objectives that do not share one loss.
    """
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
    """A config as plain JSON values; each dataclass is a dict with its type."""
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
      ValueError: for any other type, such as a user's own network.
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


_TYPES = {
    kind.__name__: kind for kind in (Config, DataSource, Adam, DiscriminatorTraining, Discriminator, Mlp, Convolutional)
}
