"""How far a benchmark is: a bar on a terminal, one plain line per run in a log."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tfhet.events import Event, Observer
from tfhet.report import numbers
from tfhet.units import MICROSECOND_S


def line(event: Event) -> str:
    """One run in words: `[bench] repeat 2/5 example: 4010 us CPU per image (8.20 s)`."""
    fields = event.fields
    kind = "warm-up" if fields["warmup"] else "repeat"
    cost = numbers.number(fields["cpu_s"] / MICROSECOND_S / fields["units"], unit="us CPU")
    return (
        f"[bench] {kind} {fields['round']}/{fields['rounds']} {fields['case']}: "
        f"{cost} per {fields['unit']} ({numbers.duration(fields['wall_s'])})"
    )


def ended(event: Event) -> str:
    """One case of a suite that measures no CPU: `[bench] 3/40 kill:worker (12.1 s): what was said of it`."""
    fields = event.fields
    took = "" if fields.get("exit_s") is None else f" ({numbers.duration(fields['exit_s'])})"
    said = "".join(f": {text}" for text in fields.get("said", ()))
    return f"[bench] {fields['round']}/{fields['rounds']} {fields['case']}{took}{said}"


@contextlib.contextmanager
def shown(file: IO[str] | None = None) -> Iterator[Observer]:
    """An observer for `harness.measure` that shows how far it is on `file` (standard error)."""
    out = file if file is not None else sys.stderr
    if not out.isatty():
        yield lambda event: _plain(event, out)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=out), transient=True) as bar:
        yield _Bar(bar)


def _plain(event: Event, out: IO[str]) -> None:
    if event.name == "bench.started":
        fields = event.fields
        runs = len(fields["cases"]) * (fields["repeats"] + fields["warmup"])
        print(f"[bench] {', '.join(fields['cases'])}: {runs} runs", file=out, flush=True)
    elif event.name == "case.measured":
        print(line(event), file=out, flush=True)
    elif event.name == "case.ended":
        print(ended(event), file=out, flush=True)
    elif event.name == "peer.missing":
        print(f"[bench] peer {event.fields['peer']} is missing: {event.fields['reason']}", file=out, flush=True)


class _Bar:
    """Draws runs done out of all runs; one `bench.started` after another starts a new bar."""

    def __init__(self, bar: Progress):
        self._bar = bar
        self._task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        fields: Any = event.fields
        if event.name == "bench.started":
            total = len(fields["cases"]) * (fields["repeats"] + fields["warmup"])
            self._task = self._bar.add_task("preparing", total=total)
        elif event.name == "case.ended":
            self._bar.console.print(ended(event), markup=False, highlight=False)
        elif self._task is not None and event.name == "case.prepared":
            self._bar.update(self._task, description=f"prepared {fields['case']}")
        elif self._task is not None and event.name == "case.measured":
            kind = "warm-up" if fields["warmup"] else f"repeat {fields['round']}/{fields['rounds']}"
            self._bar.update(self._task, advance=1, description=f"{kind} {fields['case']}")
