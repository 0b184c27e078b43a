"""Process-wide JAX settings that a program may choose: compilation cache, CPU devices. Importing jaxdis sets none."""

import errno
import os
import warnings
from pathlib import Path

import jax

from jaxdis._core import programs

# The environment variable that chooses the folder of all caches.
CACHE_VARIABLE = "JAXDIS_CACHE"


def default_cache_directory() -> Path:
    """Where caches live: ``$JAXDIS_CACHE``, else ``$XDG_CACHE_HOME/jaxdis``, else ``~/.cache/jaxdis``."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "jaxdis"
    try:
        return Path.home() / ".cache" / "jaxdis"
    except RuntimeError:
        reason = f"{CACHE_VARIABLE}: needs a folder for caches where there is no home directory, got none"
        raise OSError(reason) from None


def use_compilation_cache(directory: str | Path | None = None) -> Path | None:
    """Keep compiled programs and, on CPU, traced functions (:mod:`jaxdis._core.programs`) on disk between processes.

    Args:
      directory: where; None: the folder ``programs`` of :func:`default_cache_directory`.

    Returns:
      The folder, or None with a warning if the default cannot be written: programs are then not kept.

    Raises:
      OSError: if the given folder cannot be written.
    """
    requested = directory is not None
    try:
        directory = Path(directory) if requested else default_cache_directory() / "programs"
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
    except OSError as error:
        if requested:
            raise OSError(
                error.errno, f"cache: needs a folder that can be written, got {directory} ({error})"
            ) from None
        advice = f"choose a folder by {CACHE_VARIABLE} (or --cache of a command)"
        warnings.warn(f"compiled programs are not kept: {error}; {advice}", stacklevel=2)
        return None
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    programs.keep_in(directory / "traced")
    return directory


def use_cpu_devices(count: int | None = None) -> int:
    """Present ``count`` CPU devices (default: one per core), over which a zoo is sharded.

    An accelerator, if there is one, remains the default device.

    Returns:
      The number of CPU devices. Once JAX has created an array, it is no longer ``count`` but what JAX began with.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", count or cores)
    except RuntimeError:  # JAX has begun
        return len(jax.devices("cpu"))
    return count or cores


def forget_programs_if_many(share: float = 0.4) -> bool:
    """Forget all compiled programs if they hold more than a share of the memory maps that a process may have.

    Each program on CPU holds dozens of maps; Linux allows 65,530 by default, beyond which JAX crashes. For long runs of
    many different programs. Returns whether they were forgotten (never on other systems).
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
