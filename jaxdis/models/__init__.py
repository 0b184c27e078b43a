"""Images → representations: methods, their networks and objectives, and zoos trained in one program."""

from jaxdis.codes import Posterior
from jaxdis.models._config import METHODS, Config
from jaxdis.models._evidence import Evidence
from jaxdis.models._members import Members, members
from jaxdis.models._zoo import Encoder, Zoo, concatenate, load, slot_parts, traversals
from jaxdis.models.methods._infogan import InfoGan
from jaxdis.models.methods._labelled_partition import LabelledPartition
from jaxdis.models.methods._method import About, Adam, Method, Optax, RmsProp, Slots, Variant, accepted
from jaxdis.models.methods._parted_vae import PartedVae
from jaxdis.models.methods._pca import Pca
from jaxdis.models.methods._resnet_vae import ResnetVae
from jaxdis.models.methods._vae import DiscriminatorTraining, Vae
from jaxdis.models.methods._weak_de import WeakDe
from jaxdis.models.methods.slots._base import Parts
from jaxdis.models.methods.slots._genesis import Genesis
from jaxdis.models.methods.slots._iodine import Iodine
from jaxdis.models.methods.slots._monet import Monet
from jaxdis.models.networks._architectures import Convolutional, Discriminator, Mlp, Own, Stacks, burgess, locatello
from jaxdis.models.objectives._losses import OBJECTIVES, Hyperparameters, Objective, Terms
from jaxdis.models.training._image_source import Source
from jaxdis.models.training._train import make_train, train

__all__ = ["About", "accepted", "Adam", "burgess", "concatenate", "Config", "Convolutional", "Discriminator"]
__all__ += ["DiscriminatorTraining", "Encoder", "Evidence", "Genesis", "Hyperparameters", "Iodine", "LabelledPartition"]
__all__ += ["InfoGan", "load", "locatello", "make_train", "members", "Members", "Method", "METHODS", "Mlp", "Monet"]
__all__ += ["Objective", "OBJECTIVES", "Optax", "Own", "PartedVae", "Parts", "Pca", "Posterior", "ResnetVae", "RmsProp"]
__all__ += ["slot_parts", "Slots", "Source", "Stacks", "Terms", "train", "traversals", "Vae", "Variant", "WeakDe"]
__all__ += ["Zoo"]
