"""The table of data sets: what each set is, where it comes from, and how to load it."""

import dataclasses
from collections.abc import Callable

from jaxdis.data import catalog, clevr_space, multi_sprites, sprites, standins, teapot
from jaxdis.data.factors import FactorSpace
from jaxdis.data.files import cars3d, mpi3d, smallnorb
from jaxdis.data.hearts import SPACE as HEARTS_SPACE
from jaxdis.data.scenes import Scenes
from jaxdis.data.shapes3d import SPACE as SHAPES3D_SPACE
from jaxdis.data.source import DataSource


@dataclasses.dataclass(frozen=True)
class DataSet:
    """One row of ``DATASETS``.

    Attributes:
      title: its name in the literature.
      description: one line.
      space: its factors with default arguments.
      shape: (height, width, channels).
      renders: whether it can be rendered without a file.
      reads: the files that ``source`` (or ``painting``) may be; "" for none.
      origin: who published the set, where its files are, and on what terms.
      make: ``make(source=None, **options) → (space, render)``; raises ValueError without a source for a set that cannot
        be rendered.
      references: keys of :data:`jaxdis.references.REFERENCES`; empty for a stand-in.
      scenes: for sets of scenes, which factor belongs to which object, and masks.
      default_file: whether ``make`` looks for the file in the cache folder when no source is given.
    """

    title: str
    description: str
    space: FactorSpace
    shape: tuple[int, int, int]
    renders: bool
    reads: str
    origin: str
    make: Callable
    references: tuple[str, ...] = ()
    default_file: bool = False
    scenes: Scenes | None = None

    def space_of(self, name: str, source: DataSource | None = None) -> FactorSpace:
        """The space of factors, without opening a data set that is rendered. Raises the errors of :meth:`open`."""
        return self.space if source is None and self.renders else self.open(name, source)[0]

    def open(self, name: str, source: DataSource | None = None, **options):
        """``(space, render)``, rendered or read from a source.

        Raises:
          ValueError: without a source for a data set that needs one, saying which file, where it is published and how
            to pass it; with a source for one that reads no file.
          FileNotFoundError: if the file is not there.
        """
        if source is not None:
            if not self.reads:
                raise ValueError(f"source: {name} is drawn and reads no file, got {source.path}")
            return source.opened(self.make, **options)
        if self.renders or self.default_file:
            return self.make(**options)
        raise ValueError(
            f"source: {name} cannot be drawn and needs its file ({self.reads}; {self.origin}); pass it as --source "
            f"{name}=PATH, or in Python as Config(data={name!r}, source=DataSource.of(PATH))"
        )


_DSPRITES_FILES = "official npz or hdf5, or a prepared tensorflow-datasets folder"
_DSPRITES = "Matthey et al. 2017, github.com/google-deepmind/dsprites-dataset"
_VARIANTS = f"after Locatello et al. 2019, section 4, on sprites of {_DSPRITES}"
_OWN_RENDERER = "drawn by jaxdis (Apache-2.0); files on their publisher's terms"
_STANDIN = "made for jaxdis (Apache-2.0)"


def _scream(source=None, **options):
    """Its only required file is the painting, so ``source`` on the command line means the painting."""
    return catalog.scream_dsprites(painting=source, **options)


