"""The table of data sets: what each is, how to load it, and how to get its files; and an example zoo of codes."""

import dataclasses
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float

from jaxdis._core.files import read_arrays
from jaxdis._core.options import look_up
from jaxdis.data import _catalog as catalog
from jaxdis.data import _clevr_space as clevr_space
from jaxdis.data import _multi_sprites as multi_sprites
from jaxdis.data import _sprites as sprites
from jaxdis.data import _standins as standins
from jaxdis.data import _teapot as teapot
from jaxdis.data._data_source import DataSource
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._scenes import Scenes, labels_of
from jaxdis.data._shapes3d import SPACE as SHAPES3D_SPACE
from jaxdis.data._sprites import HEARTS_SPACE
from jaxdis.data.files import _image_files as image_files
from jaxdis.factors import Factors


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet:
    """One row in ``DATASETS``.

    Attributes:
      title, description: its name in the literature, and a line.
      space, shape: its factors with default arguments, and (height, width, channels).
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
    reads: str
    origin: str
    make: Callable
    shape: tuple[int, int, int] = (64, 64, 3)
    renders: bool = True
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


_WORDS = tomllib.loads(Path(__file__).with_name("data_sets.toml").read_text(encoding="utf-8"))


def _row(name: str, space: FactorSpace, make: Callable, **more) -> DataSet:
    """A row whose words are in ``data_sets.toml``."""
    words = _WORDS[name]
    return DataSet(**words | {"references": tuple(words["references"])}, space=space, make=make, **more)


# Of the command line's source, the painting is the only one that Scream-dSprites needs; of the others, the first
# arguments are no sources.
_MAKES = {
    "scream_dsprites": lambda source=None, **options: catalog.scream_dsprites(painting=source, **options),
    "multi_dsprites": lambda source=None, **options: catalog.multi_dsprites(source=source, **options),
    "clevr6": lambda source=None, **options: catalog.clevr6(source=source, **options),
}
_OF_SPRITES = Scenes(
    labels_of,
    multi_sprites.masks,
    multi_sprites.complete,
    multi_sprites.steps,
    categorical=("shape",),
    background="background",
    extrinsic=("orientation", "x", "y"),
)
_OF_SOLIDS = Scenes(
    labels_of,
    lambda space, factors: space.masks(factors),
    lambda space: space.complete(),
    clevr_space.radius,
    categorical=("shape", "material"),
    extrinsic=("rotation", "x", "y"),
)

DATASETS: dict[str, DataSet] = {
    name: _row(name, space, _MAKES.get(name) or getattr(catalog, name), **more)
    for name, space, more in (
        ("dsprites", sprites.SPACE, {"shape": (64, 64, 1)}),
        ("hearts", HEARTS_SPACE, {"shape": (32, 32, 1)}),
        ("color_dsprites", sprites.SPACE, {}),
        ("noisy_dsprites", sprites.SPACE, {}),
        ("scream_dsprites", sprites.SPACE, {"renders": False, "default_file": True}),
        ("multi_dsprites", multi_sprites.space(), {"scenes": _OF_SPRITES}),
        ("shapes3d", SHAPES3D_SPACE, {}),
        ("mpi3d", image_files.MPI3D_SPACE, {"renders": False}),
        ("cars3d", image_files.CARS3D_SPACE, {"renders": False}),
        ("smallnorb", image_files.SMALLNORB_SPACE, {"shape": (64, 64, 1), "renders": False}),
        ("teapots", teapot.SPACE, {}),
        ("clevr6", clevr_space.space(), {"shape": (128, 128, 3), "scenes": _OF_SOLIDS}),
        ("standin_turntable", standins.TURNTABLE_SPACE, {}),
        ("standin_gray_turntable", standins.GRAY_TURNTABLE_SPACE, {"shape": (64, 64, 1)}),
        ("standin_arm", standins.ARM_SPACE, {}),
    )
}

# Data sets that tensorflow-datasets downloads, by their names there.
_DOWNLOADED = {"dsprites": "dsprites", "shapes3d": "shapes3d", "smallnorb": "smallnorb", "clevr6": "clevr"}


def prepared(name: str, folder: Path, source: Path | None = None) -> Path:
    """The path to a data set's complete files: in ``folder``, downloaded unless it is there already, or from
    ``source``, checked."""
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


FILE = Path(__file__).with_name("example.npz")


def example() -> tuple[Float[np.ndarray, "m n d"], Factors, tuple[dict, ...]]:
    """Load codes from 30 trained autoencoders, to try the library before training anything.

    >>> codes, factors, table = jaxdis.data.example()
    >>> codes.shape, factors.names
    ((30, 2000, 8), ('shape', 'scale', 'orientation', 'x', 'y'))
    >>> scores = jaxdis.evaluate(codes, factors, metrics="mig", members=table)
    >>> figure = scores.plot(by="objective")

    The models are perceptrons on dSprites at 32 × 32 pixels: β-VAE, β-TCVAE and DIP-VAE-II at five strengths with two
    seeds each, after 100,000 updates. Their MIG goes from .02 to .39. Orientations span a quarter turn, within which no
    shape repeats. ``benchmarks/example_zoo.py`` in the repository trains the models again.

    Returns:
      ``codes``: float32 ``[m, n, d]``, posterior means, stored as float16. ``factors``: the :class:`jaxdis.Factors` of
      the ``n`` images. ``table``: for each member, a dict of its objective, strength, seed, and final loss in nats.
    """
    header, arrays = read_arrays(FILE)
    columns = dict(zip(header["factors"], arrays["factors"].T, strict=True))
    columns["shape"] = np.array(header["shapes"])[columns["shape"]]
    factors = Factors.from_table(columns, kinds=dict.fromkeys(columns, "classes"))
    table = tuple(dict(zip(header["columns"], member, strict=True)) for member in header["members"])
    return arrays["codes"].astype(np.float32), factors, table
