"""This machine, as far as it matters to a job: facts, read once, that the rules of `host_rules` judge."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.cluster import CONTROL_PORT, check_free
from tfhet.errors import UsageError
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import machine

_WORKERS = ServiceSettings.worker_port
PORTS = (CONTROL_PORT, ServiceSettings.dispatcher_port, *range(_WORKERS, _WORKERS + 4))
"""Default ports of a launcher, with up to four workers on a host."""
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""gRPC's own order (doc/environment_variables.md of gRPC); it reads them in lower case only."""
_TIME_ERROR = 5
"""What adjtimex(2) returns where nothing keeps the clock in step."""


@dataclass(frozen=True)
class HostFacts:
    """One machine."""

    cpu: str
    cores: int
    cores_usable: int
    cpu_quota: float | None
    """CPU seconds per second that the control group allows; None: no limit."""
    steal_share: float
    """Share of the CPU time since boot that the hypervisor gave to others, 0 to 1."""
    governor: str
    """Governor of the CPU's frequency; "" where the machine does not say."""
    numa_nodes: int
    memory_bytes: int
    memory_free_bytes: int
    gpus: tuple[str, ...]
    gpus_usable: int
    """Number of GPUs that TensorFlow sees."""
    open_files: int
    """Maximum per process; 2**30 where there is no limit."""
    shm_bytes: int | None
    """Size of /dev/shm; None where it does not exist."""
    directory: str
    """Place of the files of simulated hosts."""
    disk_free_bytes: int
    busy_ports: tuple[str, ...]
    """Why each of PORTS that is in use cannot be listened on."""
    name: str
    addresses: tuple[str, ...]
    """IPv4 addresses of the name; () where it cannot be resolved."""
    interfaces: Mapping[str, str]
    """IPv4 address by network interface that is up, without the loopback."""
    default_interface: str
    """Interface of the default route; "" without one."""
    is_clock_in_step: bool | None
    """None: the machine does not say."""
    preloaded: str
    """`LD_PRELOAD`."""
    proxies: tuple[str, ...]
    """Variables that send gRPC through a proxy."""


def look(env: Mapping[str, str], gpus_usable: int, directory: Path | None = None, root: Path = Path("/")) -> HostFacts:
    """Reads all facts; changes nothing. root: place of /proc and /sys, for tests."""
    here = machine(root / "proc")
    directory = Path(tempfile.gettempdir()) if directory is None else directory.absolute()
    while not directory.exists():  # it will be made there
        directory = directory.parent
    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    shm = root / "dev/shm"
    return HostFacts(
        here["cpu"],
        here["cores"],
        here["cores_usable"],
        cpu_quota(root),
        getattr(times, "steal", 0.0) / max(1e-9, sum(times)),
        _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        here["memory_bytes"],
        int(memory.available),
        tuple(here["gpus"]),
        gpus_usable,
        _open_files(),
        psutil.disk_usage(str(shm)).total if shm.is_dir() else None,
        str(directory),
        psutil.disk_usage(str(directory)).free,
        _busy(PORTS),
        socket.gethostname(),
        _addresses(socket.gethostname()),
        _interfaces(),
        _default_interface(root),
        _is_clock_in_step(),
        env.get("LD_PRELOAD", ""),
        tuple(name for name in _PROXIES if env.get(name)),
    )


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs that the control groups of this process allow it, the least of those on the way up; None: no limit."""
    quotas = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if controllers and "cpu" not in names:
            continue
        trees = [root / "sys/fs/cgroup" / tree for tree in (("cpu", controllers) if controllers else ("", "unified"))]
        group = path.strip("/")
        folders = [group.rsplit("/", up)[0] if up else group for up in range(group.count("/") + 1)] + [""]
        for folder in {tree / each for tree in trees for each in folders}:
            quotas += _quota(folder)
    return min(quotas, default=None)


def _quota(folder: Path) -> list[float]:
    words = _text(folder / "cpu.max").split() or [
        _text(folder / "cpu.cfs_quota_us"),
        _text(folder / "cpu.cfs_period_us"),
    ]
    try:
        quota, period = (float(word) for word in words)
    except ValueError:  # "max", or nothing there
        return []
    return [quota / period] if quota > 0 and period > 0 else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _open_files() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def _busy(ports: Sequence[int]) -> tuple[str, ...]:
    found = []
    for port in ports:
        try:
            check_free(port)
        except UsageError as error:
            found.append(str(error))
    return tuple(found)


def _addresses(name: str) -> tuple[str, ...]:
    try:
        return tuple(sorted({str(each[4][0]) for each in socket.getaddrinfo(name, None, socket.AF_INET)}))
    except (OSError, UnicodeError):
        return ()


def _interfaces() -> dict[str, str]:
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    return {
        name: each.address
        for name, addresses in sorted(psutil.net_if_addrs().items())
        for each in addresses
        if name in up and each.family == socket.AF_INET and not each.address.startswith("127.")
    }


def _default_interface(root: Path) -> str:
    """From the kernel's table of routes: the row whose destination and mask are all zeros."""
    for line in _text(root / "proc/net/route").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000":
            return words[0]
    return ""


def _is_clock_in_step() -> bool | None:
    """As the kernel says: adjtimex(2) with no mode set only reads."""
    if os.name != "posix" or not hasattr(os, "sched_getaffinity"):
        return None
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR
