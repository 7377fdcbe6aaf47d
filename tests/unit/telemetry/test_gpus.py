from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfhet.telemetry.gpus import GpuMonitor, gpu_count


class FakeNvml:
    """The module of nvidia-ml-py with two GPUs. It stops its monitor after some rounds.

    Args:
        rounds: Number of rounds.
        refuses: Name of a function that fails.
        is_old: Whether the driver includes its own memory in the memory in use.
    """

    class NVMLError(Exception):
        pass

    nvmlMemory_v2 = 0x2000028

    def __init__(self, rounds: int = 1, refuses: str = "", is_old: bool = False):
        self.calls: list[str] = []
        self.monitor = GpuMonitor(lambda: self)
        self._rounds, self._refuses, self._is_old = rounds, refuses, is_old

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, version: int | None = None) -> Any:
            self.calls.append(name)
            if name == self._refuses or (version and self._is_old):
                raise self.NVMLError(f"{name} failed")
            if name == "nvmlDeviceGetCount":
                return 2
            if name == "nvmlDeviceGetHandleByIndex":
                return arguments[0]
            if name == "nvmlDeviceGetUtilizationRates":
                self._rounds -= arguments[0] == 1
                if self._rounds == 0:
                    self.monitor.stop()
                return SimpleNamespace(gpu=10 * (arguments[0] + 1))
            if name == "nvmlDeviceGetMemoryInfo":
                return SimpleNamespace(used=1000 + arguments[0] + (0 if version == self.nvmlMemory_v2 else 500))
            return None

        return call


@pytest.mark.parametrize(("is_old", "more"), [(False, 0), (True, 500)])
def test_gpus_are_read_until_stop(is_old, more):
    nvml = FakeNvml(rounds=3, is_old=is_old)
    nvml.monitor.run(period_s=0.0)
    assert (nvml.monitor.latest, nvml.monitor.missing) == (((10.0, 1000 + more), (20.0, 1001 + more)), "")
    assert nvml.calls.count("nvmlDeviceGetUtilizationRates") == 6
    assert nvml.calls[0] == "nvmlInit" and nvml.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize("refuses", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetUtilizationRates"])
def test_error_of_the_driver_is_named(refuses):
    monitor = FakeNvml(refuses=refuses).monitor
    monitor.latest = ((99.0, 1),)
    monitor.run(period_s=0.0)
    assert monitor.latest == () and refuses in monitor.missing


def test_missing_library_is_named():
    def load() -> Any:
        raise ImportError("No module named 'pynvml'")

    monitor = GpuMonitor(load).start()
    assert monitor.latest == () and "nvidia-ml-py" in monitor.missing
    monitor.stop()


@pytest.mark.parametrize(
    ("env", "count"),
    [
        ({}, 2),
        ({"SM_NUM_GPUS": "8"}, 8),
        ({"SM_NUM_GPUS": "0"}, 0),
        ({"SM_NUM_GPUS": "many"}, 2),
        *(
            ({"CUDA_VISIBLE_DEVICES": visible, "SM_NUM_GPUS": "8"}, count)
            for visible, count in [("", 0), ("0", 1), ("0,1,2", 3), ("-1", 0), ("0,-1,1", 1), ("GPU-8932f937,GPU-1", 2)]
        ),
    ],
)
def test_gpu_count(tmp_path, env, count):
    for name in ("0000:00:1e.0", "0000:00:1f.0"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    assert gpu_count(env, tmp_path / "gpus") == count
    assert env or gpu_count({}, tmp_path / "no driver") == 0
