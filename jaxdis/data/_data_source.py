"""The file that a data set is read from: found by its path, identified by its content."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxdis._core.files import open_regular
from jaxdis._core.options import check_fields, shown

# Arguments of data sets that are files.
_FILES = ("source", "painting")
# Bytes read at a time.
_BLOCK = 1 << 22


@dataclasses.dataclass(frozen=True)
class DataSource:
    """A file, or a folder with files, and options for its data set.

    Two sources with the same content and options are equal, wherever the files are.

    Attributes:
      path: where it is now; not part of its identity. "" if there are only options, for a data set that is rendered.
      options: (name, value) pairs passed to the data set, such as ``("variant", "real")`` for MPI3D. Every data set
        takes ``("pool", 2)``: images with half the height and width, each pixel the mean of 2 × 2.
      checksum: SHA-256 of the content.
    """

    path: str = dataclasses.field(default="", compare=False, metadata={"identity": False})
    options: tuple[tuple[str, Any], ...] = ()
    checksum: str = ""

    def __post_init__(self):
        check_fields(self)
        for name, _ in self.options:
            if name in _FILES:
                raise ValueError(f"options: must be settings of a data set, got {name!r}; files are given as the path")

    @classmethod
    def of(cls, path: str | Path, **options: str | int | float | bool) -> "DataSource":
        """Read the content once for its checksum.

        Raises:
          FileNotFoundError: if there is nothing at the path.
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"source: must be a file or a folder, got {path}, where there is none")
        return cls(str(path.resolve()), tuple(sorted(options.items())), checksum(path))

    def opened(self, make: Callable, **options):
        """A data set's ``make`` with this file and these options.

        Raises:
          ValueError: if the file is no longer the one whose checksum was taken.
        """
        path = Path(self.path)
        if self.path and self.checksum and path.exists() and checksum(path) != self.checksum:
            raise ValueError(
                f"source: must have the SHA-256 {self.checksum[:16]}…, got another content in {path}; "
                "give the file that was used before, or make the source anew by DataSource.of"
            )
        given = dict(self.options)
        pool = given.pop("pool", 1)
        space, render = make(source=self.path or None, **given, **options)
        return space, (render if pool == 1 else render.pooled(pool))


def checksum(path: Path) -> str:
    """SHA-256 of a file, or of all names and contents in a folder; read again only after a change."""
    files = sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]
    stats = [(file, file.stat()) for file in files]
    return _checksum(path, tuple((file, stat.st_ino, stat.st_size, stat.st_ctime_ns) for file, stat in stats))


@functools.lru_cache(maxsize=64)
def _checksum(path: Path, stamps: tuple) -> str:
    digest = hashlib.sha256()
    for file, *_ in stamps:
        if path.is_dir():
            digest.update(f"{file.relative_to(path).as_posix()}\n".encode())
        with open_regular(file) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def check_used(sources: Mapping[str, DataSource], data: Iterable[str]) -> None:
    """Check that every source belongs to a data set that is used."""
    for name in sources:
        if name not in data:
            raise ValueError(f"source: must be a data set that is used ({', '.join(data)}), got {name}")


def sources_of(arguments: tuple[str, ...], options: tuple[str, ...], datasets: Mapping) -> dict[str, DataSource]:
    """Sources from the command line: ``NAME=PATH`` and ``NAME.OPTION=VALUE``."""
    paths = dict(_pair(argument, "source", "NAME=PATH") for argument in arguments)
    settings: dict[str, dict] = {name: {} for name in paths}
    for argument in options:
        place, value = _pair(argument, "data-option", "NAME.OPTION=VALUE")
        name, dot, option = place.partition(".")
        if not dot or name not in settings:
            needed = "NAME.OPTION=VALUE for a data set with a source"
            raise ValueError(f"data-option: must be {needed}, got {shown(argument)}")
        settings[name][option] = value
    for name in paths:
        if name not in datasets:
            raise ValueError(f"source: must be one of {', '.join(datasets)}, got {shown(name)}")
        if not datasets[name].reads:
            raise ValueError(f"source: {name} is drawn and reads no file, got {shown(paths[name])}")
    return {name: DataSource.of(path, **settings[name]) for name, path in paths.items()}


def _pair(argument: str, name: str, form: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not (key and equals and value):
        raise ValueError(f"{name}: must be {form}, got {shown(argument)}")
    return key, value
