"""``jaxdis encode``: representations of images under a trained zoo, as a file that ``jaxdis score`` reads."""

import dataclasses
from pathlib import Path

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache
from jaxdis.cli._outputs import check_not_input, make_room

# Encoded at a time.
IMAGES = 2048


@dataclasses.dataclass(frozen=True)
class Encode:
    """Encode images with every member of a trained zoo, and write codes and factors to an .npz.

    The images are drawn from a data set, by default the zoo's own, or read from a file.
    """

    zoo: tyro.conf.Positional[Path]
    """Folder that `jaxdis train` wrote, or its zoo.npz."""
    out: Path
    """The .npz to write: codes [members, samples, codes], variances, and factors, names and sizes if they are known."""
    data: str | None = None
    """Name of a data set of `jaxdis list data`; by default the one on which the zoo was trained."""
    source: Path | None = None
    """The data set's official file, for one that is read from it."""
    images: Path | None = None
    """.npy of images [n, height, width, channels], uint8 or in [0, 1], instead of a data set.
    Or an .npz with such an array `images` and optionally `factors`, `names` and `sizes`, which are copied."""
    samples: int = 10_000
    """Number of images drawn from the data set."""
    seed: int = 0
    """Random seed of the samples."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis._core.options import Count, Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        checked_value("--samples", Count, self.samples)
        if self.images is not None and self.data is not None:
            raise ValueError("--images: needs images from a file or from --data, got both")
        check_not_input("--out", self.out, (self.zoo, self.images, self.source))
        terminal.start(self.cache)
        import numpy as np

        from jaxdis._core.files import write_whole
        from jaxdis.cli._zoos import load_zoo

        make_room("--out", self.out)
        zoo = load_zoo(self.zoo)
        terminal.first_sign("encoding")
        representation, arrays = self._of_file(zoo) if self.images is not None else self._of_data(zoo)
        if not hasattr(representation, "mean"):
            raise ValueError(f"zoo: needs a model with one code vector per image, got {self.zoo}, which has slots")
        arrays = {"codes": representation.mean, "variances": representation.variance, **arrays}
        write_whole(self.out.resolve(), lambda file: np.savez(file, **arrays))
        members, samples, codes = representation.mean.shape
        words = f"{members} members × {samples:,} samples × {codes} codes in {self.out}"
        after = f"; score them by: jaxdis score {self.out}" if "factors" in arrays else ""
        terminal.console().print(words + after, markup=False, soft_wrap=True)

    def _of_data(self, zoo):
        """Representations of samples of a data set, and their factors."""
        import jax
        import numpy as np

        from jaxdis._core.lookup import look_up
        from jaxdis.data import DATASETS, DataSource

        name = self.data or zoo.config.data
        if name not in DATASETS and self.data is None:
            raise ValueError(f"data: the zoo was trained on data of one's own ({name}); needs --images FILE or --data")
        requested = DataSource.of(self.source) if self.source is not None else None
        source = requested or (zoo.config.source if self.data is None else None)
        space, render = look_up(name, DATASETS, "data set").open(name, source)
        key = jax.random.key(self.seed)
        rows = np.asarray(space.sample(key, self.samples))

        def encoded(places):
            return zoo.encode(rows[places], render=render, key=jax.random.fold_in(key, int(places[0])))

        representation = _by_chunks(encoded, len(rows))
        sizes = [size or 0 for size in space.sizes]
        return representation, {"factors": rows, "names": np.array(space.names), "sizes": np.array(sizes)}

    def _of_file(self, zoo):
        """Representations of the images in a file, and what it knows of their factors."""
        from jaxdis.evaluation._arrays_file import read_images

        images, arrays = read_images(self.images)
        return _by_chunks(lambda places: zoo.encode(images[places]), len(images)), arrays


def _by_chunks(encoded, count: int):
    """Representations ``[m, n, …]`` of rows, chunk by chunk under a progress bar."""
    import jax
    import numpy as np

    from jaxdis._core import executor

    parts = []
    with terminal.bar("encoding", "images") as progress:
        for places in executor.chunks(count, min(count, IMAGES)):
            parts.append(encoded(places))
            progress(min(len(parts) * IMAGES, count), count)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1)[:, :count], *parts)
