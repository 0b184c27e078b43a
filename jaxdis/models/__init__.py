"""Images → representations: methods, their networks and objectives, and zoos trained in one program."""

from jaxdis.models.config import Config
from jaxdis.models.evidence import Encoder, Evidence
from jaxdis.models.members import Members, members
from jaxdis.models.methods.infogan import InfoGan
from jaxdis.models.methods.labelled_partition import LabelledPartition
from jaxdis.models.methods.method import Method, Posterior, Slots, accepted
from jaxdis.models.methods.optimizer import Adam, RmsProp
from jaxdis.models.methods.parted_vae import PartedVae
from jaxdis.models.methods.pca import Pca
from jaxdis.models.methods.resnet_vae import ResnetVae
from jaxdis.models.methods.slots.base import Parts
from jaxdis.models.methods.slots.genesis import Genesis
from jaxdis.models.methods.slots.iodine import Iodine
from jaxdis.models.methods.slots.monet import Monet
from jaxdis.models.methods.table import METHODS
from jaxdis.models.methods.vae import DiscriminatorTraining, Vae
from jaxdis.models.methods.weak_de import WeakDe
from jaxdis.models.networks.architectures import Convolutional, Discriminator, Mlp, burgess, locatello
from jaxdis.models.networks.custom import Own
from jaxdis.models.networks.stacks import Stacks
from jaxdis.models.objectives.losses import Hyperparameters, Terms
from jaxdis.models.objectives.table import OBJECTIVES, Objective
from jaxdis.models.parts import slot_parts
from jaxdis.models.training.source import Source
from jaxdis.models.training.train import make_train, train
from jaxdis.models.variant import About, Variant
from jaxdis.models.zoo import Zoo, concatenate, load

__all__ = [
    "About",
    "accepted",
    "Adam",
    "burgess",
    "concatenate",
    "Config",
    "Convolutional",
    "Discriminator",
    "DiscriminatorTraining",
    "Encoder",
    "Evidence",
    "Genesis",
    "Hyperparameters",
    "Iodine",
    "LabelledPartition",
    "InfoGan",
    "load",
    "locatello",
    "make_train",
    "members",
    "Members",
    "Method",
    "METHODS",
    "Mlp",
    "Monet",
    "Objective",
    "OBJECTIVES",
    "Own",
    "PartedVae",
    "Parts",
    "Pca",
    "Posterior",
    "ResnetVae",
    "RmsProp",
    "slot_parts",
    "Slots",
    "Source",
    "Stacks",
    "Terms",
    "train",
    "Vae",
    "Variant",
    "WeakDe",
    "Zoo",
]
