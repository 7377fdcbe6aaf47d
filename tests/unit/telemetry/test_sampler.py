from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from event_loop import in_event_loop, until
from fake_clock import FakeClock

from tfhet.clock import SYSTEM
from tfhet.record import HostUsage, Timeline, TimelineFile, UsageSample
from tfhet.telemetry import sampler
from tfhet.telemetry.host_counters import HostCounts, own_volume
from tfhet.telemetry.sampler import Sampler

pytestmark = pytest.mark.timeout(60)


class FakeCounters:
    """A host that uses 1.5 CPUs, receives 100 bytes a second and sends 50."""

    counted = "cgroup"
    of_cpus = 4

    def __init__(self, clock: FakeClock):
        self._clock = clock

    def read(self) -> HostCounts:
        at = self._clock.monotonic()
        return HostCounts(1.5 * at, 1000 + int(at), int(100 * at), int(50 * at))


class FakeGpus:
    missing = ""
    latest = ((75.0, 2048), (25.0, 1024))
    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100.0)


@pytest.fixture
def made(tmp_path, clock) -> Callable[..., Sampler]:
    """`made(processes, ...)`: a sampler; every process uses a hundredth of its id in CPUs."""

    def make(processes: dict[str, int], **more: object) -> Sampler:
        file, cpu_of = TimelineFile(tmp_path / "use.jsonl"), lambda pid: clock.monotonic() * pid / 100
        given = {"clock": clock, "cpu_of": cpu_of, **more}
        return Sampler("algo-1", "rank-0", file, lambda: dict(processes), **given)  # type: ignore[arg-type]

    return make


@pytest.fixture
def read(tmp_path) -> Callable[[], Timeline]:
    return lambda: Timeline.join(tmp_path.glob("*.jsonl"))


def test_usage_is_recorded_per_second(made, read, clock):
    one = made({"rank-0": 50, "worker-0": 25}, counters=FakeCounters(clock), gpus=FakeGpus())
    for slept_s in (2.0, 1.0, 0.0):
        one.sample()
        clock.sleep(slept_s)
    one.file.append(one._taken())
    cpus = {"rank-0": 0.5, "worker-0": 0.25}
    machines = [HostUsage(1.5, 4, "cgroup", n, 100.0, 50.0, (75.0, 25.0), (2048, 1024)) for n in (1102, 1103)]
    assert read().usage == (
        UsageSample("algo-1", 100.0, 2.0, "rank-0", cpus, machines[0]),
        UsageSample("algo-1", 102.0, 1.0, "rank-0", cpus, machines[1]),
    )


def test_use_of_the_volume_is_recorded(made, read, clock, tmp_path):
    one = made({}, counters=FakeCounters(clock), volume=tmp_path)
    for _ in range(2):
        one.sample()
        clock.sleep(1.0)
    one.file.append(one._taken())
    (sample,) = read().usage
    assert sample.machine.disk_bytes > 0
    assert own_volume(Path("/etc"), tmp_path / "none") is None
    assert own_volume(Path("/etc"), Path("/proc")) == Path("/proc")


def test_new_process_counts_from_zero(made, read, clock):
    spent, processes = {1: 5.0, 2: 0.25}, {"worker-0": 1}

    def cpu_of(pid: int) -> float:
        if pid not in spent:
            raise OSError("gone")
        return spent[pid]

    one = made(processes, cpu_of=cpu_of)
    one.sample()
    processes["worker-1"] = 2
    one.processes = lambda: processes
    del spent[1]
    clock.sleep(1.0)
    one.sample()
    one.file.append(one._taken())
    assert [use.processes for use in read().usage] == [{"worker-1": 0.25}]


def test_clock_offset_is_recorded_if_it_changes(made, read, clock, tmp_path):
    offsets = [None, (2.0, 0.5), (2.0, 0.5), (1.5, 0.25)]
    one = made({}, offset=lambda: offsets[0])
    while offsets:
        one.sample()
        clock.sleep(1.0)
        one.file.append(one._taken())
        offsets.pop(0)
    lines = [line for line in (tmp_path / "use.jsonl").read_text().splitlines() if '"clock"' in line]
    assert len(lines) == 2
    assert [(each.offset_s, each.error_s) for each in read().clocks] == [(1.5, 0.25)]
    assert read().usage[0].at_s == 101.5


@in_event_loop
async def test_samples_are_written_in_batches(made, monkeypatch):
    writes, gpus, lines = list[list[float]](), FakeGpus(), list[str]()
    gpus.missing = "no library"
    monkeypatch.setattr(sampler, "PERIOD_S", 0.001)
    monkeypatch.setattr(TimelineFile, "append", lambda file, new: writes.append([use.at_s for use in new]))
    task = asyncio.create_task(made({}, gpus=gpus, say=lines.append, clock=SYSTEM).run())
    await until(lambda: len(writes) > 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [len(times) for times in writes[:2]] == [sampler.BATCH] * 2
    assert sum(writes, []) == sorted({time for times in writes for time in times})
    assert gpus.is_stopped and len(lines) == 1 and "no library" in lines[0]


@in_event_loop
async def test_full_disk_ends_the_sampling(made, monkeypatch):
    lines: list[str] = []

    def append(file: TimelineFile, new: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(sampler, "PERIOD_S", 0.001)
    monkeypatch.setattr(TimelineFile, "append", append)
    await asyncio.wait_for(made({}, say=lines.append, clock=SYSTEM).run(), 30)
    assert len(lines) == 1 and "no space left" in lines[0]
