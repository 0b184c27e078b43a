"""Data sets: a function for each, which returns (space, render), and the table of what each is and how to get it.

Also an example zoo of codes, and contact sheets: one image row per factor, in which this factor varies and all others
are fixed.
"""

import dataclasses
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num, PRNGKeyArray, UInt8

from jaxdis._core.files import read_arrays
from jaxdis._core.options import Count, Natural, Range, Seed, checked, look_up
from jaxdis.data import _clevr_render as clevr
from jaxdis.data import _lattice as lattice
from jaxdis.data import _multi_sprites as multi_sprites
from jaxdis.data import _sprites as sprites
from jaxdis.data import _teapot as teapot
from jaxdis.data._data_source import DataSource
from jaxdis.data._factor_space import FactorSpace, middles
from jaxdis.data._lattice import Gather, HiddenGather, HostGather, ListedSpace, NearestListed
from jaxdis.data._render import Render, checked_dtype
from jaxdis.data._scenes import Scenes, labels_of
from jaxdis.data._shapes3d import LAYERS_NAME, LAYERS_SHAPE, build_layers, draw_layered, draw_traced
from jaxdis.data._shapes3d import SPACE as SHAPES3D_SPACE
from jaxdis.data._sprites import HEARTS_SPACE, draw_hearts
from jaxdis.data.files import _image_files as image_files
from jaxdis.factors import Factors

Pair = tuple[FactorSpace, Render]


@checked
def dsprites(source: str | Path | None = None, *, circular: bool = False, dtype="float32") -> Pair:
    """Render dSprites (Matthey et al. 2017): a white square, ellipse or heart on black, [64, 64, 1].

    Args:
      source: the official npz or hdf5 file, or a tensorflow-datasets folder with a prepared ``dsprites``; None renders
        the images.
      circular: whether metrics take orientations as angles instead of as classes, as in the papers; the last
        orientation is the first.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    return _of_sprites(sprites.draw, 1, False, source, circular, dtype)


@checked
def hearts(*, dtype="float32") -> Pair:
    """Render upright dSprites hearts at half the resolution, [32, 32, 1]: scale, x and y vary, in 3,072 images.

    ``dtype`` as for :func:`dsprites`.
    """
    return HEARTS_SPACE, Render((), draw_hearts, HEARTS_SPACE.sizes, (32, 32, 1), checked_dtype(dtype))


@checked
def color_dsprites(source: str | Path | None = None, *, circular: bool = False, dtype="float32") -> Pair:
    """Render Color-dSprites (Locatello et al. 2019): a sprite in a random color, [64, 64, 3]; see :func:`dsprites`."""
    return _of_sprites(sprites.draw_colored, 3, True, source, circular, dtype)


@checked
def noisy_dsprites(source: str | Path | None = None, *, circular: bool = False, dtype="float32") -> Pair:
    """Render Noisy-dSprites (Locatello et al. 2019): the sprite on noise, [64, 64, 3]; see :func:`dsprites`."""
    return _of_sprites(sprites.draw_noisy, 3, True, source, circular, dtype)


@checked
def scream_dsprites(
    painting=None, source: str | Path | None = None, *, circular: bool = False, dtype="float32"
) -> Pair:
    """Render Scream-dSprites (Locatello et al. 2019): the sprite as a negative on part of a painting, [64, 64, 3].

    Args:
      painting: a picture file of The Scream, or a float32 array [height, width, 3] in [0, 1]; None reads
        ``the_scream.jpg`` in the cache folder.
      source, circular, dtype: as for :func:`dsprites`.

    Raises:
      FileNotFoundError: without the painting; the message says where to save it.
    """
    is_array = isinstance(painting, np.ndarray)
    picture = sprites.checked_painting(painting) if is_array else sprites.load_painting(painting)
    space, render = _of_sprites(sprites.draw_painted, 3, True, source, circular, dtype)
    return space, dataclasses.replace(render, tables=(*render.tables, jnp.asarray(picture)))


@checked
def multi_dsprites(
    max_objects: int = 4, min_objects: int = 1, source: str | Path | None = None, *, dtype="float32"
) -> Pair:
    """Render Multi-dSprites (Dang-Nhu 2022): 1 to 5 colored sprites that hide each other, [64, 64, 3].

    ``space.masks(factors)`` are the instance masks.

    Args:
      max_objects, min_objects: how many objects a scene may have.
      source, dtype: as for :func:`dsprites`.
    """
    space = multi_sprites.space(max_objects, min_objects)
    _, render = _of_sprites(multi_sprites.Painter(min_objects), 3, False, source, False, dtype)
    return space, dataclasses.replace(render, sizes=space.sizes)


@checked
def shapes3d(source: str | Path | None = None, *, cached: bool = True, resident: bool = False, dtype="float32") -> Pair:
    """Render Shapes3D (Burgess and Kim 2018): an object in a room, six factors, [64, 64, 3].

    Args:
      source: the official hdf5 file, or a tensorflow-datasets folder with a prepared ``shapes3d``; None renders the
        images.
      cached: whether to gather from traced layers (183 MB in memory and on disk, built once in seconds) instead of
        tracing each image; ignored with a ``source``.
      resident: whether to copy all images of ``source`` to the device (5.9 GB) instead of leaving them on disk.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    space, dtype = SHAPES3D_SPACE, checked_dtype(dtype)
    if source is not None:
        path = _decoded("shapes3d", Path(source), image_files.shapes3d_images).filename
        return space, _from_disk(lattice.open_array, path, space, dtype, Path(source).name, resident)
    if not cached:
        return space, Render((), draw_traced, space.sizes, (64, 64, 3), dtype)
    layers = lattice.cached(LAYERS_NAME, LAYERS_SHAPE, np.uint8, build_layers)
    return space, Render((jnp.asarray(layers),), draw_layered, space.sizes, (64, 64, 3), dtype)


