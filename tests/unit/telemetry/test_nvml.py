from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tfhet.telemetry.nvml import GpuMonitor, GpuUsage


class FakeNvml:
    """The module of nvidia-ml-py with two GPUs; stops its reader after so many rounds, or refuses."""

    class NVMLError(Exception):
        pass

    def __init__(self, rounds: int = 1, refuses: str = ""):
        self.calls: list[str] = []
        self.gpus: GpuMonitor | None = None
        self._rounds, self._refuses = rounds, refuses

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if name == self._refuses:
                raise self.NVMLError(f"{name} failed")
            if name == "nvmlDeviceGetCount":
                return 2
            if name == "nvmlDeviceGetHandleByIndex":
                return arguments[0]
            if name == "nvmlDeviceGetUtilizationRates":
                self._rounds -= arguments[0] == 1
                if self._rounds == 0 and self.gpus is not None:
                    self.gpus.stop()
                return SimpleNamespace(gpu=10 * (arguments[0] + 1))
            if name == "nvmlDeviceGetMemoryInfo":
                return SimpleNamespace(used=1000 + arguments[0])
            return None

        return call


def gpus_of(nvml: FakeNvml) -> GpuMonitor:
    nvml.gpus = GpuMonitor(lambda: nvml)
    return nvml.gpus


def test_every_gpu_is_read_until_the_reader_is_stopped():
    nvml = FakeNvml(rounds=3)
    gpus = gpus_of(nvml)
    gpus.run(period_s=0.0)
    assert gpus.latest == (GpuUsage(10.0, 1000), GpuUsage(20.0, 1001))
    assert (gpus.missing, nvml.calls.count("nvmlDeviceGetMemoryInfo")) == ("", 6)
    assert nvml.calls[0] == "nvmlInit" and nvml.calls[-1] == "nvmlShutdown"


def test_a_driver_that_refuses_is_named_and_nothing_old_is_told():
    for refuses in ("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"):
        gpus = gpus_of(FakeNvml(refuses=refuses))
        gpus.latest = (GpuUsage(99.0, 1),)
        gpus.run(period_s=0.0)
        assert (gpus.latest, gpus.missing) == ((), f"NVML reports: {refuses} failed")


def test_without_nvidia_ml_py_nothing_runs_and_it_is_named():
    def missing() -> Any:
        raise ImportError("No module named 'pynvml'")

    gpus = GpuMonitor(missing).start()
    assert gpus.latest == ()
    assert "pip install nvidia-ml-py" in gpus.missing
    gpus.stop()
