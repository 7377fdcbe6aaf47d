"""A training job on the screen: its log, its last steps, and what it has cost."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tfhet.job.cost import Cost
from tfhet.job.state import JobState
from tfhet.record import MetricLine
from tfhet.report import numbers, table

STEPS_SHOWN = 8
TOLD_EVERY_S = 60.0
"""How often plain lines say what the job has cost, while it takes steps."""
COLUMNS = ("step", "epoch", "step ms", "examples/s", "waiting %", "loss")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Glance:
    """A job at one moment."""

    state: JobState
    steps: Sequence[MetricLine]
    """All metric lines, in order."""
    cost: Cost

    @property
    def headline(self) -> str:
        """`demo: InProgress, Training; 12 min 03 s, $3.21 so far`"""
        told = f"{self.state.name}: {str(self.state).rstrip('. ')}"
        if not self.cost.billable_s:
            return told
        so_far = "" if self.state.is_over else " so far"
        return f"{told}; {numbers.duration(self.cost.billable_s)}, {self.cost}{so_far if self.cost.usd else ''}"

    @property
    def table(self) -> Table:
        """The last steps under the headline."""
        rows = [(s.step, s.epoch, s.step_ms, s.examples_per_s, s.wait_pct, s.loss) for s in self.steps[-STEPS_SHOWN:]]
        return table(rows, columns=COLUMNS, title=self.headline)


class Screen(Protocol):
    """Where a job is shown."""

    def line(self, who: str, text: str, *, is_metric: bool) -> None:
        """A line of the log. who: host and group. is_metric: `show` shows it too."""

    def tell(self, text: str) -> None:
        """A word of our own."""

    def show(self, glance: Glance, now_s: float) -> None:
        """The job as it is now. now_s: of a clock that does not go back."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts the screen is somebody else's: for a question."""


class Plain:
    """A line for everything that is new."""

    def __init__(self, out: IO[str]):
        self._out = out
        self._said = ""
        self._told: tuple[float, int] | None = None
        """When the cost was told, and with how many metric lines."""

    def line(self, who: str, text: str, *, is_metric: bool) -> None:
        self._write(f"{who} | {printable(text)}")

    def tell(self, text: str) -> None:
        self._write(f"[follow] {text}")

    def show(self, glance: Glance, now_s: float) -> None:
        last_s, steps = self._told or (now_s - TOLD_EVERY_S, 0)
        is_due = len(glance.steps) > steps and now_s - last_s >= TOLD_EVERY_S
        if str(glance.state) != self._said or is_due:
            self.tell(glance.headline)
            self._said, self._told = str(glance.state), (now_s, len(glance.steps))
        self._out.flush()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        yield

    def _write(self, text: str) -> None:
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding) + "\n")


class Redrawn:
    """A table of the last steps, drawn again below the log, which scrolls."""

    def __init__(self, out: IO[str]):
        self._live = Live(Text(""), console=Console(file=out), auto_refresh=False, transient=False)

    def line(self, who: str, text: str, *, is_metric: bool) -> None:
        if not is_metric:
            self._print(f"{who} | {printable(text)}")

    def tell(self, text: str) -> None:
        self._print(text)

    def show(self, glance: Glance, now_s: float) -> None:
        self._live.update(glance.table, refresh=True)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _print(self, text: str) -> None:
        self._live.console.print(Text(text), highlight=False, soft_wrap=True)

    def __enter__(self) -> Redrawn:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


@contextlib.contextmanager
def screen(out: IO[str]) -> Iterator[Screen]:
    """The one that suits `out`: redrawn on a terminal."""
    if not out.isatty():
        yield Plain(out)
        return
    with Redrawn(out) as redrawn:
        yield redrawn


def printable(text: str) -> str:
    """A line without what would move the cursor or change colours; of what was overwritten the last state."""
    last = text.rstrip("\r").rpartition("\r")[2]
    return _CONTROLS.sub("", _ESCAPES.sub("", last))
