"""Counters of a host's CPU, memory and network, and its GPUs.

The counters are those of the whole machine, or of the container that this process is in. GPUs are read by NVIDIA's
management library (NVML, package nvidia-ml-py).
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tfhet.record import usable_cores

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
GPU_PERIOD_S = 1.0
"""Interval between two readings of the GPUs."""
GPU_DRIVER = Path("/proc/driver/nvidia/gpus")
"""Folder of the driver with one entry per GPU; in a container, per GPU that the container may use."""


@dataclass(frozen=True)
class HostCounts:
    """The counters of a host at one moment. CPU and network are sums since the host started."""

    cpu_s: float
    memory_bytes: int
    """Memory in use now; a cgroup counts the file cache too."""
    received_bytes: int
    """Through all network interfaces except the loopback; `sent_bytes` likewise."""
    sent_bytes: int


class MachineCounters:
    """Counters of the whole machine, from psutil. `of_cpus`: number of CPUs that can be used."""

    counted = "machine"

    def __init__(self) -> None:
        self.of_cpus = psutil.cpu_count() or 1

    def read(self) -> HostCounts:
        times = psutil.cpu_times()
        busy_s = times.user + times.system + sum(getattr(times, name, 0.0) for name in ("irq", "softirq", "steal"))
        return HostCounts(float(busy_s), int(psutil.virtual_memory().used), *_network())


class CgroupCounters:
    """Counters of the cgroup that this process is in, version 1 or 2 (kernel: admin-guide/cgroup-v1 and cgroup-v2)."""

    counted = "cgroup"

    def __init__(self, cpu: Path, memory: Path):
        """cpu: `cpu.stat` or `cpuacct.usage`. memory: `memory.current` or `memory.usage_in_bytes`."""
        self.of_cpus = usable_cores()
        self._cpu, self._memory = cpu, memory

    @classmethod
    def find(cls, own: Path = OWN_CGROUP, top: Path = CGROUPS) -> CgroupCounters | None:
        """Returns the counters; None where this process is in the root cgroup or cannot see its cgroup's files."""
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
        return HostCounts(cpu_s, int(self._memory.read_text()), *_network())


HostCounters = MachineCounters | CgroupCounters
"""Reading raises OSError or psutil.Error where the system does not provide the counters."""


def host_counters() -> HostCounters:
    """The counters of this host: those of its container where it sees one, else those of the machine."""
    return CgroupCounters.find() or MachineCounters()


def _file(tree: Path, place: str | None, name: str) -> Path | None:
    """The file `name` of the group at `place` in a tree, or of the tree's root; None where neither has it.

    The root is right in a container that reads its group's place on the machine but is shown that group as the root.
    """
    places = [] if place is None else [tree / place.lstrip("/") / name, tree / name]
    return next((path for path in places if path.is_file()), None)


def _network() -> tuple[int, int]:
    """Bytes received and bytes sent."""
    every = [counts for name, counts in psutil.net_io_counters(pernic=True).items() if name != "lo"]
    return sum(int(each.bytes_recv) for each in every), sum(int(each.bytes_sent) for each in every)


def gpu_count(env: Mapping[str, str], driver: Path = GPU_DRIVER) -> int:
    """Number of GPUs that a process with these variables may use.

    The first source that is present decides: `CUDA_VISIBLE_DEVICES`, `SM_NUM_GPUS`, the driver.
    """
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA ignores everything from the first invalid name on, such as -1 (CUDA programming guide).
        return next((i for i, name in enumerate(names) if not name or name.startswith("-")), len(names))
    count = env.get("SM_NUM_GPUS", "")
    if count.isascii() and count.isdigit() and len(count) < 5:
        return int(count)
    try:
        return sum(1 for _ in driver.iterdir())
    except OSError:
        return 0


class GpuMonitor:
    """Reads all GPUs once a second in a thread of its own, because the driver may answer slowly or hang."""

    def __init__(self, load: Callable[[], Any] = lambda: importlib.import_module("pynvml")):
        """load: returns the module of nvidia-ml-py, or raises ImportError."""
        self.missing = ""
        """Why there are no readings; "" while there are, or may be."""
        self.latest: tuple[tuple[float, int], ...] = ()
        """The last reading of each GPU, in the driver's order: share of the driver's last sampling period in which a
        kernel ran, 0 to 100 (nvmlDeviceGetUtilizationRates), and bytes of memory in use."""
        self._ended = threading.Event()
        try:
            self._nvml = load()
        except ImportError:
            self.missing = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"

    def start(self) -> GpuMonitor:
        """Starts the thread, if the library is there. The thread does not keep the process alive."""
        if not self.missing:
            threading.Thread(target=self.run, name="tfhet-nvml", daemon=True).start()
        return self

    def stop(self) -> None:
        """Ends the thread within about a second."""
        self._ended.set()

    def run(self, period_s: float = GPU_PERIOD_S) -> None:
        """Reads until `stop` is called or the driver reports an error."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            try:
                handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
                while not self._ended.is_set():
                    self.latest = tuple(
                        (
                            float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                            int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
                        )
                        for handle in handles
                    )
                    self._ended.wait(period_s)
            finally:
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            self.latest, self.missing = (), f"NVML reports: {error}"
