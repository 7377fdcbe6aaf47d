"""How busy the GPUs of a host are, by NVIDIA's management library, through nvidia-ml-py where that is installed."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PERIOD_S = 1.0


@dataclass(frozen=True)
class GpuUse:
    """Of one GPU."""

    busy_pct: float
    """Share of the last moments in which anything ran on it, 0 to 100 (nvmlDeviceGetUtilizationRates)."""
    memory_bytes: int


class Gpus:
    """Reads all GPUs once a second, in a thread of its own: the driver may take long to answer, or hang."""

    def __init__(self, load: Callable[[], Any] = lambda: importlib.import_module("pynvml")):
        """load: gives the module of nvidia-ml-py, or raises ImportError."""
        self.missing = ""
        """Why nothing is read; "" while something is, or may be."""
        self.latest: tuple[GpuUse, ...] = ()
        self._ended = threading.Event()
        try:
            self._nvml = load()
        except ImportError:
            self.missing = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"

    def start(self) -> Gpus:
        """Begins to read, where it can. The thread does not keep the process from ending."""
        if not self.missing:
            threading.Thread(target=self.run, name="tfhet-nvml", daemon=True).start()
        return self

    def stop(self) -> None:
        """Ends the reading, soon."""
        self._ended.set()

    def run(self, period_s: float = PERIOD_S) -> None:
        """Reads until it is stopped, or the driver refuses."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            try:
                handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
                while not self._ended.is_set():
                    self.latest = tuple(self._read(handle) for handle in handles)
                    self._ended.wait(period_s)
            finally:
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            self.latest, self.missing = (), f"NVML says: {error}"

    def _read(self, handle: Any) -> GpuUse:
        rates, memory = self._nvml.nvmlDeviceGetUtilizationRates(handle), self._nvml.nvmlDeviceGetMemoryInfo(handle)
        return GpuUse(float(rates.gpu), int(memory.used))
