"""The methods of the library by name. To add one, see :mod:`jaxdis.models.methods.method`."""

from jaxdis.models.methods.infogan import InfoGan
from jaxdis.models.methods.labelled_partition import LabelledPartition
from jaxdis.models.methods.method import Method
from jaxdis.models.methods.parted_vae import PartedVae
from jaxdis.models.methods.pca import Pca
from jaxdis.models.methods.resnet_vae import ResnetVae
from jaxdis.models.methods.slots.genesis import Genesis
from jaxdis.models.methods.slots.iodine import Iodine
from jaxdis.models.methods.slots.monet import Monet
from jaxdis.models.methods.vae import Vae
from jaxdis.models.methods.weak_de import WeakDe

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
