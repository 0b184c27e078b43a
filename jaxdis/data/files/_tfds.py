"""tensorflow-datasets without TensorFlow: prepares and reads dsprites, shapes3d and smallnorb by array_record.

This is the only module that imports tensorflow_datasets. Its steps that use TensorFlow are avoided: the image encoder
(given a picture object instead of an array, it encodes with Pillow) and the reader of SmallNORB (replaced by ours).
"""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis.data import _sprites as sprites
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._shapes3d import SPACE as SHAPES3D_SPACE
from jaxdis.data.files import _containers as containers
from jaxdis.data.files import _image_files as image_files


class Set(NamedTuple):
    """How one set of tensorflow-datasets maps onto a lattice.

    Attributes:
      convert: ``convert(path, images [n, h, w, c]) → rows``.
      check: ``check(path, array, space)`` raises ValueError if the complete cached array is wrong; None: no check.
    """

    space: FactorSpace
    splits: tuple[str, ...]
    labels: tuple[str, ...]
    row: tuple[int, ...]
    dtype: type
    convert: Callable[[Path, np.ndarray], np.ndarray]
    check: Callable[[Path, np.ndarray, FactorSpace], None] | None = None


SETS = {
    "dsprites": Set(
        space=sprites.SPACE,
        splits=("train",),
        labels=("label_shape", "label_scale", "label_orientation", "label_x_position", "label_y_position"),
        row=(64, 2),
        dtype=np.uint32,
        convert=lambda path, images: image_files.packed(path, images[..., 0]),
        check=image_files.check_full_circle,
    ),
    "shapes3d": Set(
        space=SHAPES3D_SPACE,
        splits=("train",),
        labels=tuple(f"label_{name}" for name in SHAPES3D_SPACE.names),
        row=(64, 64, 3),
        dtype=np.uint8,
        convert=image_files.with_sky,
    ),
    "smallnorb": Set(
        space=image_files.SMALLNORB_FULL_SPACE,
        splits=("train", "test"),
        labels=("label_category", "instance", "label_elevation", "label_azimuth", "label_lighting"),
        row=(64, 64, 1),
        dtype=np.uint8,
        convert=lambda path, images: np.stack([image_files.shrunk(image[..., 0]) for image in images]),
    ),
}


def prepare(name: str, folder: str | Path) -> Path:
    """Download and prepare a set as array_record files under ``folder``; returns the folder of the prepared version.

    A set that is already prepared there is left unchanged.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import registered

    stock = tfds.builder_cls(name)
    with registered.skip_registration():
        generate = _smallnorb_examples if name == "smallnorb" else stock._generate_examples
        methods = {"_generate_examples": _pictures(generate), "name": name}
        # The stock class finds its metadata next to its own module.
        builder_class = type(stock)("Builder", (stock,), {**methods, "__module__": stock.__module__})
    builder = builder_class(data_dir=str(folder), file_format="array_record")
    builder.download_and_prepare()
    return Path(builder.data_path)


def _pictures(generate: Callable) -> Callable:
    """The builder's examples with arrays converted to Pillow images, which tensorflow-datasets encodes itself."""

    @functools.wraps(generate)
    def pictures(self, *args, **kwargs):
        from PIL import Image

        for key, example in generate(self, *args, **kwargs):
            for feature in ("image", "image2"):
                if feature in example:
                    pixels = np.asarray(example[feature])
                    example[feature] = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
            yield key, example

    return pictures


def _smallnorb_examples(self, split_prefix, dat_path, cat_path, info_path) -> Iterator[tuple[int, dict]]:
    """The stock builder's examples, from our own reader for the matrices."""
    dat, cat, info = (image_files.read_matrix(Path(path)) for path in (dat_path, cat_path, info_path))
    labels = image_files.lattice_labels(cat, info)
    names = SETS["smallnorb"].labels
    for number, (pair, row) in enumerate(zip(dat, labels, strict=True)):
        example = dict(zip(names, row.tolist(), strict=True))
        if self.version > "2.0.0":
            example["id"] = f"{split_prefix}{number:05d}"
        yield number, example | {"image": pair[0][..., None], "image2": pair[1][..., None]}


def images(name: str, folder: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The lattice of a prepared set, memory-mapped from the cache, with rows in the order of ``space``.

    ``folder`` is the version's own folder (which holds dataset_info.json), or the data folder above it. dSprites is
    returned as packed words, the other sets as images.

    Checks: the labels place every cell exactly once, and the pixels pass the checks of the official file.
    """
    chosen = SETS[name]
    space = space or chosen.space
    path = prepared(name, folder)
    build = functools.partial(_decode, path, name, space)
    shape = (space.num_lattice, *chosen.row)
    return containers.decoded(f"{name}-tfds", [path / "dataset_info.json"], shape, chosen.dtype, build)


def prepared(name: str, folder: str | Path) -> Path:
    """The folder of the newest prepared version."""
    where = f"tensorflow-datasets (prepare it by jaxdis.data.files._tfds.prepare({name!r}, folder))"
    folder = containers.existing(folder, what=f"a prepared {name!r}", where=where)
    if (folder / "dataset_info.json").exists():
        held = json.loads((folder / "dataset_info.json").read_text()).get("name")
        if held != name:
            raise ValueError(f"source: {folder} holds the set {held!r}; needs {name!r}")
        return folder
    versions = sorted((folder / name).glob("*/dataset_info.json"))
    if not versions:
        raise FileNotFoundError(f"source: found no {name}/<version>/dataset_info.json under {folder}; needs {where}")
    return versions[-1].parent


def _decode(path: Path, name: str, space: FactorSpace, out: np.ndarray) -> None:
    import tensorflow_datasets as tfds

    chosen = SETS[name]
    labels = []
    builder = tfds.builder_from_directory(path)
    for source in (builder.as_data_source(split=split) for split in chosen.splits):
        for example in (source[number] for number in range(len(source))):
            row = np.array([[example[label] for label in chosen.labels]], np.int64)
            labels.append(row)
            out[containers.cell(path, row, space)] = chosen.convert(path, example["image"][None])
    containers.placed(path, np.concatenate(labels), space)
    if chosen.check is not None:
        chosen.check(path, out, space)
