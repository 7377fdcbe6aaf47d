"""One end of a way: a process that moves batches on request, `python -m tfhet.bench.wire.end MODULE:FUNCTION`.

{"open": {...}}             -> what the other end, or the suite, has to know of it
{"ahead": n, "count": m}    -> {"seconds": s}: it took n batches and then m more, and these m took s seconds
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tfhet.bench.child_process import answer_requests
from tfhet.clock import SYSTEM


@dataclass(frozen=True)
class End:
    pull: Callable[[int], object]
    """Returns once that number of further batches are in this process's memory."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The answer to `open`; JSON values."""
    close: Callable[[], None] = lambda: None
    """Ends the processes and threads that it has started."""


def serve(opens: Callable[..., End]) -> None:
    """Opens an end by `opens` and moves batches until the requests end; then ends this process."""
    opened: list[End] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "open" in request:
            opened.append(opens(**request["open"]))
            return opened[-1].facts
        end = opened[-1]
        end.pull(request["ahead"])
        begun_s = SYSTEM.monotonic()
        end.pull(request["count"])
        return {"seconds": SYSTEM.monotonic() - begun_s}

    answer_requests(handle)
    for end in opened:
        end.close()
    os._exit(0)  # nothing is to be saved, and threads of libraries may wait for ever


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    serve(getattr(importlib.import_module(module), name))
