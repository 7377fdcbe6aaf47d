"""A server as a reader of the feed sees it: its connection and its limit for one batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady
from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.credit import Credit
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.frame import Allocate, BatchLayout, Dict
from tfhet.planes.feed.message import Alive, Answer, Batch, BatchRequests, FromServer
from tfhet.planes.feed.share import EpochPass
from tfhet.planes.feed.source import FeedSource

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
    is_local: bool = False
    """Whether it is on the reader's host and shares memory with the reader."""
    connection: FeedConnection | None = None
    knows_source: bool = False
    """Whether the source was sent on this connection."""
    is_described: bool = False
    """Whether its facts of a map-style dataset were requested on this connection."""
    lost: str | None = None
    """Why it does not answer; None if it does."""
    is_given_up: bool = False
    since_s: float = 0.0
    """Time of the connection."""
    sending: threading.Lock = field(default_factory=threading.Lock)

    def __str__(self) -> str:
        return f"{self.host} ({self.address})" if self.host else self.address

    def open(self, connection: FeedConnection) -> None:
        self.connection, self.knows_source, self.is_described, self.lost = connection, False, False, None
        self.since_s = SYSTEM.monotonic()

    def requests(
        self, passes: Mapping[int, EpochPass], source: FeedSource, facts: BatchRequest | None
    ) -> list[BatchRequests]:
        """Returns the messages to send now, for all epochs that are read. facts: requests the facts of a map-style
        dataset."""
        found = [tuple(each.requests(self.index, self.credit)) for _, each in sorted(passes.items())]
        if facts is not None and not self.is_described:
            found.insert(0, (facts,))
            self.is_described = True
        messages = [BatchRequests(source.id, requests) for requests in found if requests]
        if not self.knows_source:
            self.knows_source = True
            first = messages[0].requests if messages else ()
            messages[:1] = [BatchRequests(source.id, first, source)]
        return messages

    def close(self) -> None:
        if (connection := self.connection) is not None:
            connection.close()


def server_links(
    servers: Sequence[str], hosts: Sequence[str | None], host: str | None, ahead: int | None
) -> list[ServerLink]:
    """Returns the initial states of servers. See `FeedReader`."""
    return [
        ServerLink(index, address, name, Credit(len(servers), ahead), is_local=name is not None and name == host)
        for index, (address, name) in enumerate(zip(servers, hosts or [None] * len(servers), strict=True))
    ]


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


def received(connection: FeedConnection, allocate: Allocate, may_share: bool) -> Iterator[tuple[Answer | Alive, Any]]:
    """Yields the messages of a server; with a `Batch` its value, with others None. Raises OSError and MessageError when
    the connection ends. allocate, may_share: as for `receive_data`."""
    layout = BatchLayout(Dict({}))
    while True:
        messages = connection.receive(FromServer)
        memories = connection.receive_data(messages, allocate, may_share)
        for message in messages:
            memory = memories.pop(0)
            if isinstance(message, Batch) and message.tree is not None:
                layout = BatchLayout(message.tree)
            batch = layout.batch(memory) if isinstance(message, Batch) else None
            del memory  # the pool uses it again when nothing refers to the batch
            yield message, batch
            del batch
