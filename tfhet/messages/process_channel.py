"""The process's end of the channel to the launcher that started it (channel.py)."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
from collections.abc import Mapping
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.messages.channel import CHANNEL_VARIABLE, MAX_BYTES, packet_of
from tfhet.messages.grammar import MessageError, decode

_RETRY_S = 0.02


class ProcessChannel:
    """The process's end; all methods may be called from any thread. Without a socket it sends and receives nothing.

    Programs that the process executes do not inherit it, and children that it forks close their copy.
    """

    def __init__(self, end: socket.socket | None = None):
        self.dropped = 0
        """Number of messages that the launcher did not take in time."""
        self._end = end
        if end is not None:
            end.setblocking(False)
            end.set_inheritable(False)

    @property
    def is_open(self) -> bool:
        """Whether there is a launcher at the other end, as far as is known."""
        return self._end is not None

    def send(self, values: Mapping[str, Any], limit_s: float = 0.0) -> bool:
        """Sends a message; waits at most `limit_s` for room. False when it was dropped, or without a launcher.

        Raises MessageError for what is not a message.
        """
        packet = packet_of(values)
        until_s = SYSTEM.monotonic() + limit_s
        while (end := self._end) is not None:
            try:
                end.send(packet)
                return True
            except BlockingIOError:
                now_s = SYSTEM.monotonic()
                if now_s >= until_s:
                    self.dropped += 1
                    return False
                # Not for longer: the system calls a socket writable when three quarters of its buffer are free.
                _wait(end, select.POLLOUT, min(until_s, now_s + _RETRY_S))
            except OSError:  # the launcher is gone, or this end was closed meanwhile
                self.close()
        return False

    def receive(self, limit_s: float = 0.0) -> dict[str, Any] | None:
        """The next message, waiting at most `limit_s` for it; None when none has come. Skips packets that are no
        messages."""
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
                return decode(packet)
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
    """The channel that `env` names, opened once in a process; one without a launcher where there is none."""
    text = env.get(CHANNEL_VARIABLE, "")
    with _OPENING:
        if text not in _OPENED:
            _OPENED[text] = ProcessChannel(_end_of(text))
        return _OPENED[text]


def _end_of(text: str) -> socket.socket | None:
    """The inherited socket; None where the process has not inherited it."""
    number, _, inode = text.partition(":")
    try:
        status = os.fstat(int(number))
        if stat.S_ISSOCK(status.st_mode) and status.st_ino == int(inode):
            return socket.socket(fileno=int(number))
    except (OSError, ValueError, OverflowError):
        pass
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
