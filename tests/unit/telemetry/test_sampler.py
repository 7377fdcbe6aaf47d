from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.record import HostUsage, Timeline, TimelineFile, UsageSample
from tfhet.telemetry import sampler
from tfhet.telemetry.host_counters import HostCounts
from tfhet.telemetry.sampler import Sampler

pytestmark = pytest.mark.timeout(60)


class FakeCounters:
    """A host on which, each second, 1.5 CPU seconds are used, 100 bytes come and 50 go."""

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
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def sampler_of(folder: Path, clock: FakeClock, processes: dict[str, int], **more: object) -> Sampler:
    """Every process uses a hundredth of its number of CPUs."""
    return Sampler(
        "algo-1",
        "rank-0",
        TimelineFile(folder / "use.jsonl"),
        lambda: dict(processes),
        clock=clock,
        cpu_of=lambda pid: clock.monotonic() * pid / 100,
        **more,  # type: ignore[arg-type]
    )


def read(folder: Path) -> Timeline:
    return Timeline.join(folder.glob("*.jsonl"))


def test_what_processes_used_since_the_last_look_is_noted_per_second(tmp_path):
    clock = FakeClock(100.0)
    made = sampler_of(tmp_path, clock, {"rank-0": 50, "worker-0": 25})
    made.sample()
    clock.sleep(2.0)
    made.sample()
    clock.sleep(1.0)
    made.sample()
    made.file.append(made._taken())
    assert read(tmp_path).usage == (
        UsageSample("algo-1", 100.0, 2.0, "rank-0", {"rank-0": 0.5, "worker-0": 0.25}),
        UsageSample("algo-1", 102.0, 1.0, "rank-0", {"rank-0": 0.5, "worker-0": 0.25}),
    )


def test_a_process_that_has_begun_counts_from_its_beginning_and_one_that_is_gone_no_more(tmp_path):
    clock, processes, gone = FakeClock(), {"worker-0": 1}, set[int]()
    spent = {1: 5.0, 2: 0.25}

    def cpu_of(pid: int) -> float:
        if pid in gone:
            raise OSError("gone")
        return spent[pid]

    made = sampler_of(tmp_path, clock, processes)
    made.cpu_of = cpu_of
    made.sample()
    processes["worker-1"] = 2
    gone.add(1)
    clock.sleep(1.0)
    made.sample()
    made.file.append(made._taken())
    assert [use.processes for use in read(tmp_path).usage] == [{"worker-1": 0.25}]


def test_what_is_used_of_the_host_is_noted_by_the_launcher_that_leads_it(tmp_path):
    clock = FakeClock()
    made = sampler_of(tmp_path, clock, {}, counters=FakeCounters(clock), gpus=FakeGpus())
    for _ in range(2):
        made.sample()
        clock.sleep(2.0)
    made.file.append(made._taken())
    assert [use.machine for use in read(tmp_path).usage] == [
        HostUsage(1.5, 4, "cgroup", 1002, 100.0, 50.0, (75.0, 25.0), (2048, 1024))
    ]


def test_the_offset_of_the_clock_is_noted_when_it_is_known_and_when_it_changes(tmp_path):
    clock, told = FakeClock(), [None]
    made = sampler_of(tmp_path, clock, {}, offset=lambda: told[0])
    for offset in (None, (2.0, 0.5), (2.0, 0.5), (1.5, 0.25)):
        told[0] = offset
        made.sample()
        clock.sleep(1.0)
        made.file.append(made._taken())
    lines = [line for line in (tmp_path / "use.jsonl").read_text().splitlines() if '"clock"' in line]
    assert len(lines) == 2
    assert [(each.offset_s, each.error_s) for each in read(tmp_path).clocks] == [(1.5, 0.25)]
    assert read(tmp_path).usage[0].at_s == 1.5


def run(made: Sampler, clock: FakeClock, samples: int, monkeypatch) -> None:
    """Runs it on the clock until it was about to take one more than so many samples, and cancels it."""

    async def scenario() -> None:
        enough = asyncio.Event()
        naps = 0

        async def nap(seconds: float) -> None:
            nonlocal naps
            naps += 1
            if naps > samples:
                enough.set()
                await asyncio.Event().wait()
            clock.sleep(seconds)

        monkeypatch.setattr(sampler.asyncio, "sleep", nap)
        task = asyncio.create_task(made.run())
        waiting = asyncio.create_task(enough.wait())
        await asyncio.wait({task, waiting}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        for each in (task, waiting):
            each.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_samples_come_each_second_and_what_is_held_at_the_end_is_written(tmp_path, monkeypatch):
    clock, gpus = FakeClock(), FakeGpus()
    made = sampler_of(tmp_path, clock, {"rank-0": 50}, gpus=gpus)
    run(made, clock, sampler.BATCH + 2, monkeypatch)
    assert [use.at_s for use in read(tmp_path).usage] == [float(n) for n in range(sampler.BATCH + 2)]
    assert gpus.stopped


def test_samples_are_written_several_at_once(tmp_path, monkeypatch):
    clock, writes = FakeClock(), list[int]()
    made = sampler_of(tmp_path, clock, {"rank-0": 50})
    monkeypatch.setattr(TimelineFile, "append", lambda file, new: writes.append(len(new)))
    run(made, clock, 2 * sampler.BATCH + 1, monkeypatch)
    assert writes == [sampler.BATCH, sampler.BATCH, 1]


def test_a_disk_that_is_full_ends_the_sampling_and_nothing_else(tmp_path, monkeypatch):
    clock, said = FakeClock(), list[str]()
    made = sampler_of(tmp_path, clock, {"rank-0": 50}, say=said.append)

    def full(file: TimelineFile, new: object) -> None:
        if new:
            raise OSError("no space left")

    monkeypatch.setattr(TimelineFile, "append", full)
    run(made, clock, 100, monkeypatch)
    assert said == ["the usage of this host is not recorded any more: no space left"]


def test_gpus_that_could_not_be_read_are_named(tmp_path, monkeypatch):
    clock, said, gpus = FakeClock(), list[str](), FakeGpus()
    gpus.missing = "nvidia-ml-py is not installed"
    run(sampler_of(tmp_path, clock, {}, gpus=gpus, say=said.append), clock, 1, monkeypatch)
    assert said == ["the usage of the GPUs was not recorded: nvidia-ml-py is not installed"]
