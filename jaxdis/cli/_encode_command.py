"""``jaxdis encode``: images as a trained zoo represents them, in a file that ``jaxdis score`` reads."""

import dataclasses
from pathlib import Path

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache, own_pictures
from jaxdis.cli._outputs import check_not_input, make_room


@dataclasses.dataclass(frozen=True)
class Encode:
    """Encode images with every member in a trained zoo, and write codes and factors to an .npz.

    The images are drawn from a data set, by default the zoo's own, or read from a file. With slots, scenes are drawn in
    two groups of similar ones, in which `jaxdis score` can find how slots are ordered.
    """

    zoo: tyro.conf.Positional[Path]
    """Folder that `jaxdis train` wrote, or its zoo.npz."""
    out: Path
    """The .npz to write: codes [members, samples, codes], variances, and factors, names and sizes if they are known.
    Of slots, codes [members, samples, slots, codes] and segments, the slot of each pixel."""
    data: str | None = None
    """Name of a data set of `jaxdis list data`; by default the one on which the zoo was trained.
    Or folder:PATH for pictures of your own, which needs --factors; all of them are encoded, in order."""
    factors: Path | None = None
    """Table of the factors of these pictures, with a column of their names or one row per file in order."""
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
            raise ValueError("--images: must be left out with --data, got both")
        check_not_input("--out", self.out, (self.zoo, self.images, self.source))
        terminal.start(self.cache)
        import numpy as np

        from jaxdis._core.files import write_whole, zoo_file
        from jaxdis.models import Slots, load

        make_room("--out", self.out)
        zoo = load(zoo_file(self.zoo))
        terminal.first_sign("encoding")
        if zoo.config.method.represents is Slots:
            arrays = self._of_slots(zoo)
        else:
            representation, arrays = self._of_file(zoo) if self.images is not None else self._of_data(zoo)
            arrays = {"codes": representation.mean, "variances": representation.variance, **arrays}
        write_whole(self.out.resolve(), lambda file: np.savez(file, **arrays))
        units = ("members", "samples", *(("slots",) if arrays["codes"].ndim == 4 else ()), "codes")
        counts = (f"{count:,} {unit}" for count, unit in zip(arrays["codes"].shape, units, strict=True))
        words = f"{' × '.join(counts)} in {self.out}"
        after = f"; score them by: jaxdis score {self.out}" if "factors" in arrays else ""
        terminal.write_line(words + after)

    def _of_data(self, zoo):
        """Representations for samples from a data set, and their factors."""
        import numpy as np

        from jaxdis.encoders._load import encoded_by_zoo, encoded_pictures

        own = own_pictures(self.data, self.factors)
        with terminal.bar("encoding", "images") as progress:
            if own is not None:
                representation, factors = encoded_pictures(zoo, *own, progress)
            else:
                representation, factors = encoded_by_zoo(zoo, self.samples, self.seed, self.data, self.source, progress)
        sizes = np.array([size or 0 for size in factors.sizes])
        return representation, {"factors": factors.values, "names": np.array(factors.names), "sizes": sizes}

    def _of_slots(self, zoo) -> dict:
        """The arrays with slots: for scenes from a data set, or for images in a file."""
        from jaxdis.encoders._evaluate_slots import drawn_scenes, slots_of_zoo
        from jaxdis.evaluation._arrays_file import read_images

        with terminal.bar("encoding", "images") as progress:
            if self.images is not None:
                images, arrays = read_images(self.images)
                codes, segments = slots_of_zoo(zoo, images, progress=progress)
                return {"codes": codes, "segments": segments, **arrays}
            source = self.source or (zoo.config.source if self.data is None else None)
            samples = self.samples // 2 * 2
            scenes = drawn_scenes(self.data or zoo.config.data, source, samples, groups=2, key=self.seed)
            codes, segments = slots_of_zoo(zoo, scenes.rows, scenes.render, self.seed, progress)
            return arrays_of(codes, segments, scenes.samples(), groups=2)

    def _of_file(self, zoo):
        """Representations for the images in a file, and what it knows about their factors."""
        from jaxdis.encoders._load import by_chunks
        from jaxdis.evaluation._arrays_file import read_images

        images, arrays = read_images(self.images)
        with terminal.bar("encoding", "images") as progress:
            return by_chunks(lambda places: zoo.encode(images[places]), len(images), progress), arrays


def arrays_of(codes, segments, scenes, groups: int) -> dict:
    """The arrays in a file with slots: ``codes [m, n, s, d]``, and ``segments [m, n, h, w]``, each pixel's slot.

    The scenes were drawn in so many equally long groups. A factor is named after its place in each level: cube.color.
    """
    import numpy as np

    names = [".".join(pair) for pair in scenes.labels]
    return {
        "codes": codes,
        "segments": segments,
        "factors": np.asarray(scenes.factors.values),
        "names": np.array(names),
        "sizes": np.array([size or 0 for size in scenes.factors.sizes]),
        "levels": np.array(["object", "property"]),
        "groups": np.array(groups),
        "background": np.array(scenes.background or ""),
        "categorical": np.array([names[j] for j in scenes.categorical], dtype=np.str_),
    }
