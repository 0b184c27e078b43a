"""Leases: drivers that share a directory do not train in one folder. An optimisation; results are safe without it."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

# A lease that was not renewed for this long is abandoned. Training renews it after every block of updates.
EXPIRES_AFTER_SECONDS = 3600.0


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """A batch's folder of checkpoints, or one of this process's own while another process works in it.

    The lease file names its holder. That of a process which is gone, or which has not renewed it for
    :data:`EXPIRES_AFTER_SECONDS`, is taken over, checkpoints and all.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lease = lease_of(folder)
    for _ in range(2):
        try:
            with open(lease, "x", encoding="utf-8") as file:
                file.write(f"{socket.gethostname()} {os.getpid()}")
        except FileExistsError:
            if not _abandoned(lease):
                break
            lease.unlink(missing_ok=True)
            continue
        try:
            yield folder
        finally:
            lease.unlink(missing_ok=True)
        return
    yield folder.with_name(f"{folder.name}.{socket.gethostname()}.{os.getpid()}")


def renew(folder: Path) -> None:
    """Tell others that the holder lives."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(lease_of(folder))


def lease_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lease")


def _abandoned(lease: Path) -> bool:
    """Whether the holder was a process of this host that no longer runs, or let its lease run out."""
    try:
        if time.time() - lease.stat().st_mtime > EXPIRES_AFTER_SECONDS:
            return True
        host, pid = lease.read_text(encoding="utf-8").split()
        if host == socket.gethostname():
            os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):  # gone meanwhile, or not yet written
        return False
    return False
