"""Progress of a command on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Step = Callable[[int, "int | None", str], None]
"""Arguments: number of finished steps, number of all steps (None if unknown), and their name."""


@contextlib.contextmanager
def progress_of(command: str, *, is_silent: bool = False, out: IO[str] | None = None) -> Iterator[Step]:
    """Yields a function that shows progress on `out` (standard error); is_silent: only on a terminal.

    No thread draws the bar: it would take CPU from measurements.
    """
    out = out or sys.stderr
    if not out.isatty():
        said = {""}

        def say(done: int, total: int | None, what: str) -> None:
            line = f"[{command}] {done} of {total or 'some'} {what}"
            if not is_silent and line not in said:
                said.add(line)
                print(line, file=out, flush=True)

        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    own = sys.stdout.isatty()  # else its lines would go to the bar's terminal, and not where they should
    with Progress(*columns, console=Console(file=out), auto_refresh=False, transient=True, redirect_stdout=own) as bar:
        task = bar.add_task(command, total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what, refresh=True)
