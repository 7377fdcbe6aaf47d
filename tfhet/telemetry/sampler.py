"""The sampler of a launcher: notes, once a second, what its processes and its host use, for the timeline of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tfhet.clock import SYSTEM, Clock, cpu_of
from tfhet.launch.gpus import gpu_count
from tfhet.launch.nvml import Gpus
from tfhet.launch.place import Place
from tfhet.launch.usage import Counters, Counts, counters
from tfhet.record.entry import ClockOffset, Entry, HostUse, Use
from tfhet.record.timeline import Part

PERIOD_S = 1.0
HELD = 5
"""So many samples are held back and written at once."""

Offset = tuple[float, float]


@dataclass
class Sampler:
    """Samples for one launcher."""

    host: str
    member: str
    part: Part
    processes: Callable[[], Mapping[str, int]]
    """Process ids by name, of those that run now."""
    offset: Callable[[], Offset | None] = lambda: None
    """How far the chief's clock is ahead of this one, and within which error; None: not known yet."""
    counters: Counters | None = None
    """Of the host, on the launcher that leads it."""
    gpus: Gpus | None = None
    """Of the host too, where there are any."""
    say: Callable[[str], None] = lambda line: None
    clock: Clock = SYSTEM
    cpu_of: Callable[[int], float] = cpu_of
    """CPU seconds of a process so far. Raises OSError for one that is gone."""
    _held: list[Entry] = field(default_factory=list)
    _spent_s: dict[int, float] = field(default_factory=dict)
    _counts: Counts | None = None
    _at_s: float | None = None
    _offset: Offset | None = None

    @classmethod
    def of(
        cls,
        place: Place,
        folder: Path,
        processes: Callable[[], Mapping[str, int]],
        offset: Callable[[], Offset | None],
        say: Callable[[str], None],
    ) -> Sampler:
        """For the launcher at `place`, into a file of its own in `folder`."""
        part = Part(folder / f"use-{place.member}.jsonl")
        if not place.leads_host:
            return cls(place.host, place.member, part, processes, offset, say=say)
        gpus = Gpus().start() if gpu_count(place.env) else None
        return cls(place.host, place.member, part, processes, offset, counters(), gpus, say)

    async def run(self) -> None:
        """Samples until it is cancelled; ends early when the disk refuses, and when the system does not tell."""
        try:
            self.sample()
            while True:
                await asyncio.sleep(PERIOD_S)
                self.sample()
                if len(self._held) >= HELD:
                    self.write()
        except (OSError, psutil.Error) as error:
            self._held.clear()
            self.say(f"the use of this host is noted no more: {error}")
        finally:
            if self.gpus is not None:
                self.gpus.stop()
                if self.gpus.missing:
                    self.say(f"the use of the GPUs was not noted: {self.gpus.missing}")
            self._write_last()

    def sample(self) -> None:
        """Notes what was used since the last call; the first one only begins. Raises OSError and psutil.Error."""
        now_s, spent_s = self.clock.monotonic(), {}
        cpus: dict[str, float] = {}
        took_s = 0.0 if self._at_s is None else now_s - self._at_s
        for name, pid in self.processes().items():
            try:
                spent_s[pid] = self.cpu_of(pid)
            except OSError:
                continue
            if took_s > 0:  # one that was not there before has begun in between
                cpus[name] = max(0.0, spent_s[pid] - self._spent_s.get(pid, 0.0)) / took_s
        counts = None if self.counters is None else self.counters.read()
        if took_s > 0:
            machine = self._machine(counts, took_s)
            self._held.append(Use(self.host, self.clock.wall() - took_s, took_s, self.member, cpus, machine))
        self._at_s, self._spent_s, self._counts = now_s, spent_s, counts

    def write(self) -> None:
        """Writes what is held, and the clock's offset when there is a new one. Raises OSError."""
        held, self._held = self._held, []
        offset = self.offset()
        if offset is not None and offset != self._offset:
            self._offset = offset
            held.append(ClockOffset(self.host, self.clock.wall(), 0.0, *offset))
        self.part.append(held)

    def _write_last(self) -> None:
        try:
            self.write()
        except OSError as error:
            self.say(f"the last of what this host used cannot be noted: {error}")

    def _machine(self, counts: Counts | None, took_s: float) -> HostUse | None:
        before = self._counts
        if counts is None or before is None or self.counters is None:
            return None
        gpus = self.gpus.latest if self.gpus is not None else ()
        return HostUse(
            _rate(counts.cpu_s, before.cpu_s, took_s),
            self.counters.of_cpus,
            self.counters.counted,
            counts.memory_bytes,
            _rate(counts.received_bytes, before.received_bytes, took_s),
            _rate(counts.sent_bytes, before.sent_bytes, took_s),
            tuple(gpu.busy_pct for gpu in gpus),
            tuple(gpu.memory_bytes for gpu in gpus),
        )


def _rate(now: float, before: float, took_s: float) -> float:
    return max(0.0, now - before) / took_s
