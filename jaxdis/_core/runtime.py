"""Process-wide JAX settings: compilation cache, CPU devices. Importing jaxdis sets none of them."""

import contextlib
import errno
import os
import stat
import warnings
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from jaxdis._core import programs

# The environment variable that chooses the folder of all caches.
CACHE_VARIABLE = "JAXDIS_CACHE"
# Compiled programs on disk, and the share of it that is left after some were removed.
MOST_BYTES = 4 << 30
KEPT_SHARE = 0.75
# Seconds that programs of a user take to compile, if they are kept without having been asked for.
SLOW_TO_COMPILE = 0.1

_chosen = False


def default_cache_directory() -> Path:
    """Where caches live: ``$JAXDIS_CACHE`` if it is a folder, else ``$XDG_CACHE_HOME/jaxdis``, else
    ``~/.cache/jaxdis``."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen and not _is_off():
        return Path(chosen)
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "jaxdis"
    try:
        return Path.home() / ".cache" / "jaxdis"
    except RuntimeError:
        reason = f"{CACHE_VARIABLE}: must be a folder for caches where there is no home directory, got none"
        raise OSError(reason) from None


def use_compilation_cache(directory: str | Path | bool | None = None) -> Path | None:
    """Keep compiled programs and, on CPU, traced functions on disk between processes.

    Without this call, the first evaluation or training keeps them in the default folder, unless ``JAXDIS_CACHE=off`` or
    JAX has a folder already. Programs of the whole process are kept that took more than 0.1 s to compile (0 s after
    this call). Beyond :data:`MOST_BYTES`, the files that were not used for longest are removed.

    Args:
      directory: where; None: the folder ``programs`` of :func:`default_cache_directory`; False: nowhere. A folder that
        cannot be written, or in which others may write, is refused: programs are executed as they are read.

    Returns:
      The folder, or None with a warning if the default cannot be used: programs are then not kept.
    """
    global _chosen
    _chosen = True
    if directory is False or directory is None and _is_off():
        _keep_in(None)
        return None
    requested = directory not in (None, True)
    try:
        folder = _usable(Path(directory) if requested else default_cache_directory() / "programs")
    except OSError as error:
        if requested:
            raise OSError(
                error.errno, f"cache: must be a folder that can be written, got {directory} ({error})"
            ) from None
        advice = f"choose a folder by {CACHE_VARIABLE} (or --cache of a command)"
        warnings.warn(f"compiled programs are not kept: {error}; {advice}", stacklevel=2)
        return None
    _keep_in(folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    return folder


def keep_programs() -> None:
    """Use the default cache if nothing has been chosen in this process; where that is impossible, go on without."""
    global _chosen
    if _chosen or jax.config.jax_compilation_cache_dir or _is_off():
        return
    _chosen = True
    with contextlib.suppress(OSError):
        _keep_in(_usable(default_cache_directory() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", SLOW_TO_COMPILE)


def _is_off() -> bool:
    return os.environ.get(CACHE_VARIABLE, "").lower() in ("off", "0", "none")


def _usable(folder: Path) -> Path:
    """The folder, made for its owner alone, and with room for more; an error if everybody may write in it.

    Files that were not used for longest are removed if there are more than ``MOST_BYTES`` of them.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not os.access(folder, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    if os.name == "posix" and folder.stat().st_mode & stat.S_IWOTH:
        raise OSError(errno.EACCES, "everybody may write in it; use chmod o-w", str(folder))
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another process may remove files, too
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    size = sum(each for _, each, _ in found)
    for _, each, path in sorted(found) if size > MOST_BYTES else ():
        if size <= KEPT_SHARE * MOST_BYTES:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            size -= each
    return folder


def _keep_in(folder: Path | None) -> None:
    jax.config.update("jax_compilation_cache_dir", None if folder is None else str(folder))
    compilation_cache.reset_cache()  # JAX asks for the folder once, when it compiles its first program
    programs.keep_in(None if folder is None else folder / "traced")


def use_cpu_devices(count: int | None = None) -> int:
    """Present ``count`` CPU devices (default: one per core), over which a zoo is sharded; returns how many there are.

    Once JAX has created an array, these are those that it began with. An accelerator remains the default device.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", count or cores)
    except RuntimeError:  # JAX has begun
        return len(jax.devices("cpu"))
    return count or cores


def forget_programs_if_many(share: float = 0.4) -> bool:
    """Forget all compiled programs if they hold more than a share of the memory maps that a process may have.

    Each program on CPU holds dozens of maps; Linux allows 65,530 by default, beyond which JAX crashes. For long runs
    with many different programs. Returns whether they were forgotten (never on other systems).
    """
    try:
        held = Path("/proc/self/maps").read_bytes().count(b"\n")
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return False
    if held <= share * allowed:
        return False
    jax.clear_caches()
    return True
