"""The sampler of a launcher: records the usage of its processes and its host once a second in the run's timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tfhet.clock import SYSTEM, Clock, cpu_of
from tfhet.record import ClockOffset, Entry, HostUsage, TimelineFile, UsageSample
from tfhet.telemetry.gpus import GpuMonitor
from tfhet.telemetry.host_counters import HostCounters, HostCounts
from tfhet.writer import Writer

PERIOD_S = 1.0
BATCH = 5
LAST_WRITE_S = 1.0


@dataclass
class Sampler:
    """Measures for one launcher, and appends to its file."""

    host: str
    member: str
    file: TimelineFile
    processes: Callable[[], Mapping[str, int]]
    """Returns the process ids of the launcher's running processes, by name."""
    offset: Callable[[], tuple[float, float] | None] = lambda: None
    """Returns the seconds to add to this host's clock to get the leader's, and their maximum error; None if unknown."""
    counters: HostCounters | None = None
    """Counters of the host; None on a launcher that does not lead its host."""
    gpus: GpuMonitor | None = None
    """GPUs of the host, started; None without GPUs, or on a launcher that does not lead its host."""
    say: Callable[[str], None] = lambda line: None
    volume: Path | None = None
    """A directory on the volume whose use is recorded; None records none."""
    clock: Clock = SYSTEM
    cpu_of: Callable[[int], float] = cpu_of
    """Returns the CPU seconds of a process so far. Raises OSError for a process that has ended."""
    _held: list[Entry] = field(default_factory=list)
    _spent_s: dict[int, float] = field(default_factory=dict)
    _counts: HostCounts | None = None
    _at_s: float | None = None
    _offset: tuple[float, float] | None = None
    _failure: Exception | None = None

    async def run(self) -> None:
        """Samples until it is cancelled. Ends early, with a line for the log, if the disk or the counters fail."""
        writer = Writer("timeline", self._append)  # a disk that stalls must not delay a lease
        try:
            self.sample()
            while self._failure is None:
                await asyncio.sleep(PERIOD_S)
                self.sample()
                if len(self._held) >= BATCH:
                    writer.put(self._taken())
        except (OSError, psutil.Error) as error:
            self._failure = error
        finally:
            if self.gpus is not None:
                self.gpus.stop()
                if self.gpus.missing:
                    self.say(f"the usage of the GPUs was not recorded: {self.gpus.missing}")
            if self._failure is None:
                writer.put(self._taken())
            writer.close(LAST_WRITE_S)
            if self._failure is not None:
                self.say(f"the usage of this host is not recorded any more: {self._failure}")

    def _append(self, entries: list[Entry]) -> None:
        try:
            self.file.append(entries)
        except OSError as error:
            self._failure = error

    def sample(self) -> None:
        """Measures the usage since the previous call. Raises OSError or psutil.Error."""
        now_s, spent_s = self.clock.monotonic(), {}
        cpus: dict[str, float] = {}
        took_s = 0.0 if self._at_s is None else now_s - self._at_s
        for name, pid in self.processes().items():
            try:
                spent_s[pid] = self.cpu_of(pid)
            except OSError:
                continue
            if took_s > 0:  # a new process began with 0
                cpus[name] = max(0.0, spent_s[pid] - self._spent_s.get(pid, 0.0)) / took_s
        counts = None if self.counters is None else self.counters.read()
        if took_s > 0:
            machine = self._machine(counts, took_s)
            self._held.append(UsageSample(self.host, self.clock.wall() - took_s, took_s, self.member, cpus, machine))
        self._at_s, self._spent_s, self._counts = now_s, spent_s, counts

    def _taken(self) -> list[Entry]:
        """The samples since the last call, and the offset of the clock if it has changed."""
        held, self._held = self._held, []
        offset = self.offset()
        if offset is not None and offset != self._offset:
            self._offset = offset
            held.append(ClockOffset(self.host, self.clock.wall(), 0.0, *offset))
        return held

    def _machine(self, counts: HostCounts | None, took_s: float) -> HostUsage | None:
        before = self._counts
        if counts is None or before is None or self.counters is None:
            return None

        def per_s(name: str) -> float:
            return max(0.0, getattr(counts, name) - getattr(before, name)) / took_s

        gpus = self.gpus.latest if self.gpus else ()
        return HostUsage(
            per_s("cpu_s"),
            self.counters.of_cpus,
            self.counters.counted,
            counts.memory_bytes,
            per_s("received_bytes"),
            per_s("sent_bytes"),
            tuple(busy_pct for busy_pct, _ in gpus),
            tuple(memory_bytes for _, memory_bytes in gpus),
            counts.shared_bytes,
            None if self.volume is None else psutil.disk_usage(str(self.volume)).used,
        )
