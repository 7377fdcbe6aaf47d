"""bench/calibration.py and cpu_work.py: the costs that `tfhet plan --calibrate` measures."""

from __future__ import annotations

import asyncio

import numpy as np
import psutil
import pytest

from tfhet.bench import calibration, cpu_work
from tfhet.bench.calibration import COMMAND, LARGE, SMALL, Calibration, calibrate
from tfhet.errors import TfhetError
from tfhet.planes import CostFile
from tfhet.record import Interval
from tfhet.units import GB

SHIPPED = CostFile.shipped()


def calibrated(limit_s: float = calibration.LIMIT_S) -> Calibration:
    return asyncio.run(calibrate(lambda done, total, what: None, limit_s))


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.fixture
def twice_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose vCPUs are twice as fast as the reference."""

    async def pass_ms(processes: int) -> tuple[Interval, float]:
        return SHIPPED.vcpu.pass_ms.times(0.5), 1.0

    monkeypatch.setattr(calibration, "_pass_ms", pass_ms)


def test_two_sizes_give_costs_per_batch_and_per_gb():
    small_s, large_s = ([0.003 + 0.25 * size / GB] * 3 for size in (SMALL, LARGE))
    found = calibration._split({"reader": (small_s, large_s)})
    assert found["reader_cpu_s_per_batch"].value == pytest.approx(0.003)
    assert found["reader_cpu_s_per_gb"].value == pytest.approx(0.25)


def test_noise_gives_no_negative_costs():
    found = calibration._split({"server": ([2.0], [1.0])})
    assert found["server_cpu_s_per_gb"].low > 0 and found["server_cpu_s_per_batch"].low >= 0


def test_planes_are_measured_or_keep_the_shipped_costs(twice_as_fast, monkeypatch):
    async def feed_costs(plane: str) -> dict[str, Interval]:
        if plane == "feed":
            return {"reader_cpu_s_per_gb": Interval.exact(7.0)}
        raise TfhetError("it is broken")

    monkeypatch.setattr(calibration, "_costs", feed_costs)
    found = calibrated()
    assert found.speed.value == pytest.approx(2.0)
    assert found.measured == ("feed",)
    feed, other = found.costs.plane("feed"), found.costs.plane("tf_service")
    assert feed.source == COMMAND and feed.reader_cpu_s_per_gb.value == 7.0
    assert other == SHIPPED.plane("tf_service").at_speed(found.speed.value)
    assert len(found.notes) == len(SHIPPED.planes) - 1 and all("broken" in note for note in found.notes)


def test_calibration_over_its_limit_ends_its_processes(twice_as_fast, monkeypatch):
    monkeypatch.setattr(calibration, "ROUNDS", 10**9)
    found = calibrated(limit_s=2.0)
    assert not found.measured
    assert not children()


@pytest.mark.parametrize("plane", ["feed", pytest.param("tf_service", marks=pytest.mark.slow)])
def test_plane_is_measured_and_leaves_no_process(plane, monkeypatch):
    for name, value in {"ROUNDS": 2, "WARMUP": 0, "TURN_S": 0.01}.items():
        monkeypatch.setattr(calibration, name, value)
    found = asyncio.run(calibration._costs(plane))
    assert found["reader_cpu_s_per_gb"].value > 0 and found["server_cpu_s_per_gb"].value > 0
    assert not children()


@pytest.mark.parametrize("plane", ["ray", "tf_service"])
def test_plane_that_cannot_be_measured_is_refused(plane, monkeypatch):
    monkeypatch.setattr(calibration.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TfhetError):
        asyncio.run(calibration._costs(plane))


def test_busy_vcpus_are_measured_by_real_processes(monkeypatch):
    monkeypatch.setattr(calibration, "PASSES", 1)
    pass_ms, share = asyncio.run(calibration._pass_ms(2))
    assert pass_ms.low > 0 and 0 < share <= 1.5
    monkeypatch.setattr(cpu_work, "CHECKSUM", 3)
    with pytest.raises(TfhetError):
        asyncio.run(calibration._pass_ms(1))
    assert not children()


def test_pass_is_the_same_work_everywhere():
    batch = cpu_work.images()
    assert batch.shape == (64, 128, 128, 3) and batch.dtype == np.uint8
    assert 126.5 < batch.mean() < 128.5 and np.unique(batch).size == 256
    before = batch.copy()
    assert cpu_work.one_pass(batch) == cpu_work.CHECKSUM == cpu_work.one_pass(batch)
    assert (batch == before).all()
