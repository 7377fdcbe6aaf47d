"""Messages of the link: an outbox that survives a broken connection, and an inbox that calls back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from tfhet.control.message import Alive, AnyMessage, Numbered, encode
from tfhet.schema import MessageError
from tfhet.units import MIB

logger = logging.getLogger(__name__)

MAX_KEPT_BYTES = 4 * MIB


class Inbox:
    """Calls callbacks one after another, once the calling task has paused. An error of a callback is logged."""

    def __init__(self) -> None:
        self._is_closed = False

    def put(self, callback: Callable[..., None] | None, *arguments: Any) -> None:
        """Has a function called soon; does nothing for None."""
        if callback is not None:
            asyncio.get_running_loop().call_soon(self._call, callback, arguments)

    def _call(self, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            if not self._is_closed:
                callback(*arguments)
        except Exception:
            logger.exception("a callback of the link failed")

    def close(self) -> None:
        """Drops the calls that are not made yet."""
        self._is_closed = True


class Outbox:
    """The numbered messages of one side. Each arrives once and in order, over any number of connections, because the
    sender keeps it until the other side has confirmed it."""

    def __init__(self) -> None:
        self._sent = 0
        self._kept: deque[tuple[Numbered, int]] = deque()
        self._kept_bytes = 0
        self.seen = 0
        """Number of the last message received; goes out with every renewal, as confirmation."""

    @property
    def is_full(self) -> bool:
        """Whether the maximum of unconfirmed messages is exceeded."""
        return self._kept_bytes > MAX_KEPT_BYTES

    def pack(self, body: Any) -> Numbered:
        """Numbers and keeps a message. Raises MessageError for a body that cannot be sent."""
        packed = Numbered(self._sent + 1, body)
        size = len(encode(packed))
        self._sent += 1
        self._kept.append((packed, size))
        self._kept_bytes += size
        return packed

    def confirm(self, seen: int) -> None:
        """Forgets the messages up to number `seen`. Raises MessageError when fewer were sent."""
        if not 0 <= seen <= self._sent:
            raise MessageError(f"message {seen} confirmed, {self._sent} sent")
        while self._kept and self._kept[0][0].n <= seen:
            self._kept_bytes -= self._kept.popleft()[1]

    def unconfirmed(self) -> tuple[Numbered, ...]:
        """The messages to be sent again over a new connection, in order."""
        return tuple(message for message, _ in self._kept)

    def receive(self, message: AnyMessage, inbox: Inbox, callback: Callable[..., None] | None) -> bool:
        """Takes a renewal or a numbered message, whose body goes to `callback`; False for others. Raises as `take`."""
        if isinstance(message, Alive):
            self.confirm(message.seen)
            return True
        if not isinstance(message, Numbered):
            return False
        if (body := self.take(message)) is not None:
            inbox.put(callback, body)
        return True

    def take(self, message: Numbered) -> dict[str, Any] | None:
        """The body of a received message; None when it was received before. Raises MessageError for a gap."""
        if message.n <= self.seen:
            return None
        if message.n != self.seen + 1:
            raise MessageError(f"message {message.n} after {self.seen}")
        self.seen += 1
        return message.body
