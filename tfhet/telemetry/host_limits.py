"""The limits of this process's control groups: CPU time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Lowest CPU limit of this process's control groups and of those above them, in CPUs; None: no limit."""
    return _lowest(root, "cpu", _quota)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Lowest memory limit of this process's control groups and of those above them, in bytes; None: no limit."""
    found = _lowest(root, "memory", _limit)
    return None if found is None else int(found)


def _lowest(root: Path, controller: str, read: Callable[[Path], list[float]]) -> float | None:
    return min((limit for folder in _groups(root, controller) for limit in read(folder)), default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The possible folders of this process's groups, and of the groups above them."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        group = Path(path.strip("/"))
        for tree in (controller, controllers) if controllers else ("", "unified"):
            for folder in (group, *group.parents):
                yield root / "sys/fs/cgroup" / tree / folder


def _quota(folder: Path) -> list[float]:
    words = _text(folder / "cpu.max").split() or [_text(folder / f"cpu.cfs_{each}_us") for each in ("quota", "period")]
    try:
        quota, period = map(float, words)
    except ValueError:  # "max", or no such file
        return []
    return [quota / period] if quota > 0 else []


_NO_LIMIT = 1 << 60
"""Version 1 has its highest number if there is no limit."""


def _limit(folder: Path) -> list[float]:
    text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
    return [float(text)] if text.isdigit() and int(text) < _NO_LIMIT else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
