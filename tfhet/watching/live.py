"""Totals of each rank while the command runs, for `tfhet top`: from the notes of its last steps, every few seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.record import LineTail, LiveRank, LiveRun, RunFolder
from tfhet.steps import Phases
from tfhet.watching.merge import NOTES
from tfhet.watching.notes import END, ProcessNotes, Row

EVERY_S = 5.0
"""Seconds between two states."""
WINDOW_S, LEAST_ROWS, MOST_ROWS = 30.0, 20, 200
"""Seconds of notes whose steps give the means, and the least and largest number of those notes."""


class _Process:
    """The notes of one process as they grow."""

    def __init__(self, path: Path):
        self.notes = ProcessNotes()
        self._tail = LineTail(path)
        self._batches: Counter[int] = Counter()
        """Number of batches by pass."""
        self._training: set[int] = set()
        self.state: LiveRank | None = None

    def read(self) -> bool:
        """Reads what is new; returns whether there was a batch. Raises OSError."""
        new = self.notes.take(self._tail.new())
        self._batches.update(row.begun for row in new if row.examples != END)
        if not new:
            return False
        self._training |= self.notes.training_passes()
        self.notes.rows = _last(self.notes.rows)
        self.state = self._summary()
        return True

    def _summary(self) -> LiveRank:
        notes = self.notes
        phases = Phases(1)
        for moment, reader in notes.moments():
            phases.add(moment, reader)
        taken = phases.recorded.meter.totals()
        passes = [number for number in self._training if self._batches[number]]
        steps = sum(self._batches[number] for number in passes)
        found = LiveRank(notes.rank, notes.host, steps, max(0, len(passes) - 1), self._batches.total())
        means: tuple[float | None, float | None, float | None]
        if taken.steps and taken.step_s:
            rate = (taken.examples or 0.0) / taken.step_s
            means = (1e3 * taken.step_s / taken.steps, 100.0 * (taken.wait_s or 0.0) / taken.step_s, rate)
        else:  # no step is complete, or all of the last batches are for validation
            before = self.state or found
            means = before.step_ms, before.wait_pct, before.examples_per_s
        return LiveRank(found.rank, found.host, found.steps, found.epoch, found.batches, *means)


class LiveTotals:
    """Writes the state of a run that is watched. notes: folder in which its processes write."""

    def __init__(self, run: RunFolder, notes: Path, clock: Clock = SYSTEM):
        self._run, self._notes, self._clock = run, notes, clock
        self._processes: dict[Path, _Process] = {}
        self._next_s = clock.monotonic() + EVERY_S
        self._has_failed = False

    def write(self) -> None:
        """Writes the state if EVERY_S seconds have passed and a batch is new. Raises nothing: the script matters more;
        the first error goes to the log `live` of the run."""
        if self._has_failed or self._clock.monotonic() < self._next_s:
            return
        try:
            self._write()
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        self._next_s = self._clock.monotonic() + EVERY_S

    def remove(self) -> None:
        """Removes the state of a run that has ended. Raises OSError."""
        self._run.live_path.unlink(missing_ok=True)

    def _write(self) -> None:
        for path in self._notes.glob(NOTES):
            self._processes.setdefault(path, _Process(path))
        if sum(each.read() for each in self._processes.values()):
            self._run.write_live(LiveRun(_ranks(self._processes.values())))

    def _fail(self, error: Exception) -> None:
        self._has_failed = not isinstance(error, OSError)  # a full disk may have space again
        if self._has_failed:
            try:
                line = f"tfhet top does not show this run: {type(error).__name__}: {error}\n"
                self._run.write_log("live", line.encode(errors="replace"))
            except OSError:
                return


def _last(rows: list[Row]) -> list[Row]:
    """The rows of the last seconds."""
    since_s = rows[-1].delivered_s - WINDOW_S
    recent = sum(row.delivered_s >= since_s for row in rows[-MOST_ROWS:])
    return rows[-max(recent, LEAST_ROWS) :]


def _ranks(processes: Iterable[_Process]) -> list[LiveRank]:
    """The ranks in order; of several processes with one rank, the one with the most steps, as in the record."""
    known = [(each.notes.size, each.state) for each in processes if each.state is not None]
    largest = max((size for size, state in known if state.steps), default=None)
    found: dict[int, LiveRank] = {}
    for size, state in known:
        before = found.get(state.rank)
        if (largest is None or size == largest) and (before is None or state.steps > before.steps):
            found[state.rank] = state
    return [found[rank] for rank in sorted(found)]
