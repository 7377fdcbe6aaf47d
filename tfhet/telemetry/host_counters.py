"""Counters of CPU, memory and network, and limits: of the whole machine, or of the container of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.record import usable_cores

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 has its highest number if there is no limit."""


@dataclass(frozen=True)
class HostCounts:
    """The counters of a host at one moment. CPU and network are sums since the host started."""

    cpu_s: float
    memory_bytes: int
    """Memory in use now, without file cache that the kernel can drop."""
    received_bytes: int
    """Through all network interfaces except the loopback; `sent_bytes` likewise."""
    sent_bytes: int
    shared_bytes: int | None = None
    """Shared memory and files in tmpfs, such as /dev/shm, a part of `memory_bytes`; None if it is not counted."""


class MachineCounters:
    """Counters of the whole machine, from psutil. `of_cpus`: number of CPUs that can be used."""

    counted = "machine"

    def __init__(self) -> None:
        self.of_cpus = psutil.cpu_count() or 1

    def read(self) -> HostCounts:
        times = psutil.cpu_times()
        busy_s = times.user + times.system + sum(getattr(times, name, 0.0) for name in ("irq", "softirq", "steal"))
        memory = psutil.virtual_memory()
        used = int(memory.total - memory.available)  # `used` of older psutil lacks shared memory
        return HostCounts(float(busy_s), used, *_network(), getattr(memory, "shared", None))


class CgroupCounters:
    """Counters of the cgroup of this process, version 1 or 2 (kernel: admin-guide/cgroup-v1 and cgroup-v2)."""

    counted = "cgroup"

    def __init__(self, cpu: Path, memory: Path):
        """cpu: `cpu.stat` or `cpuacct.usage`. memory: `memory.current` or `memory.usage_in_bytes`."""
        self.of_cpus = usable_cores()
        self._cpu, self._memory = cpu, memory

    @classmethod
    def find(cls, own: Path = OWN_CGROUP, top: Path = CGROUPS) -> CgroupCounters | None:
        """Finds the counters; None if this process is in the root cgroup or cannot see its cgroup's files."""
        try:
            lines = [line.split(":", 2) for line in own.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError):
            return None
        places = {name: line[2] for line in lines if len(line) == 3 for name in line[1].split(",")}
        unified, counting, memory = (places.get(name) for name in ("", "cpuacct", "memory"))
        if "/" in (counting, memory):  # the root of version 1 is the machine
            counting = memory = None
        version_2 = _file(top, unified, "cpu.stat"), _file(top, unified, "memory.current")
        v1_cpu = _file(top / "cpuacct", counting, "cpuacct.usage")
        v1_memory = _file(top / "memory", memory, "memory.usage_in_bytes")
        for cpu, used in (version_2, (v1_cpu, v1_memory)):
            if cpu is not None and used is not None:  # the root of version 2 does not count memory
                return cls(cpu, used)
        return None

    def read(self) -> HostCounts:
        text = self._cpu.read_text()
        if self._cpu.name == "cpuacct.usage":
            cpu_s = int(text) / 1e9
        else:
            cpu_s = int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6
        used, stat = int(self._memory.read_text()), _memory_stat(self._memory.with_name("memory.stat"))
        cache = sum(stat.get(name, 0) for name in ("inactive_file", "active_file"))
        return HostCounts(cpu_s, max(0, used - cache), *_network(), stat.get("shmem"))


HostCounters = MachineCounters | CgroupCounters
"""Reading raises OSError or psutil.Error if the system does not provide the counters."""


def host_counters() -> HostCounters:
    """The counters of this host: of its container if it is in one, else of the machine."""
    return CgroupCounters.find() or MachineCounters()


def own_volume(*places: Path) -> Path | None:
    """Returns the first of some directories that is on another file system than `/`: in SageMaker's containers, those
    on the volume of the job. None on a machine where the data share the disk of all programs."""
    root = Path("/").stat().st_dev
    return next((each for each in places if each.is_dir() and each.stat().st_dev != root), None)


def _file(tree: Path, place: str | None, name: str) -> Path | None:
    """The file `name` of the group at `place` in a tree, or of the tree's root; None if neither has it. The root is
    right in a container that reads its group's place on the machine but sees the group as the root."""
    places = [] if place is None else [tree / place.lstrip("/") / name, tree / name]
    return next((path for path in places if path.is_file()), None)


def _memory_stat(path: Path) -> dict[str, int]:
    """Numbers of `memory.stat`; in version 1 of the group with the groups below it."""
    words = (line.split() for line in _text(path).splitlines())
    found = {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}
    return found | {name[6:]: value for name, value in found.items() if name.startswith("total_")}


def _network() -> tuple[int, int]:
    """Bytes received and bytes sent."""
    every = [counts for name, counts in psutil.net_io_counters(pernic=True).items() if name != "lo"]
    return sum(int(each.bytes_recv) for each in every), sum(int(each.bytes_sent) for each in every)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Lowest CPU limit of this process's control groups and of those above them, in CPUs; None: no limit."""
    return _lowest(root, "cpu", _quota)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Lowest memory limit of this process's control groups and of those above them, in bytes; None: no limit."""
    found = _lowest(root, "memory", _limit)
    return None if found is None else int(found)


def oom_kills(root: Path = Path("/")) -> int:
    """Number of processes that the kernel has killed because this process's control group had no memory left."""
    for folder in _groups(root, "memory"):
        text = _text(folder / "memory.events") or _text(folder / "memory.oom_control")
        counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        if counts.get("oom_kill", "").isdigit():
            return int(counts["oom_kill"])
    return 0


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


def _limit(folder: Path) -> list[float]:
    text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
    return [float(text)] if text.isdigit() and int(text) < _NO_LIMIT else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
