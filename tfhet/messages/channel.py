"""One channel between a launcher and a process that it starts: messages in both directions, apart from the log.

The channel is a pair of connected sockets of type SOCK_SEQPACKET (Linux): one message is one packet, taken whole or
not at all, so a writer never leaves half a message and two writers never mix. The process inherits one end; the
variable TFHET_CHANNEL holds its number and inode, so that a program that inherits the variable alone does not write
into whatever has that number there. A message is a JSON object of at most MAX_BYTES.

Neither side ever waits long for the other, nor fails because the other is gone: a message that cannot be sent is
dropped.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.schema import MessageError, decode, encode
from tfhet.units import KIB

CHANNEL_VARIABLE = "TFHET_CHANNEL"
MAX_BYTES = 32 * KIB
"""Longest message. A socket's buffer holds several of them (net.core.wmem_default is 208 KiB)."""
_MAX_LEFT = 10_000
"""More packets than a socket's buffer holds: a process that leaves as many has a child that still writes."""
_RETRY_S = 0.02


class Channel:
    """The launcher's end. `on_message` receives each message of the types `kinds`, on the event loop; others are
    ignored. `Child.start` hands the other end to the process, and ends the channel with it."""

    def __init__(self, on_message: Callable[[Any], None], kinds: Any = dict[str, Any]):
        self._on_message, self._kinds = on_message, kinds
        import asyncio  # only launchers need it

        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._end, self._other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.setblocking(False)
        self._loop.add_reader(self._end.fileno(), self._read)

    @property
    def descriptor(self) -> int:
        """Number of the process's end, which the process is to inherit under the same number."""
        return self._other.fileno()

    @property
    def variables(self) -> dict[str, str]:
        """The environment variable by which the process finds its end."""
        number = self.descriptor
        return {CHANNEL_VARIABLE: f"{number}:{os.fstat(number).st_ino}"}

    def started(self) -> None:
        """Gives up this process's copy of the other end, once the process has its own or could not be started."""
        self._other.close()

    def send(self, message: object) -> bool:
        """Sends a message, also as JSON values; False if it was dropped: the socket's buffer is full, or the process is
        gone. Raises MessageError for another value."""
        packet = encode(message, MAX_BYTES)
        with contextlib.suppress(OSError):
            self._end.send(packet)
            return True
        return False

    async def ended(self) -> None:
        """Takes the messages that are left in the channel, and closes it. To be called when the process has ended."""
        try:
            for _ in range(_MAX_LEFT):
                if self._is_closed or not self._read():
                    break
        finally:
            self.close()

    def close(self) -> None:
        """Closes both ends at once. Safe to call again."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._end.fileno())
            self._end.close()
        self._other.close()

    def _read(self) -> bool:
        """Takes one packet; False when there is none."""
        try:
            packet = self._end.recv(MAX_BYTES + 1)
        except BlockingIOError:
            return False
        except OSError:
            packet = b""
        if not packet:  # every copy of the other end is closed
            self.close()
            return False
        try:
            message = decode(packet, self._kinds)
        except MessageError:
            return True
        self._on_message(message)
        return True


class ProcessChannel:
    """The process's end; all methods may be called from any thread. Without a socket it sends and receives nothing.
    Programs that the process executes do not inherit it, and children that it forks close their copy."""

    def __init__(self, end: socket.socket | None = None):
        self._end = end
        if end is not None:
            end.setblocking(False)
            end.set_inheritable(False)

    @property
    def is_open(self) -> bool:
        """Whether a launcher may still be there."""
        return self._end is not None

    def send(self, message: object, limit_s: float = 0.0) -> bool:
        """Sends a message, also as JSON values; waits at most `limit_s` for room. False if it was dropped, or without a
        launcher. Raises MessageError for another value."""
        packet = encode(message, MAX_BYTES)
        until_s = SYSTEM.monotonic() + limit_s
        while (end := self._end) is not None:
            try:
                end.send(packet)
                return True
            except BlockingIOError:
                now_s = SYSTEM.monotonic()
                if now_s >= until_s:
                    return False
                # Not for longer: the system calls a socket writable when three quarters of its buffer are free.
                _wait(end, select.POLLOUT, min(until_s, now_s + _RETRY_S))
            except OSError:  # the launcher is gone, or this end was closed meanwhile
                self.close()
        return False

    def receive(self, limit_s: float = 0.0, kinds: Any = dict[str, Any]) -> Any:
        """The next message of the types `kinds` within `limit_s`, or None. Skips others."""
        until_s = SYSTEM.monotonic() + limit_s
        while (end := self._end) is not None:
            try:
                packet = end.recv(MAX_BYTES + 1)
            except BlockingIOError:
                if not _wait(end, select.POLLIN, until_s):
                    return None
                continue
            except OSError:
                packet = b""
            if not packet:
                self.close()
                return None
            with contextlib.suppress(MessageError):
                return decode(packet, kinds)
        return None

    def close(self) -> None:
        """Closes this end. Safe to call again."""
        end, self._end = self._end, None
        if end is not None:
            end.close()


_OPENED: dict[str, ProcessChannel] = {}
_OPENING = threading.Lock()


def _forked() -> None:
    global _OPENING
    _OPENING = threading.Lock()  # another thread of the parent may have held it
    for channel in _OPENED.values():
        channel.close()


os.register_at_fork(after_in_child=_forked)


def inherited(env: Mapping[str, str]) -> ProcessChannel:
    """The channel that `env` names, opened once in a process; if it names none, a channel without a launcher."""
    text = env.get(CHANNEL_VARIABLE, "")
    with _OPENING:
        if text not in _OPENED:
            _OPENED[text] = ProcessChannel(_end_of(text))
        return _OPENED[text]


def _end_of(text: str) -> socket.socket | None:
    """The socket, if the process has inherited it."""
    number, _, inode = text.partition(":")
    with contextlib.suppress(OSError, ValueError, OverflowError):
        status = os.fstat(int(number))
        if stat.S_ISSOCK(status.st_mode) and status.st_ino == int(inode):
            return socket.socket(fileno=int(number))
    return None


def _wait(end: socket.socket, event: int, until_s: float) -> bool:
    """Whether a socket becomes ready, or fails, before `until_s` on the monotonic clock."""
    left_s = until_s - SYSTEM.monotonic()
    if left_s <= 0:
        return False
    poll = select.poll()
    try:
        poll.register(end, event)
    except ValueError:  # closed meanwhile
        return True
    return bool(poll.poll(1e3 * left_s))