@checked
def mpi3d(source: str | Path | None = None, variant: str = "toy", *, resident: bool = False, dtype="float32") -> Pair:
    """Read MPI3D (Gondal et al. 2019) in place from the official npz: a robot arm, seven factors, [64, 64, 3].

    Args:
      source: the official npz file.
      variant: "toy", "realistic", "real" (1,036,800 images each), "complex" or "challenge" (460,800 each; the latter is
        any file from the 2019 competition).
      resident: whether to copy all images to the device (12.7 GB) instead of leaving them on disk.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    space = image_files.mpi3d_space(variant)
    path = image_files.checked_mpi3d(_needed(source, "mpi3d", "official npz"), variant)
    return space, _from_disk(image_files.open_mpi3d, path, space, checked_dtype(dtype), path.name, resident)


@checked
def cars3d(source: str | Path | None = None, *, circular: bool = False, dtype="float32") -> Pair:
    """Read Cars3D (Reed et al. 2015): 183 cars from 4 × 24 viewpoints, [64, 64, 3].

    Args:
      source: the official archive or its folder.
      circular: whether metrics take azimuths as angles instead of as classes.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    source = _needed(source, "cars3d", "official archive or the folder in it")
    of = image_files.CARS3D_SPACE
    space, tables = _turning(of, circular, azimuth=24), (jnp.asarray(image_files.cars3d_images(source)),)
    return space, _gathered(tables, Gather(of), space, (64, 64, 3), dtype, False, Path(source).name)


