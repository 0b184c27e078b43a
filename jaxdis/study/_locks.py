"""File locks: processes that share a study's directory wait for each other, and train no batch twice.

No result depends on them. On a file system without locks, processes may train the same batch in one folder, where each
file is written whole, and each cell's first record counts.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from jaxdis._core.files import remove_leftovers

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a file's lock, which ends with the process; False while another holds it, unless this one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        taken = True
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                taken = False
            except OSError:  # a file system without locks
                pass
        yield taken


def lock_of(folder: Path) -> Path:
    """Name the file that locks a batch's folder."""
    return folder.with_name(f"{folder.name}.lock")


def clear(folder: Path) -> None:
    """Remove a finished batch's folder, and its lock: whoever still waits for it finds every cell published."""
    shutil.rmtree(folder, ignore_errors=True)
    lock_of(folder).unlink(missing_ok=True)


def clear_all(folder: Path) -> None:
    """Remove all batch folders that nobody holds, in a study that has nothing left to train."""
    if not folder.is_dir():
        return
    remove_leftovers(folder)
    for name in {path.name.removesuffix(".lock") for path in folder.iterdir()}:
        with locked(lock_of(folder / name), wait=False) as taken:
            if taken:
                clear(folder / name)
