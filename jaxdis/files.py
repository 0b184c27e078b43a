"""Files that are written whole or not at all, and read only where they are files."""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

# A temporary file of this age was left by a writer that was killed.
LEFT_AFTER_SECONDS = 3600.0
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Another process may remove an emptied folder between its creation and the first file in it.
_ATTEMPTS = 3


def write_whole(path: str | Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
    """Write a file under a temporary name, flush it to disk and give it its name, or leave nothing.

    Args:
      write: called with the open file.
      replace: put it in the place of a file that is there; otherwise the first writer wins.

    Returns:
      False if the name was taken and ``replace`` is not set.

    Raises:
      OSError: where it cannot be written; for a full disk, with the folder and what to do.
    """
    path = Path(path)
    for attempt in range(_ATTEMPTS):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _write(path, write, replace)
        except FileNotFoundError:
            if attempt + 1 == _ATTEMPTS:
                raise
        except OSError as error:
            if error.errno in _FULL:
                raise full(error, path.parent, "make room and run again") from error
            raise
    raise AssertionError("unreachable")


def full(error: OSError, folder: str | Path, advice: str) -> OSError:
    """The error of a full disk, saying which folder is meant and what to do."""
    return OSError(error.errno, f"{os.strerror(error.errno)} in {folder}; {advice}")


def is_full(error: BaseException | None) -> bool:
    """Whether this is the error of a full disk or an exhausted quota."""
    return isinstance(error, OSError) and error.errno in _FULL


def temporary_name(path: Path) -> Path:
    """A new name beside a path, which :func:`remove_leftovers` recognizes."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def remove_leftovers(folder: str | Path) -> None:
    """Remove temporary files of a folder whose writers were killed, an hour ago or more."""
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > LEFT_AFTER_SECONDS:
                    os.unlink(path)


@contextlib.contextmanager
def open_regular(path: str | Path, most: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading; anything else, such as a pipe that nobody writes to, is an error.

    Args:
      most: bytes that it may have.

    Raises:
      OSError: for something else than a file, or one that is too large.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    found = os.fstat(descriptor)
    fault = None
    if not stat.S_ISREG(found.st_mode):
        fault = OSError(errno.EINVAL, "needs a regular file, got something else", str(path))
    elif most is not None and found.st_size > most:
        fault = OSError(errno.EFBIG, f"needs at most {most:,} bytes, got {found.st_size:,}", str(path))
    if fault is not None:
        os.close(descriptor)
        raise fault
    with open(descriptor, "rb") as file:
        yield file


def _write(path: Path, write: Callable[[BinaryIO], object], replace: bool) -> bool:
    temporary = temporary_name(path)
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
            return True
        try:
            os.link(temporary, path)  # fails if the name is taken: the first writer wins
        except FileNotFoundError:
            raise
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links: the last writer wins, with the same content
            os.replace(temporary, path)
        return True
    finally:
        temporary.unlink(missing_ok=True)
