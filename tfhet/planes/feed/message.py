"""The messages of a feed, as headers of its frames: a reader sends `BatchRequests`, a server the other messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tfhet.clock import SYSTEM
from tfhet.planes.feed.frame import Header, Tree
from tfhet.planes.feed.production import BatchRequest
from tfhet.planes.feed.share import RequestKey
from tfhet.planes.feed.source import FeedSource
from tfhet.process import stack_of
from tfhet.schema import Amount, Count

ALIVE_S, SILENT_S = 1.0, 30.0
"""Seconds of silence after which a server reports that it is alive, and after which a reader treats it as lost."""
MOST_FRAMES = 6
_OWN = "/tfhet/planes/feed/"


class BatchRequests(Header, frozen=True, omit_defaults=True, tag="want"):
    """Requests of a reader for batches of one source."""

    source: str
    """Id of the source."""
    requests: tuple[BatchRequest, ...] = msgspec.field(name="wishes")
    named: FeedSource | None = None
    """The source, in the first message about it on a connection."""

    def __post_init__(self) -> None:
        for shard in (request.shard for request in self.requests):
            if shard.index >= shard.count:
                raise ValueError(f"a request for shard {shard.index} of {shard.count}")


class Answer(Header, frozen=True, omit_defaults=True, kw_only=True):
    """A server's answer to a request."""

    source: str
    request: BatchRequest = msgspec.field(name="wish")

    @property
    def key(self) -> RequestKey:
        return self.request.shard.index, self.request.number, self.request.is_rest


class Batch(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """A batch; its arrays are in the buffers."""

    tree: Tree = None  # the same as for the last batch on this connection
    examples: Count | None = None  # of a whole epoch of a map-style dataset
    again: Count = 0
    """Number of batches that were made a second time for it."""


class NoBatch(Answer, frozen=True, omit_defaults=True, kw_only=True, tag="over"):
    """The shard has no such batch."""

    batches: Count  # of the shard


class Failed(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """The user's code raised an error."""

    text: str


class Alive(Header, frozen=True, omit_defaults=True):
    """The server has nothing to send, and may be running the user's code."""

    source: str = ""
    """The source whose batch it makes."""
    for_s: Amount = 0.0
    """Seconds since it began this batch."""
    at: tuple[str, ...] = ()  # functions that run, the innermost first


FromServer = Batch | NoBatch | Failed | Alive


class WorkMonitor:
    """The server's side: `with monitor.on(source):` around the user's code."""

    def __init__(self) -> None:
        self._now: tuple[str, float, int] | None = None

    @contextlib.contextmanager
    def on(self, source: str) -> Iterator[None]:
        self._now = source, SYSTEM.monotonic(), threading.get_ident()
        try:
            yield
        finally:
            self._now = None

    def report(self) -> Alive:
        now = self._now
        if now is None:
            return Alive()
        source, since_s, thread = now
        at = []
        for code, line in stack_of(thread):
            if _OWN in code.co_filename:
                break
            at.append(f"{code.co_name} ({Path(code.co_filename).name}, line {line})")
        return Alive(source, SYSTEM.monotonic() - since_s, tuple(at[:MOST_FRAMES]))
