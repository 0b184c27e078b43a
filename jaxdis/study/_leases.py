"""Leases: drivers that share a directory do not train in the same folder. They save work; no result depends on them."""

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from jaxdis._core.files import open_regular, remove_leftovers, temporary_name

# A lease that was not renewed for this long is abandoned. Training renews it after every block of updates.
EXPIRES_AFTER_SECONDS = 3600.0
_MOST_BYTES = 4096
# Tokens of the leases that this process holds.
_HELD: set[str] = set()


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """A batch's folder of checkpoints, or a separate one while another process works in it.

    The lease file identifies its holder: host, process, when and where it started, and a token. A lease is taken over,
    including the checkpoints, if its process is gone (a different process with the same number does not count), if it
    has not been renewed for :data:`EXPIRES_AFTER_SECONDS` by the clock of the file system, or if it is not a valid
    lease.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lease, token = lease_of(folder), secrets.token_hex(8)
    if not _take(lease, f"{socket.gethostname()} {os.getpid()} {_beginning(os.getpid()) or '-'} {token}"):
        yield folder.with_name(f"{folder.name}.{token}")
        return
    _HELD.add(token)
    try:
        yield folder
    finally:
        _HELD.discard(token)
        if _text(lease).endswith(token):
            lease.unlink(missing_ok=True)


def renew(folder: Path) -> None:
    """Record that the holder is alive."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(lease_of(folder))


def clear(folder: Path) -> None:
    """Remove a finished batch's folder and those that other claims on it left behind."""
    for path in (folder, *folder.parent.glob(f"{folder.name.partition('.')[0]}.*")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def clear_all(folder: Path) -> None:
    """Remove the folders of all batches that nobody holds, of a study that has nothing left to train."""
    if not folder.is_dir():
        return
    remove_leftovers(folder)
    for lease in folder.glob("*.lease"):
        if _abandoned(_text(lease), 0.0):
            lease.unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not lease_of(path.with_name(path.name.partition(".")[0])).exists():
            shutil.rmtree(path, ignore_errors=True)


def lease_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lease")


def _take(lease: Path, text: str) -> bool:
    """Write a lease atomically; False while another process holds it."""
    mine = temporary_name(lease)
    try:
        mine.write_text(text, encoding="utf-8")
        now = mine.stat().st_mtime
        for _ in range(2):
            if _linked(mine, lease):
                return True
            try:
                age, holder_text = now - lease.lstat().st_mtime, _text(lease)
            except FileNotFoundError:
                continue
            if not _abandoned(holder_text, age):
                return False
            _set_aside(lease, holder_text)
        return _linked(mine, lease)
    finally:
        mine.unlink(missing_ok=True)


def _linked(file: Path, name: Path) -> bool:
    """Give a file a second name; False if the name is taken."""
    try:
        os.link(file, name)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            with open(name, "xb") as copy:
                copy.write(file.read_bytes())
        except FileExistsError:
            return False
    return True


def _set_aside(lease: Path, holder_text: str) -> None:
    """Remove an abandoned lease, unless another process has taken it over meanwhile."""
    aside = temporary_name(lease)
    try:
        os.rename(lease, aside)
    except FileNotFoundError:
        return
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
        return
    if _text(aside) != holder_text:
        _linked(aside, lease)
    aside.unlink(missing_ok=True)


def _text(lease: Path) -> str:
    try:
        with open_regular(lease, _MOST_BYTES) as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _abandoned(text: str, age: float) -> bool:
    """Whether a lease is abandoned, given its content and the seconds since it was renewed."""
    if age > EXPIRES_AFTER_SECONDS:
        return True
    host, _, rest = text.partition(" ")
    pid, _, rest = rest.partition(" ")
    beginning, _, token = rest.partition(" ")
    if not (pid.isascii() and pid.isdigit()):
        return True
    if host != socket.gethostname() or token in _HELD:
        return False
    if not token or int(pid) == os.getpid() and beginning == _beginning(os.getpid()):
        return True  # no lease of this program, or one of this process that it no longer holds
    here, there = (_beginning(os.getpid()) or "-").split(":"), beginning.split(":")
    if here[0] != there[0]:
        return True  # before the machine was started
    if here[:2] != there[:2]:
        return False  # in another container, whose processes are not seen from here
    return _beginning(int(pid)) != beginning if len(here) > 1 else not _runs(int(pid))


def _beginning(pid: int) -> str | None:
    """An identity that no two processes share: start of the machine, process namespace, start of the process.

    None if there is no such process, or no ``/proc``.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.stat("/proc/self/ns/pid").st_ino
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else f"{boot}:{space}:{fields[18]}"
    except (OSError, IndexError, ValueError):
        return None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
