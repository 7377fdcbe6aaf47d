"""The number of GPUs of a host, and their usage, read with NVIDIA's management library (NVML, package nvidia-ml-py)."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

GPU_PERIOD_S = 1.0
GPU_DRIVER = Path("/proc/driver/nvidia/gpus")
"""Folder of the driver with one entry per GPU; in a container, per GPU of the container."""


def gpu_count(env: Mapping[str, str], driver: Path = GPU_DRIVER) -> int:
    """Number of GPUs for a process: of `CUDA_VISIBLE_DEVICES`, else `SM_NUM_GPUS`, else the driver."""
    if (visible := env.get("CUDA_VISIBLE_DEVICES")) is not None:
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
    """Reads all GPUs once a second in its own thread, because the driver may answer slowly or hang."""

    def __init__(self, load: Callable[[], Any] = lambda: importlib.import_module("pynvml")):
        """load: returns the module of nvidia-ml-py, or raises ImportError."""
        self.missing = ""
        """Why there are no readings; "" if there are, or may be, some."""
        self.latest: tuple[tuple[float, int], ...] = ()
        """The last reading of each GPU, in the driver's order: share of the driver's last sampling period in which a
        kernel ran, 0 to 100 (nvmlDeviceGetUtilizationRates), and bytes of memory in use."""
        self._ended = threading.Event()
        try:
            self._nvml = load()
        except ImportError:
            self.missing = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"

    def start(self) -> GpuMonitor:
        """Starts the thread, a daemon, if the library is installed."""
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
                    rates = map(nvml.nvmlDeviceGetUtilizationRates, handles)
                    used = (_used(nvml, handle) for handle in handles)
                    self.latest = tuple((float(one.gpu), each) for one, each in zip(rates, used, strict=True))
                    self._ended.wait(period_s)
            finally:
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            self.latest, self.missing = (), f"NVML reports: {error}"


def _used(nvml: Any, handle: Any) -> int:
    """Bytes in use without the driver's own memory; libraries and drivers before 510 include it."""
    with contextlib.suppress(AttributeError, TypeError, nvml.NVMLError):
        return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
