"""Trained zoos as the command line finds them: the folder of a run, or its zoo.npz."""

from pathlib import Path

ZOO_FILE = "zoo.npz"


def is_zoo(path: Path) -> bool:
    """Whether a path is a run's folder or a file that holds a zoo."""
    import zipfile

    from jaxdis._core.files import open_regular

    if path.is_dir():
        return True
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return any(name.startswith("a/params/") for name in archive.namelist())
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):  # those who read codes say what is wrong
        return False


def load_zoo(path: Path):
    """Load a zoo from the folder of a run or from its file.

    Raises:
      ValueError: for a folder without a trained zoo, or a damaged file.
    """
    from jaxdis.models import load

    file = path / ZOO_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path}: needs a folder that `jaxdis train` completed, with {ZOO_FILE}, got none there")
    return load(file)
