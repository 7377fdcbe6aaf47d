"""A lock of a file among the processes of a host."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import NotReady


@contextlib.contextmanager
def locked(path: Path, limit_s: float, clock: Clock = SYSTEM) -> Iterator[None]:
    """Lets one process at a time into its block. Raises NotReady after `limit_s` seconds of waiting."""
    until = clock.monotonic() + limit_s
    with open(path, "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock.monotonic() > until:
                    raise NotReady(f"another process has held {path} for {limit_s:g} s") from None
                clock.sleep(0.05)
        yield
