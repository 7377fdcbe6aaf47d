"""How far a benchmark is: one plain line for each run."""

from __future__ import annotations

import sys
from typing import IO

from tfhet.events import Event, Observer
from tfhet.report import duration


def line(event: Event) -> str:
    """A run in words: `[bench] 3/40 kill:worker (12.1 s): kept`; "" for an event that is not shown."""
    fields = event.fields
    if event.name == "case.ended":
        took = "" if fields.get("seconds") is None else f" ({duration(fields['seconds'])})"
        said = "".join(f": {text}" for text in fields.get("said", ()))
        return f"[bench] {fields['round']}/{fields['rounds']} {fields['case']}{took}{said}"
    if event.name == "case.missing":
        return f"[bench] {fields['case']} is missing: {fields['reason']}"
    return ""


def shown(file: IO[str] | None = None) -> Observer:
    """An observer that prints the lines to `file` (standard error)."""
    out = file if file is not None else sys.stderr

    def observe(event: Event) -> None:
        if text := line(event):
            print(text, file=out, flush=True)

    return observe
