"""Images → posteriors: networks, objectives, and zoos trained in one program."""

from jaxdis.models.config import Adam, Config, DiscriminatorTraining
from jaxdis.models.evidence import Encoder, Evidence
from jaxdis.models.members import Members, members
from jaxdis.models.networks.architectures import Convolutional, Discriminator, Mlp, burgess, locatello
from jaxdis.models.networks.custom import Own
from jaxdis.models.objectives.losses import Hyperparameters, Terms
from jaxdis.models.objectives.table import OBJECTIVES, Objective
from jaxdis.models.posterior import Posterior
from jaxdis.models.training.train import make_train, train
from jaxdis.models.zoo import Zoo, concatenate, load

__all__ = [
    "Adam",
    "Config",
    "Convolutional",
    "Discriminator",
    "DiscriminatorTraining",
    "Encoder",
    "Evidence",
    "Hyperparameters",
    "Members",
    "Mlp",
    "OBJECTIVES",
    "Objective",
    "Own",
    "Posterior",
    "Terms",
    "Zoo",
    "burgess",
    "concatenate",
    "load",
    "locatello",
    "make_train",
    "members",
    "train",
]
