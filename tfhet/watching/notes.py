"""The notes of one process of a script, read from its file, and its training passes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tfhet.steps import TRAINING, VALIDATION, Moment

END = -1
"""Number of examples of a row that ends a pass (`inside.recorder`)."""


class Row(NamedTuple):
    """One delivery, or the end of a pass. Times are in seconds on the host's monotonic clock."""

    begun: int
    """Number of the pass."""
    requested_s: float
    delivered_s: float
    examples: int
    has_gradients: int
    optimizer_steps: int
    """Number of steps of all optimizers before the delivery."""
    device_wait_s: float | None = None
    """Seconds between both for which the GPU had no work; None without one."""

    @property
    def wait_s(self) -> float:
        waited_s = max(0.0, self.delivered_s - self.requested_s)
        return waited_s if self.device_wait_s is None else min(waited_s, self.device_wait_s)


@dataclass
class ProcessNotes:
    """All notes of one process."""

    pid: int = 0
    rank: int = 0
    size: int = 1
    host: str = ""
    source: str = ""
    ahead_s: float = 0.0
    """Seconds to add to its monotonic clock to get seconds since 1970."""
    readers: dict[int, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Name and facts by number."""
    training_thread: int | None = None
    """Thread in which optimizers step; the main thread without one."""
    threads: dict[int, int] = field(default_factory=dict)
    """Thread that requested the first batch, by pass."""
    passes: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Reader, and what the script or its framework says of the pass, by number."""
    is_full: bool = False
    """Whether the process read more batches than it recorded."""
    rows: list[Row] = field(default_factory=list)
    """In the order of their deliveries."""

    @classmethod
    def read(cls, path: Path) -> ProcessNotes:
        """Reads a file as far as it is written; a line that was cut short is omitted."""
        found = cls()
        with open(path, encoding="utf-8", errors="replace") as file:
            found.take(file)
        return found

    def take(self, lines: Iterable[str | bytes]) -> list[Row]:
        """Adds lines of the file; returns the new rows."""
        known = len(self.rows)
        for line in lines:
            try:
                self._add(json.loads(line))
            except (ValueError, TypeError, KeyError, RecursionError):
                continue
        new = self.rows[known:]
        self.rows.sort(key=lambda row: row.delivered_s)
        return new

    def _add(self, line: Any) -> None:
        if isinstance(line, list):
            self.rows.append(Row(*line))
        elif line["kind"] == "process":
            for name in ("pid", "rank", "size", "host", "source", "ahead_s", "training_thread"):
                setattr(self, name, line.get(name, getattr(self, name)))
        elif line["kind"] == "reader":
            self.readers[line["reader"]] = line["name"], line["facts"]
        elif line["kind"] == "pass":
            self.passes[line["pass"]] = line["reader"], line["of"]
            self.threads[line["pass"]] = line.get("thread", self.training_thread)
        elif line["kind"] == "full":
            self.is_full = True
        elif line["kind"] == "kind":  # of a pass, which was not known when it began
            self.passes[line["pass"]] = self.passes[line["pass"]][0], line["of"]

    def training_passes(self) -> set[int]:
        """The passes with which the script trains.

        What the script or its framework says decides. Without it, a pass is for training if an optimizer steps after
        one of its batches; in a script without an optimizer of PyTorch, if gradients are enabled at its requests.
        """
        said = {number: of for number, (_, of) in self.passes.items() if of}
        found = {number for number, of in said.items() if of == TRAINING}
        has_optimizer = any(row.optimizer_steps for row in self.rows)
        stepped = self._stepped() if has_optimizer else self._with_gradients()
        return found | ({number for number in stepped if number not in said} - self.hidden_passes())

    def hidden_passes(self) -> set[int]:
        """The passes of a thread that prefetches for the training: what it waits, the training may not wait."""
        is_worker_of_ray = self.source == "ray.train" and not any(row.optimizer_steps for row in self.rows)
        if self.training_thread is None or is_worker_of_ray:  # Ray trains in a thread of its own
            return set()
        others = {number for number, thread in self.threads.items() if thread != self.training_thread}
        return {number for number in others if not self.passes[number][1]}

    def _stepped(self) -> Iterator[int]:
        """Yields the passes of the batches that were delivered before each step of an optimizer, since the last one."""
        since, last, steps = set[int](), None, 0
        for row in [*self.rows, None]:
            if row is None or row.optimizer_steps > steps:
                yield from since if row is not None else ()
                yield from () if last is None or row is None else (last,)
                steps = row.optimizer_steps if row is not None else steps
                since = set()
            if row is None:
                return
            if row.examples == END:
                since.discard(row.begun)
                last = None if last == row.begun else last
            else:
                last = row.begun
                since |= {row.begun} if row.has_gradients else set()

    def _with_gradients(self) -> Iterator[int]:
        votes: dict[int, list[int]] = defaultdict(list)
        for row in self.rows:
            votes[row.begun].append(row.has_gradients)
        yield from (number for number, each in votes.items() if 2 * sum(each) > len(each))

    def moments(self) -> Iterator[tuple[Moment, int | None]]:
        """Yields the events of the process in order, each with the number of its reader; None for validation."""
        training, hidden, begun = self.training_passes(), self.hidden_passes(), set[int]()
        for row in sorted(self.rows, key=lambda each: each.requested_s):
            if row.begun in hidden:
                continue
            is_training = row.begun in training
            examples = None if row.examples == END else row.examples
            begins = row.begun not in begun and examples is not None
            begun.add(row.begun)
            of = TRAINING if is_training else VALIDATION
            reader = self.passes[row.begun][0] if row.begun in self.passes else 0
            yield Moment(row.requested_s, of, row.wait_s, examples, begins), reader if is_training else None

    @property
    def ended_s(self) -> float:
        """Time of the last note."""
        return max((row.delivered_s for row in self.rows), default=0.0)
