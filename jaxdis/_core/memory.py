"""How much memory is free: on the host, within the limits on this process, or on an accelerator."""

import math
from collections.abc import Iterator
from pathlib import Path

import jax

# Of the memory limit of a group of processes: version 2, which has one tree, and version 1, with a tree per resource.
_GROUPS = {
    "sys/fs/cgroup": ("memory.max", "memory.current", "inactive_file"),
    "sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_bytes(device: jax.Device) -> float:
    """Bytes that a program may still take on a device; infinity if nothing is known."""
    if device.platform == "cpu":
        return host_bytes()
    stats = device.memory_stats() or {}
    return float(stats["bytes_limit"] - stats.get("bytes_in_use", 0)) if "bytes_limit" in stats else math.inf


def host_bytes(root: Path = Path("/")) -> float:
    """The least of what the machine has available and what limits on groups and on this process leave."""
    return float(min((math.inf, *_of_machine(root), *_of_groups(root), *_of_process(root))))


def in_words(count: float | int) -> str:
    """``1.2 GB``."""
    unit, name = next((pair for pair in ((1e9, "GB"), (1e6, "MB")) if count >= pair[0]), (1e3, "kB"))
    return f"{count / unit:,.3g} {name}" if count < 1000 * unit else f"{count / unit:,.0f} {name}"


def _of_machine(root: Path) -> Iterator[float]:
    yield from (1024 * value for name, value in _fields(root / "proc/meminfo").items() if name == "MemAvailable")


def _of_groups(root: Path) -> Iterator[float]:
    """What each group leaves that this process belongs to, from its own to the one of the whole tree."""
    own = [line.rpartition(":")[2].strip("/") for line in _text(root / "proc/self/cgroup").splitlines()]
    for tree, (limit, used, reclaimed) in _GROUPS.items():
        folders = {folder for path in (*own, "") for folder in (Path(path), *Path(path).parents)}
        for folder in (root / tree / folder for folder in folders):
            most, taken = (_text(folder / name).strip() for name in (limit, used))
            if most.isdigit() and taken.isdigit():
                yield int(most) - int(taken) + _fields(folder / "memory.stat").get(reclaimed, 0)


def _of_process(root: Path) -> Iterator[float]:
    try:
        import resource
    except ImportError:  # not a Unix
        return
    taken = _fields(root / "proc/self/status")
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and name in taken:
            yield limit - 1024 * taken[name]


def _fields(path: Path) -> dict[str, int]:
    """Lines ``name: 12 kB`` or ``name 12``."""
    words = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
