"""The library's methods by name. To add one, see :mod:`jaxdis.models.methods._method`."""

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
