"""Sockets that a test leaves open."""

from __future__ import annotations

import contextlib
import os
import time


def open_sockets() -> set[str]:
    """The sockets of this process."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {name for name in found if name.startswith("socket:")}


def check_left(before: set[str]) -> None:
    """No socket may be left that was not there before; those of another thread's look-ups go by themselves."""
    until_s = time.monotonic() + 10.0
    while open_sockets() - before:
        assert time.monotonic() < until_s, "sockets left open"
        time.sleep(0.01)