DATASETS: dict[str, DataSet] = {
    "dsprites": DataSet(
        "dSprites",
        "white square, ellipse or heart on black",
        sprites.SPACE,
        (64, 64, 1),
        True,
        _DSPRITES_FILES,
        f"{_DSPRITES}; {_OWN_RENDERER}",
        catalog.dsprites,
        references=("matthey2017",),
    ),
    "hearts": DataSet(
        "Hearts",
        "upright hearts of dSprites, 32 × 32: models train in seconds",
        HEARTS_SPACE,
        (32, 32, 1),
        True,
        "",
        f"made for jaxdis from sprites of {_DSPRITES}; {_OWN_RENDERER}",
        catalog.hearts,
        references=("matthey2017",),
    ),
    "color_dsprites": DataSet(
        "Color-dSprites",
        "dSprites, each sprite in a random color (drawn again each time)",
        sprites.SPACE,
        (64, 64, 3),
        True,
        _DSPRITES_FILES,
        f"{_VARIANTS}; {_OWN_RENDERER}",
        catalog.color_dsprites,
        references=("locatello2019", "matthey2017"),
    ),
    "noisy_dsprites": DataSet(
        "Noisy-dSprites",
        "dSprites on uniform noise (drawn again each time)",
        sprites.SPACE,
        (64, 64, 3),
        True,
        _DSPRITES_FILES,
        f"{_VARIANTS}; {_OWN_RENDERER}",
        catalog.noisy_dsprites,
        references=("locatello2019", "matthey2017"),
    ),
    "scream_dsprites": DataSet(
        "Scream-dSprites",
        "dSprites as negatives on random pieces of a painting",
        sprites.SPACE,
        (64, 64, 3),
        False,
        "a picture file of Munch's The Scream",
        f"{_VARIANTS}; painting: Wikimedia Commons, The_Scream.jpg, public domain",
        _scream,
        references=("locatello2019", "matthey2017"),
        default_file=True,
    ),
    "multi_dsprites": DataSet(
        "Multi-dSprites",
        "1 to 4 (at most 5) colored sprites that occlude one another, with instance masks",
        multi_sprites.space(),
        (64, 64, 3),
        True,
        _DSPRITES_FILES,
        f"after Dang-Nhu 2022, table 7, on sprites of {_DSPRITES}; {_OWN_RENDERER}",
        lambda source=None, **options: catalog.multi_dsprites(source=source, **options),
        references=("dangnhu2022", "matthey2017"),
        scenes=Scenes(
            multi_sprites.labels,
            multi_sprites.masks,
            multi_sprites.complete,
            multi_sprites.steps,
            categorical=("shape",),
            background="background",
            extrinsic=("orientation", "x", "y"),
        ),
    ),
    "shapes3d": DataSet(
        "Shapes3D",
        "an object in a room: hues of floor, wall and object, scale, shape, orientation",
        SHAPES3D_SPACE,
        (64, 64, 3),
        True,
        "official hdf5, or a prepared tensorflow-datasets folder",
        f"Burgess and Kim 2018, github.com/google-deepmind/3d-shapes; {_OWN_RENDERER}",
        catalog.shapes3d,
        references=("burgesskim2018",),
    ),
    "mpi3d": DataSet(
        "MPI3D",
        "a robot arm holding an object (variants toy, realistic, real, complex, challenge)",
        mpi3d.SPACE,
        (64, 64, 3),
        False,
        "official npz",
        "Gondal et al. 2019, github.com/rr-learning/disentanglement_dataset; CC BY 4.0",
        catalog.mpi3d,
        references=("gondal2019",),
    ),
    "cars3d": DataSet(
        "Cars3D",
        "183 car models from 4 elevations and 24 azimuths",
        cars3d.SPACE,
        (64, 64, 3),
        False,
        "official tar.gz or the folder it unpacks to",
        f"Reed et al. 2015, {cars3d.WHERE}; on its publisher's terms",
        catalog.cars3d,
        references=("reed2015",),
    ),
    "smallnorb": DataSet(
        "SmallNORB",
        "gray toys under a moving camera and lamp; the instance is hidden (drawn again each time)",
        smallnorb.SPACE,
        (64, 64, 1),
        False,
        "folder of the six official matrices (.mat or .mat.gz), or a prepared tensorflow-datasets folder",
        f"LeCun et al. 2004, {smallnorb.WHERE}; for research, not to be sold",
        catalog.smallnorb,
        references=("lecun2004",),
    ),
    "teapots": DataSet(
        "Teapots",
        "a teapot seen from a hemisphere, in any color; all factors are continuous",
        teapot.SPACE,
        (64, 64, 3),
        True,
        "official npz",
        f"Eastwood and Williams 2018, github.com/cianeastwood/qedr; {_OWN_RENDERER}",
        catalog.teapots,
        references=("eastwood2018",),
    ),
    "clevr6": DataSet(
        "CLEVR6",
        "3 to 6 solids of rubber or metal on a plane, with shadows, mirrors and instance masks",
        clevr_space.space(),
        (128, 128, 3),
        True,
        "official TFRecord file of CLEVR with masks, or a prepared tensorflow-datasets folder",
        "after Johnson et al. 2017 and Dang-Nhu 2022, table 7; masks: Kabra et al. 2019, "
        f"github.com/google-deepmind/multi_object_datasets; {_OWN_RENDERER}",
        lambda source=None, **options: catalog.clevr6(source=source, **options),
        references=("dangnhu2022", "greff2019", "johnson2017", "kabra2019"),
        scenes=Scenes(
            clevr_space.labels,
            clevr_space.masks,
            clevr_space.complete,
            clevr_space.radius,
            categorical=("shape", "material"),
            extrinsic=("rotation", "x", "y"),
        ),
    ),
    "standin_turntable": DataSet(
        "Stand-in for Cars3D",
        "NOT Cars3D: box cars with its factors, sizes and image shape, to run code without the file",
        standins.TURNTABLE_SPACE,
        (64, 64, 3),
        True,
        "",
        _STANDIN,
        catalog.standin_turntable,
    ),
    "standin_gray_turntable": DataSet(
        "Stand-in for SmallNORB",
        "NOT SmallNORB: gray box toys with its factors (hidden instance too), to run code without the file",
        standins.GRAY_TURNTABLE_SPACE,
        (64, 64, 1),
        True,
        "",
        _STANDIN,
        catalog.standin_gray_turntable,
    ),
    "standin_arm": DataSet(
        "Stand-in for MPI3D",
        "NOT MPI3D: an arm of one link with its factors and sizes, to run code without the file",
        standins.ARM_SPACE,
        (64, 64, 3),
        True,
        "",
        _STANDIN,
        catalog.standin_arm,
    ),
}
