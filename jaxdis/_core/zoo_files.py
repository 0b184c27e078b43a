"""Where a trained zoo is: in the folder of a run, or in a file."""

import zipfile
from pathlib import Path

from jaxdis._core.files import open_regular

ZOO_FILE = "zoo.npz"


def is_zoo(path: Path) -> bool:
    """Whether a path is a run's folder or a file that holds a zoo."""
    if path.is_dir():
        return path.suffix != ".zarr"
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return any(name.startswith("a/params/") for name in archive.namelist())
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):  # those who read codes say what is wrong
        return False


def zoo_file(path: Path) -> Path:
    """The file that holds a zoo.

    Raises:
      ValueError: for a folder without a trained zoo.
    """
    file = path / ZOO_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path}: must be a folder that `jaxdis train` completed, with {ZOO_FILE}, got none there")
    return file
