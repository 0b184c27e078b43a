"""The table of data sets: what each set is, where it comes from, how to load it, and how to get its files."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from jaxdis._core.lookup import look_up
from jaxdis.data import _catalog as catalog
from jaxdis.data import _clevr_space as clevr_space
from jaxdis.data import _multi_sprites as multi_sprites
from jaxdis.data import _sprites as sprites
from jaxdis.data import _standins as standins
from jaxdis.data import _teapot as teapot
from jaxdis.data._data_source import DataSource
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._scenes import Scenes
from jaxdis.data._shapes3d import SPACE as SHAPES3D_SPACE
from jaxdis.data._sprites import HEARTS_SPACE
from jaxdis.data.files import _image_files as image_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet:
    """One row in ``DATASETS``.

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
      references: keys that ``jaxdis list references`` shows; empty for a stand-in.
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
        """The factor space, without opening a data set that is rendered. Raises what :meth:`open` does."""
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
            f"source: {name} cannot be drawn and needs its file ({self.reads}; {self.origin}); give its path "
            "by --source (--help of the command shows the form), or in Python as DataSource.of(PATH)"
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
        title="dSprites",
        description="white square, ellipse or heart on black",
        space=sprites.SPACE,
        shape=(64, 64, 1),
        renders=True,
        reads=_DSPRITES_FILES,
        origin=f"{_DSPRITES}; {_OWN_RENDERER}",
        make=catalog.dsprites,
        references=("matthey2017",),
    ),
    "hearts": DataSet(
        title="Hearts",
        description="upright hearts of dSprites, 32 × 32: models train in seconds",
        space=HEARTS_SPACE,
        shape=(32, 32, 1),
        renders=True,
        reads="",
        origin=f"made for jaxdis from sprites of {_DSPRITES}; {_OWN_RENDERER}",
        make=catalog.hearts,
        references=("matthey2017",),
    ),
    "color_dsprites": DataSet(
        title="Color-dSprites",
        description="dSprites, each sprite in a random color (drawn again each time)",
        space=sprites.SPACE,
        shape=(64, 64, 3),
        renders=True,
        reads=_DSPRITES_FILES,
        origin=f"{_VARIANTS}; {_OWN_RENDERER}",
        make=catalog.color_dsprites,
        references=("locatello2019", "matthey2017"),
    ),
    "noisy_dsprites": DataSet(
        title="Noisy-dSprites",
        description="dSprites on uniform noise (drawn again each time)",
        space=sprites.SPACE,
        shape=(64, 64, 3),
        renders=True,
        reads=_DSPRITES_FILES,
        origin=f"{_VARIANTS}; {_OWN_RENDERER}",
        make=catalog.noisy_dsprites,
        references=("locatello2019", "matthey2017"),
    ),
    "scream_dsprites": DataSet(
        title="Scream-dSprites",
        description="dSprites as negatives on random pieces of a painting",
        space=sprites.SPACE,
        shape=(64, 64, 3),
        renders=False,
        reads="a picture file of Munch's The Scream",
        origin=f"{_VARIANTS}; painting: Wikimedia Commons, The_Scream.jpg, public domain",
        make=_scream,
        references=("locatello2019", "matthey2017"),
        default_file=True,
    ),
    "multi_dsprites": DataSet(
        title="Multi-dSprites",
        description="1 to 4 (at most 5) colored sprites that occlude one another, with instance masks",
        space=multi_sprites.space(),
        shape=(64, 64, 3),
        renders=True,
        reads=_DSPRITES_FILES,
        origin=f"after Dang-Nhu 2022, table 7, on sprites of {_DSPRITES}; {_OWN_RENDERER}",
        make=lambda source=None, **options: catalog.multi_dsprites(source=source, **options),
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
        title="Shapes3D",
        description="an object in a room: hues of floor, wall and object, scale, shape, orientation",
        space=SHAPES3D_SPACE,
        shape=(64, 64, 3),
        renders=True,
        reads="official hdf5, or a prepared tensorflow-datasets folder",
        origin=f"Burgess and Kim 2018, github.com/google-deepmind/3d-shapes; {_OWN_RENDERER}",
        make=catalog.shapes3d,
        references=("burgesskim2018",),
    ),
    "mpi3d": DataSet(
        title="MPI3D",
        description="a robot arm holding an object (variants toy, realistic, real, complex, challenge)",
        space=image_files.MPI3D_SPACE,
        shape=(64, 64, 3),
        renders=False,
        reads="official npz",
        origin="Gondal et al. 2019, github.com/rr-learning/disentanglement_dataset; CC BY 4.0",
        make=catalog.mpi3d,
        references=("gondal2019",),
    ),
    "cars3d": DataSet(
        title="Cars3D",
        description="183 car models from 4 elevations and 24 azimuths",
        space=image_files.CARS3D_SPACE,
        shape=(64, 64, 3),
        renders=False,
        reads="official tar.gz or the folder it unpacks to",
        origin=f"Reed et al. 2015, {image_files.CARS3D_URL}; on its publisher's terms",
        make=catalog.cars3d,
        references=("reed2015",),
    ),
    "smallnorb": DataSet(
        title="SmallNORB",
        description="gray toys under a moving camera and lamp; the instance is hidden (drawn again each time)",
        space=image_files.SMALLNORB_SPACE,
        shape=(64, 64, 1),
        renders=False,
        reads="folder of the six official matrices (.mat or .mat.gz), or a prepared tensorflow-datasets folder",
        origin=f"LeCun et al. 2004, {image_files.SMALLNORB_URL}; for research, not to be sold",
        make=catalog.smallnorb,
        references=("lecun2004",),
    ),
    "teapots": DataSet(
        title="Teapots",
        description="a teapot seen from a hemisphere, in any color; all factors are continuous",
        space=teapot.SPACE,
        shape=(64, 64, 3),
        renders=True,
        reads="official npz",
        origin=f"Eastwood and Williams 2018, github.com/cianeastwood/qedr; {_OWN_RENDERER}",
        make=catalog.teapots,
        references=("eastwood2018",),
    ),
    "clevr6": DataSet(
        title="CLEVR6",
        description="3 to 6 solids of rubber or metal on a plane, with shadows, mirrors and instance masks",
        space=clevr_space.space(),
        shape=(128, 128, 3),
        renders=True,
        reads="official TFRecord file of CLEVR with masks, or a prepared tensorflow-datasets folder",
        origin="after Johnson et al. 2017 and Dang-Nhu 2022, table 7; masks: Kabra et al. 2019, "
        f"github.com/google-deepmind/multi_object_datasets; {_OWN_RENDERER}",
        make=lambda source=None, **options: catalog.clevr6(source=source, **options),
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
        title="Stand-in for Cars3D",
        description="NOT Cars3D: box cars with its factors, sizes and image shape, to run code without the file",
        space=standins.TURNTABLE_SPACE,
        shape=(64, 64, 3),
        renders=True,
        reads="",
        origin=_STANDIN,
        make=catalog.standin_turntable,
    ),
    "standin_gray_turntable": DataSet(
        title="Stand-in for SmallNORB",
        description="NOT SmallNORB: gray box toys with its factors (hidden instance too), to run code without the file",
        space=standins.GRAY_TURNTABLE_SPACE,
        shape=(64, 64, 1),
        renders=True,
        reads="",
        origin=_STANDIN,
        make=catalog.standin_gray_turntable,
    ),
    "standin_arm": DataSet(
        title="Stand-in for MPI3D",
        description="NOT MPI3D: an arm of one link with its factors and sizes, to run code without the file",
        space=standins.ARM_SPACE,
        shape=(64, 64, 3),
        renders=True,
        reads="",
        origin=_STANDIN,
        make=catalog.standin_arm,
    ),
}


# Data sets that tensorflow-datasets downloads, by their names there.
_DOWNLOADED = {"dsprites": "dsprites", "shapes3d": "shapes3d", "smallnorb": "smallnorb", "clevr6": "clevr"}


def prepared(name: str, folder: Path, source: Path | None = None) -> Path:
    """The path to a data set's complete files.

    Args:
      folder: where a download is kept; one that is there already is left as it is.
      source: official files, which are checked instead.
    """
    row = look_up(name, DATASETS, "data set")
    if not row.reads:
        raise ValueError(f"name: must be a data set that reads files, got {name}, which is drawn")
    if source is not None:
        row.open(name, DataSource.of(source))
        return source
    by_hand = f"download it ({row.reads}; {row.origin}), and give its path: jaxdis data prepare {name} --source PATH"
    if name not in _DOWNLOADED:
        raise ValueError(f"name: must be among {', '.join(_DOWNLOADED)} for a download, got {name}; {by_hand}")
    from jaxdis.data.files import _tfds as tfds

    try:
        return tfds.prepare(_DOWNLOADED[name], folder)
    except ImportError:
        raise
    except Exception as error:  # whatever a download raises
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{name}: cannot be downloaded ({type(error).__name__}: {reason}); {by_hand}") from None
