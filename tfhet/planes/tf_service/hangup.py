"""Hanging up on workers that have fallen silent.

The destructor of a data service reader waits for the answer to every pending request, and holds Python's lock. It
cancels requests, but none for work that a new dispatcher does not know (TF 2.15.1), and a worker that is frozen or cut
off never answers. So another process, which has inherited the connections to the data hosts, shuts them down a moment
later.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Set
from typing import Any

from tfhet.clock import SYSTEM

_AFTER_S = 0.3
"""Seconds after which the reader's destructor has begun, so that it sends no further request."""
_LIMIT_S = 10.0
"""Seconds that the other process may take."""
_RETRY_S = 5.0
_STILL_S = 1.0
"""Seconds for which Python stands still before connections end at its exit. A request that breaks before it was
cancelled is sent again, to a worker that does not answer, and the destructor waits for that one (TF 2.15.1)."""
_BEAT_S = 0.05
_SLEEP = f"import time; time.sleep({_AFTER_S})"
_UNTIL_STILL = f"""
import os, select, sys, time
thread, since = f"/proc/{{os.getppid()}}/task/{{os.getppid()}}/stat", time.monotonic()
while time.monotonic() < since + {_STILL_S}:
    beats = select.select([0], [], [], {_BEAT_S})[0]
    if beats and not os.read(0, 64):
        sys.exit()
    if beats or ") S " not in open(thread).read():
        since = time.monotonic()
"""
_END = """
import socket, sys
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
    ending = _ending(to, _SLEEP)
    try:
        yield
    finally:
        if ending is not None:
            with ending:
                try:
                    ending.wait(_LIMIT_S)
                except subprocess.TimeoutExpired:
                    ending.kill()


def hang_up_at_exit(to: Set[str]) -> None:
    """From now on, the connections to those addresses end with Python: after the exit handlers, once the destructor of
    a reader that was left holds the process up. Only those of one reader end in time."""
    endings: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
    threading.Thread(target=_beat, args=(endings,), name="tfhet-exit", daemon=True).start()
    atexit.register(lambda: endings.put(ending) if (ending := _ending(to, _UNTIL_STILL)) else None)


def _beat(endings: queue.SimpleQueue[subprocess.Popen[bytes]]) -> None:
    """Holds back the process that `endings` brings while Python code runs: after the exit handlers no thread does."""
    ending = endings.get()
    assert ending.stdin is not None
    with contextlib.suppress(OSError):
        while True:
            os.write(ending.stdin.fileno(), b".")
            SYSTEM.sleep(_BEAT_S)


def _ending(to: Set[str], when: str) -> subprocess.Popen[bytes] | None:
    """A process that ends the connections after the program `when`; None where there are none."""
    descriptors = [fd for fd, address in _connections() if address in to] if to else []
    command = [sys.executable, "-S", "-E", "-c", when + _END, *map(str, descriptors)]
    how: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}  # it may outlive this one a moment
    with contextlib.suppress(OSError):
        return subprocess.Popen(command, pass_fds=descriptors, **how) if descriptors else None
    return None


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