@checked
def smallnorb(source: str | Path | None = None, *, circular: bool = False, dtype="float32") -> Pair:
    """Read SmallNORB (LeCun et al. 2004): toys under a turning camera and lamp, four factors, [64, 64, 1].

    The instance (which of a category's ten toys is shown) is not a factor: it is drawn for every image, from the key.

    Args:
      source: the folder with the six official matrices, or a tensorflow-datasets folder with a prepared ``smallnorb``.
      circular: whether metrics take azimuths as angles instead of as classes.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    folder = Path(_needed(source, "smallnorb", "folder of the six official matrices"))
    if (folder / "dataset_info.json").exists() or (folder / "smallnorb").is_dir():
        from jaxdis.data.files import _tfds as tfds

        images = tfds.images("smallnorb", folder)
    else:
        images = image_files.smallnorb_images(folder)
    draw = HiddenGather(image_files.SMALLNORB_FULL_SPACE, "instance")
    space = image_files.SMALLNORB_SPACE
    render = _gathered((jnp.asarray(images),), draw, space, (64, 64, 1), dtype, True, folder.name)
    return _turning(space, circular, azimuth=18), render


@checked
def teapots(
    source: str | Path | None = None,
    *,
    part: Literal["all", "train", "validation", "test"] = "all",
    side: Count = 64,
    circular: bool = False,
    dtype="float32",
) -> Pair:
    """Render teapots (Eastwood & Williams 2018) in any color, seen from any point on a hemisphere, [64, 64, 3].

    Five continuous factors: azimuth, elevation, red, green, blue. The published images' light and background are
    unknown; here the lamp is fixed and the background black. ``space.outside(jaxdis.data._teapot.Gap())`` leaves out
    the combinations for the paper's zero-shot transfer.

    Args:
      source: the official ``teapots.npz``; None renders the images. A file's space yields only its images.
      part: which images in a file, in its order: the first 80 % are for training, the next 10 % for validation and the
        last 10 % for testing, as in the paper.
      side: height and width of rendered images, in pixels.
      circular: whether metrics take the azimuth as an angle instead of as a number.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    space, dtype = _turning(teapot.SPACE, circular, azimuth=2 * np.pi), checked_dtype(dtype)
    if source is None:
        if part != "all":
            raise ValueError(f"part: must be given with a source, got {part!r} without one")
        return space, Render((), teapot.Draw(side), space.sizes, (side, side, 3), dtype)
    if side != 64:
        raise ValueError(f"side: must be 64 with a source, got {side}")
    factors, images = image_files.teapots(source, part)
    tables = (jnp.asarray(factors), jnp.asarray(images))
    space = ListedSpace.over(space, factors)
    return space, _gathered(tables, NearestListed(), space, (64, 64, 3), dtype, False, Path(source).name)


