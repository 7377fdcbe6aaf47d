"""Hanging up on workers that have fallen silent.

The destructor of a data service reader waits for the answer to every pending request, and holds Python's lock. A
worker that is frozen or cut off never answers. So another process, which has inherited the connections to the data
hosts, shuts them down a moment later.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Set

from tfhet.clock import SYSTEM

_AFTER_S = 0.3
"""Seconds after which the reader's destructor has begun, so that it sends no further request."""
_LIMIT_S = 10.0
"""Seconds that the other process may take."""
_RETRY_S = 5.0
_END = f"""
import socket, sys, time
time.sleep({_AFTER_S})
for fd in map(int, sys.argv[1:]):
    try:
        socket.socket(fileno=fd).shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
"""


class _Addresses(set[str]):
    """A set that a thread fills as long as somebody has it."""


def addresses(hosts: Iterable[str]) -> Set[str]:
    """The IP addresses of hosts, given by name or address: a set that grows, because a thread looks them up, again
    every `_RETRY_S` until each is known. Nothing waits for a name service that hangs."""
    found = _Addresses()
    place = weakref.ref(found)

    def look_up(unknown: list[str]) -> None:
        while unknown and place() is not None:
            for host in tuple(unknown):
                with contextlib.suppress(OSError, UnicodeError):
                    known = {_plain(str(one[4][0])) for one in socket.getaddrinfo(host, None)}
                    if (still := place()) is not None:
                        still.update(known)
                    del still
                    unknown.remove(host)
            SYSTEM.sleep(_RETRY_S if unknown else 0.0)

    threading.Thread(target=look_up, args=(list(hosts),), name="tfhet-addresses", daemon=True).start()
    return found


@contextlib.contextmanager
def hang_up(to: Set[str]) -> Iterator[None]:
    """`with hang_up(addresses): del reader`: ends this process's connections to those addresses."""
    descriptors = [fd for fd, address in _connections() if address in to] if to else []
    ending = None
    if descriptors:
        command = [sys.executable, "-S", "-E", "-c", _END, *map(str, descriptors)]
        with contextlib.suppress(OSError):
            ending = subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        if ending is not None:
            try:
                ending.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                ending.kill()
                ending.wait()


def _connections() -> Iterator[tuple[int, str]]:
    """The descriptors of this process's TCP connections, and the IP address at the other end. Linux; none elsewhere."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    with socket.socket(fileno=os.dup(int(name))) as one:
                        if one.type == socket.SOCK_STREAM and one.family in (socket.AF_INET, socket.AF_INET6):
                            yield int(name), _plain(one.getpeername()[0])


def _plain(address: str) -> str:
    """Removes the prefix with which an IPv6 socket shows an IPv4 address."""
    return address.removeprefix("::ffff:")
