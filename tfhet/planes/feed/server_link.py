"""A server as a reader of the feed sees it: its connection, its limit for one batch, and the length of an epoch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfhet.errors import NotReady
from tfhet.planes.feed.connection import FeedConnection, Unauthenticated
from tfhet.planes.feed.delivered import SourceError
from tfhet.planes.feed.message import SILENT_S, Alive, BatchRequests, FromServer, NoBatch
from tfhet.planes.feed.production import NO_BATCH, BatchRequest
from tfhet.planes.feed.share import Credit, EpochPass
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import MessageError

MAKE_LIMIT_S = 600.0
"""Default limit in seconds for one batch of the user's code, including all loading before the first one."""
SLOW_S = 30.0
"""Seconds for one batch after which a reader logs where the user's code is."""


@dataclass(eq=False)
class ServerLink:
    """The state of one server."""

    index: int
    address: str
    host: str | None
    """Name of its host, if known."""
    credit: Credit
    connection: FeedConnection | None = None
    knows_source: bool = False
    """Whether the source was sent on this connection."""
    lost: str | None = None
    """Why it does not answer; None if it does."""
    is_given_up: bool = False
    sending: threading.Lock = field(default_factory=threading.Lock)

    def requests(self, passes: Mapping[int, EpochPass], source: FeedSource) -> list[BatchRequests]:
        """Returns the messages to send now, for all epochs that are read."""
        found: list[BatchRequests] = []
        for _, each in sorted(passes.items()):
            if requests := tuple(each.requests(self.index, self.credit)):
                found.append(BatchRequests(source.id, requests, None if self.knows_source else source))
                self.knows_source = True
        return found

    def close(self) -> None:
        if (connection := self.connection) is not None:
            connection.close()


class ServerTimeout:
    """Checks how long a server has been making one batch."""

    def __init__(self, address: str, source: str, limit_s: float):
        """limit_s: limit in seconds for one batch of `source`. Batches of other sources have other readers' limits."""
        self._address, self._source, self._limit_s = address, source, limit_s
        self._has_logged = False

    def check(self, alive: Alive) -> str | None:
        """Returns a line for the log, once for each slow batch. Raises NotReady above the limit."""
        if alive.for_s < min(SLOW_S, self._limit_s):
            self._has_logged = False
            return None
        text = f"{alive.source} on {self._address} has been making one batch for {alive.for_s:.0f} s"
        if alive.at:
            text += f"; it is in {', called by '.join(alive.at)}"
        if alive.for_s > self._limit_s and alive.source == self._source:
            raise NotReady(f"{text}; at most {self._limit_s:g} s are allowed (make_limit_s)")
        is_new, self._has_logged = not self._has_logged, True
        return f"[tfhet] {text}" if is_new else None


def epoch_length(
    addresses: Sequence[str], key: bytes, encrypted: bool, source: FeedSource, seed: int, make_limit_s: float
) -> int:
    """Returns the number of batches in an epoch of a map-style dataset, from the first server that answers. Raises
    SourceError, and NotReady if no server answers or the user's code takes more than `make_limit_s` seconds."""
    request = BatchRequests(source.id, (BatchRequest(Shard(0, 1, 0, seed), NO_BATCH, 0),), source)
    why = "there is none"
    for address in addresses:
        timeout = ServerTimeout(address, str(source), make_limit_s)
        try:
            with contextlib.closing(FeedConnection.dial(address, key, encrypted)) as connection:
                connection.silent_after(SILENT_S)
                connection.send([(request, ())])
                while True:
                    for message in connection.receive(FromServer):
                        if isinstance(message, NoBatch):
                            return message.batches
                        if not isinstance(message, Alive):
                            raise SourceError(f"{source} raised on {address}:\n{getattr(message, 'text', '')}")
                        timeout.check(message)
        except (OSError, MessageError, Unauthenticated) as error:
            why = f"{address}: {error}"
    raise NotReady(f"no server of the feed answers: {why}")
