"""One end of a way: `python -m tfhet.bench.wire.end KIND` opens it, and moves batches when asked.

{"open": {...}}                -> what the other end, or who measures, has to know of it
{"ahead": n, "count": m}       -> {"seconds": s}: has taken n batches and then, within so long, m more
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tfhet.bench import answering
from tfhet.clock import SYSTEM
from tfhet.errors import UsageError, unknown
from tfhet.process import outlive_nobody

KINDS = {
    "reader": "tfhet.bench.wire.reader:read",
    "socket sender": "benchmarks.transport.raw_socket:send",
    "socket receiver": "benchmarks.transport.raw_socket:receive",
    "grpc sender": "benchmarks.transport.raw_grpc:send",
    "grpc receiver": "benchmarks.transport.raw_grpc:receive",
    "torch": "benchmarks.transport.torch_loader:read",
    "ray": "benchmarks.transport.ray_data:read",
}
"""Kind to the function that opens it."""


@dataclass(frozen=True)
class End:
    """An end that is open."""

    pull: Callable[[int], object]
    """Returns when so many batches more are in this process's memory."""
    told: dict[str, Any] = field(default_factory=dict)
    """What others have to know; JSON values."""
    close: Callable[[], None] = lambda: None
    """Ends what it has started."""


def sends(told: dict[str, Any]) -> End:
    """The end that only gives what the other asks it for."""

    def never(count: int) -> None:
        raise UsageError("this end sends")

    return End(never, told)


def main(kind: str) -> int:
    """Serves until the requests end; dies with the process that asks."""
    outlive_nobody(signal.SIGKILL)
    if kind not in KINDS:
        unknown("kind of end", kind, KINDS)
    module, _, function = KINDS[kind].partition(":")
    opened: list[End] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "open" in request:
            opened.append(getattr(importlib.import_module(module), function)(**request["open"]))
            return opened[-1].told
        end = opened[-1]
        end.pull(request["ahead"])
        begun_s = SYSTEM.monotonic()
        end.pull(request["count"])
        return {"seconds": SYSTEM.monotonic() - begun_s}

    with answering.output_for_answers() as answers:
        answering.serve(handle, sys.stdin, answers)
    for end in opened:
        end.close()
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))  # nothing is to be saved, and threads of libraries may wait for what never comes
