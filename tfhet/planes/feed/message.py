"""The messages of a feed, as headers of its frames: a reader sends `BatchRequests`, a server the other messages."""

from __future__ import annotations

import contextlib
import itertools
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType

import msgspec

from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.planes.feed.dataset import DatasetFacts
from tfhet.planes.feed.delivered import BatchRequest, RequestKey
from tfhet.planes.feed.frame import Header, Tree
from tfhet.planes.feed.source import FeedSource
from tfhet.process import stack_of
from tfhet.schema import Amount, Count

ALIVE_S, SILENT_S = 1.0, 30.0
"""Seconds of silence after which a server reports that it is alive, and after which a reader treats it as lost."""
MOST_FRAMES = 6
MOST_TEXT = 20_000
"""Maximum length of an error in characters."""
_OWN = "/tfhet/planes/feed/"


class BatchRequests(Header, frozen=True, omit_defaults=True, tag="want"):
    """Requests of a reader for batches of one source."""

    source: str
    """Id of the source."""
    requests: tuple[BatchRequest, ...] = msgspec.field(name="wishes", default=())
    """If there are none, the server imports the module of the source."""
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


class Described(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """Facts of a map-style dataset, before the first batch on a connection."""

    facts: DatasetFacts


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


FromServer = Batch | NoBatch | Described | Failed | Alive


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
        of_user = itertools.takewhile(lambda frame: _OWN not in frame[0].co_filename, stack_of(thread))
        frames = [frame for frame in of_user if not frame[0].co_filename.startswith("<frozen ")]  # of import and runpy
        return Alive(source, SYSTEM.monotonic() - since_s, _places(frames))


def _places(frames: Sequence[tuple[CodeType, int]]) -> tuple[str, ...]:
    """Returns the functions that run, the innermost first; the many frames of an import are one entry."""
    places = [f"{code.co_name} ({Path(code.co_filename).name}, line {line})" for code, line in frames]
    modules = [at for at, (code, _) in enumerate(frames) if code.co_name == "<module>"]
    if len(modules) > 1:  # the outermost is of the function, the one before of what it imports
        path = Path(frames[modules[-2]][0].co_filename)
        imported = path.parent.name if path.stem == "__init__" else path.stem
        places = [*places[: modules[0]][:1], f"the import of {imported}", *places[modules[-1] :]]
    return tuple(places[:MOST_FRAMES])


def text_of(error: BaseException) -> str:
    """Returns the traceback of the user's code without the server's frames; for tfhet's errors, only their text."""
    if isinstance(error, TfhetError):
        return str(error)[-MOST_TEXT:]
    trace = error.__traceback__
    while trace is not None and _OWN in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()[-MOST_TEXT:]
