"""Trained zoos as the command line finds them: the folder of a run, or its zoo.npz."""

from pathlib import Path

ZOO_FILE = "zoo.npz"


def is_zoo(path: Path) -> bool:
    """Whether a path is a run's folder or a file that holds a zoo."""
    import zipfile

    if path.is_dir():
        return True
    if path.suffix != ".npz" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.startswith("params/") for name in archive.namelist())


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
