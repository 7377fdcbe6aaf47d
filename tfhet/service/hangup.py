"""Hanging up on workers that have fallen silent.

A reader of the data service that is given up waits, in its destructor, for the answer to every request under way. A
worker that is frozen, or cut off, never gives one, and Python stands still meanwhile (the destructor holds its lock).
So another process, which has inherited the reader's connections, ends them a moment later.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Set

_AFTER_S = 0.3
"""By then the reader's destructor has begun, so that it asks nobody again."""
_LIMIT_S = 10.0
_END = f"""
import socket, sys, time
time.sleep({_AFTER_S})
for fd in map(int, sys.argv[1:]):
    try:
        socket.socket(fileno=fd).shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
"""


def connections() -> frozenset[tuple[int, str]]:
    """The sockets of this process, by descriptor and inode; none where the system does not tell (Linux does)."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith("socket:"):
                    found.add((int(name), target))
    return frozenset(found)


class HangUp:
    """`with HangUp(before): del reader`: ends the connections that were made since `before`, those of the reader."""

    def __init__(self, before: Set[tuple[int, str]]):
        self._before = before
        self._ending: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> HangUp:
        every = connections()
        own = {ends[0] for fd, _ in every if (ends := _ends(fd)) is not None}
        new = [fd for fd, _ in every - self._before]
        # Not those to a server in this process, which would lose its own end.
        descriptors = [fd for fd in new if (ends := _ends(fd)) is not None and ends[1] not in own]
        if descriptors:
            words = [sys.executable, "-S", "-E", "-c", _END, *map(str, descriptors)]
            with contextlib.suppress(OSError):
                self._ending = subprocess.Popen(words, pass_fds=descriptors, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ending is not None:
            try:
                self._ending.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._ending.kill()
                self._ending.wait()


def _ends(descriptor: int) -> tuple[object, object] | None:
    """This side's address and the other side's of a TCP connection; None for what is none."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as one:
            if one.type == socket.SOCK_STREAM and one.family in (socket.AF_INET, socket.AF_INET6):
                return _plain(one.getsockname()), _plain(one.getpeername())
    except OSError:
        pass
    return None


def _plain(address: tuple[str, int]) -> tuple[str, int]:
    """Without the form in which an IPv6 socket shows IPv4."""
    return address[0].removeprefix("::ffff:"), address[1]