@checked
def clevr6(
    max_objects: Count = clevr.MOST_OBJECTS,
    min_objects: Count = clevr.LEAST_OBJECTS,
    source: str | Path | None = None,
    *,
    side: Count = 128,
    bounce: bool = True,
    shadows: bool = True,
    supersampled: Count = 1,
    colors: Literal["palette", "levels"] = "palette",
    jitter: bool = True,
    rotation: Literal["released", "degrees"] = "released",
    min_pixels: Natural = 200,
    dtype="float32",
) -> Pair:
    """Render CLEVR6 (Greff et al. 2019; Dang-Nhu 2022): 3 to 6 rubber or metal solids on a plane, [128, 128, 3].

    Scenes, camera and lamps are CLEVR's (Johnson et al. 2017); light is computed more simply, with
    hard shadows and one bounce in mirrors. ``space.masks(factors)`` are the instance masks. Each object's color
    channels, rotation, x and y are continuous factors; so is where camera and lamps are.

    Args:
      max_objects, min_objects: how many objects a scene may have.
      source: the official CLEVR file with masks (Kabra et al. 2019); None renders the images. A file's space yields
        only its images, and only ``side`` and ``min_pixels`` apply to it.
      side: images' height and width, in pixels.
      bounce: whether metal reflects the scene.
      shadows: whether objects cast shadows.
      supersampled: rays per pixel in each direction.
      colors: ``palette``: an object has one of CLEVR's eight colors; ``levels``: each channel is one of 0, 0.2, …, 1,
        as in Dang-Nhu's evaluation (table 7).
      jitter: whether camera and lamps move from scene to scene.
      rotation: ``released``: the factor's value is an angle in radians, though it runs from 0 to 360, as in the
        released code; ``degrees``: the value is an angle in degrees.
      min_pixels: how many pixels each object must show, in the original 320 × 240 picture; 0 admits hidden objects.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    dtype = checked_dtype(dtype)
    if source is not None:
        from jaxdis.data.files import _clevr_files as files

        scenes = files.read(source, side, min_pixels)
        tables = (jnp.asarray(scenes.factors), jnp.asarray(scenes.images))
        name, shape = Path(source).name, (side, side, 3)
        return scenes.space, _gathered(tables, NearestListed(), scenes.space, shape, dtype, False, name)
    view = clevr.View(side, rotation, min_objects)
    space = clevr.space(max_objects, min_objects, colors=colors, jitter=jitter, min_pixels=min_pixels, view=view)
    draw = clevr.Draw(view, bounce, shadows, supersampled)
    return space, Render((), draw, space.sizes, (side, side, 3), dtype)


def _needed(source: str | Path | None, name: str, what: str) -> str | Path:
    if source is None:
        raise ValueError(f"source: must be the file of {name} (the {what}), which cannot be drawn, got None")
    return source


def _gathered(tables, draw, space, shape, dtype, draws_noise, name) -> Render:
    return Render(tables, draw, space.sizes, shape, checked_dtype(dtype), draws_noise, f"file:{name}")


def _from_disk(open_images, path, space, dtype, name, resident) -> Render:
    """A lattice with color images that stays on disk, or is copied to the device as a whole."""
    if resident:
        images = jnp.asarray(open_images(str(path)))
        return _gathered((images,), Gather(space), space, (64, 64, 3), dtype, False, name)
    draw = HostGather(open_images, str(path), space.sizes, (64, 64, 3))
    return _gathered((), draw, space, (64, 64, 3), dtype, False, name)


def _decoded(name: str, source: Path, read: Callable[[Path], np.memmap]) -> np.memmap:
    """The lattice in an official file, or in a prepared tensorflow-datasets folder."""
    if not source.is_dir():
        return read(source)
    from jaxdis.data.files import _tfds as tfds

    return tfds.images(name, source)


def _turning(space: FactorSpace, circular: bool, **periods: float | int) -> FactorSpace:
    """The space itself, or with factors that metrics take as angles."""
    return space.circling(periods) if circular else space


def _of_sprites(draw, channels, draws_noise, source, circular, dtype) -> Pair:
    """A set based on dSprites: rendered by formula, or read from its official file."""
    tables, name = (), "procedural"
    if source is not None:
        words = _decoded("dsprites", Path(source), image_files.dsprites_words)
        tables, name = (jnp.asarray(words),), f"file:{Path(source).name}"
    space = _turning(sprites.SPACE, circular, orientation=39)
    return space, Render(tables, draw, space.sizes, (64, 64, channels), checked_dtype(dtype), draws_noise, name)


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
      references: keys that ``jaxdis list references`` shows.
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


def _row(load: Callable, space: FactorSpace, **more) -> DataSet:
    """A row whose words are in ``data_sets.toml``."""
    words = _WORDS[load.__name__]
    return DataSet(**words | {"references": tuple(words["references"]), "space": space, "make": load} | more)


# The painting is the only file that Scream-dSprites needs, and so the source that it is given.
_OF_PAINTING = {
    "renders": False,
    "default_file": True,
    "make": lambda source=None, **options: scream_dsprites(painting=source, **options),
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
    clevr.radius,
    categorical=("shape", "material"),
    extrinsic=("rotation", "x", "y"),
)

DATASETS: dict[str, DataSet] = {
    load.__name__: _row(load, space, **more)
    for load, space, more in (
        (dsprites, sprites.SPACE, {"shape": (64, 64, 1)}),
        (hearts, HEARTS_SPACE, {"shape": (32, 32, 1)}),
        (color_dsprites, sprites.SPACE, {}),
        (noisy_dsprites, sprites.SPACE, {}),
        (scream_dsprites, sprites.SPACE, _OF_PAINTING),
        (multi_dsprites, multi_sprites.space(), {"scenes": _OF_SPRITES}),
        (shapes3d, SHAPES3D_SPACE, {}),
        (mpi3d, image_files.MPI3D_SPACE, {"renders": False}),
        (cars3d, image_files.CARS3D_SPACE, {"renders": False}),
        (smallnorb, image_files.SMALLNORB_SPACE, {"shape": (64, 64, 1), "renders": False}),
        (teapots, teapot.SPACE, {}),
        (clevr6, clevr.space(), {"shape": (128, 128, 3), "scenes": _OF_SOLIDS}),
    )
}


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
    from jaxdis.data.files import _tfds as tfds

    if name not in tfds.SETS:
        raise ValueError(f"name: must be among {', '.join(tfds.SETS)} for a download, got {name}; {by_hand}")
    try:
        return tfds.prepare(name, folder)
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


# Of a contact sheet: images in a row, and the pixels between images and their gray.
_MOST_COLUMNS, _GAP, _GRAY = 12, 2, 128
# With these limits a sheet of 64 × 64 images is at most a few thousand pixels wide.
Zoom = Annotated[int, Range(1, 16)]


@checked
def traversals(space: FactorSpace, key: PRNGKeyArray, columns: Count = _MOST_COLUMNS) -> Num[np.ndarray, "k c k"]:
    """Factors ``[k, columns, k]``: row j fixes one random cell but varies factor j from its first to its last value.

    A factor with fewer values than columns shows each once, and the rest of its row repeats the last.
    """
    center = np.asarray(space.sample(key, 1))[0].copy()
    if "num_objects" in space.names:
        # Otherwise the rows of absent objects would show nothing.
        center[space.position("num_objects")] = space.sizes[space.position("num_objects")] - 1
    rows = np.tile(center, (space.num_factors, columns, 1))
    for j, size in enumerate(space.sizes):
        if size is None:
            rows[j, :, j] = middles(space.values[j], columns)
        elif size > columns:
            rows[j, :, j] = np.round(np.linspace(0, size - 1, columns))
        else:
            rows[j, :, j] = np.minimum(np.arange(columns), size - 1)
    return rows


@checked
def contact_sheet(
    space: FactorSpace, render: Render, key: PRNGKeyArray, columns: Count = _MOST_COLUMNS
) -> UInt8[np.ndarray, "height width 3"]:
    """An image sheet ``uint8 [height, width, 3]``: row j traverses factor j, and gray fills shorter rows."""
    center_key, noise_key = jax.random.split(key)
    factors = traversals(space, center_key, columns)
    images = np.asarray(jax.jit(lambda render, *arguments: render(*arguments))(render, jnp.asarray(factors), noise_key))
    if images.dtype != np.uint8:
        images = np.round(images * 255).astype(np.uint8)
    height, width, _ = render.shape
    images = np.broadcast_to(images, (*images.shape[:-1], 3))
    sheet = np.full((_GAP + len(images) * (height + _GAP), _GAP + columns * (width + _GAP), 3), _GRAY, np.uint8)
    for j, size in enumerate(space.sizes):
        for column in range(min(size or columns, columns)):
            top, left = _GAP + j * (height + _GAP), _GAP + column * (width + _GAP)
            sheet[top : top + height, left : left + width] = images[j, column]
    return sheet


@checked
def save_sheet(name: str, path: str | Path, source: str | Path | None = None, seed: Seed = 0, zoom: Zoom = 1) -> None:
    """Save a data set's contact sheet as a PNG file, each pixel enlarged ``zoom`` times. Needs Pillow (the extra
    ``data``)."""
    from PIL import Image

    chosen = look_up(name, DATASETS, "data set")
    space, render = chosen.open(name, None if source is None else DataSource(str(source)))
    sheet = contact_sheet(space, render, jax.random.key(seed))
    Image.fromarray(sheet.repeat(zoom, 0).repeat(zoom, 1)).save(path, format="PNG")
