"""Hanging up on workers that have fallen silent.

A reader of the data service that is given up waits, in its destructor, for the answer to every request under way. A
worker that is frozen, or cut off, never gives one, and Python stands still meanwhile (the destructor holds its lock).
So another process, which has inherited the connections to the data hosts, ends them a moment later.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Set

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


def addresses(hosts: Iterable[str]) -> frozenset[str]:
    """The IP addresses of hosts, by name or address; one that nobody knows has none."""
    found = set()
    for host in hosts:
        with contextlib.suppress(OSError, UnicodeError):
            found |= {_plain(str(one[4][0])) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return frozenset(found)


class HangUp:
    """`with HangUp(addresses): del reader`: ends this process's connections to those addresses."""

    def __init__(self, to: Set[str]):
        self._to = to
        self._ending: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> HangUp:
        descriptors = [fd for fd in _sockets() if _other_side(fd) in self._to] if self._to else []
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


def _sockets() -> list[int]:
    """The descriptors of this process that are sockets; none where the system does not tell (Linux does)."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    found.append(int(name))
    return found


def _other_side(descriptor: int) -> str | None:
    """The IP address at the other end of a TCP connection; None for what is none."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
        if one.type == socket.SOCK_STREAM and one.family in (socket.AF_INET, socket.AF_INET6):
            return _plain(one.getpeername()[0])
    return None


def _plain(address: str) -> str:
    """Without the form in which an IPv6 socket shows IPv4."""
    return address.removeprefix("::ffff:")
