"""The messages of a feed, as the headers of its frames: a reader sends `Want`, a server sends the others."""

from __future__ import annotations

from tfhet.planes.feed.frame import Header, Tree
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.share import Ask
from tfhet.planes.feed.source import FeedSource
from tfhet.schema import Amount, Count

ALIVE_S = 1.0
"""Seconds after which a server that has nothing to send says that it lives."""
SILENT_S = 30.0
"""Seconds without a word after which a reader takes a server for lost."""


class Want(Header, frozen=True, omit_defaults=True):
    """Wishes of a reader, and the source that they are for."""

    source: str
    """Its id."""
    wishes: tuple[Wish, ...]
    named: FeedSource | None = None
    """The source itself, with the first wish for it on a connection."""

    def __post_init__(self) -> None:
        for shard in (wish.shard for wish in self.wishes):
            if shard.index >= shard.count:
                raise ValueError(f"a wish for shard {shard.index} of {shard.count}")


class Answer(Header, frozen=True, omit_defaults=True, kw_only=True):
    """The answer of a server to a wish."""

    source: str
    wish: Wish

    @property
    def ask(self) -> Ask:
        return self.wish.shard.index, self.wish.number, self.wish.is_rest


class Batch(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """The batch, whose arrays are in the buffers."""

    tree: Tree = None
    """None: the same as that of the last batch on this connection."""
    examples: Count | None = None
    """Number of examples in a whole epoch of a map-style dataset; None for others."""
    again: Count = 0
    """Number of batches that were made a second time for it."""


class Over(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """The shard has no such batch."""

    batches: Count
    """Number of batches that it has."""


class Failed(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """The user's code has raised an error."""

    text: str


class Alive(Header, frozen=True, omit_defaults=True):
    """The server has nothing to send; what the user's code does meanwhile, if it runs."""

    source: str = ""
    """The source for which it makes a batch."""
    for_s: Amount = 0.0
    """Seconds since it began with this batch."""
    at: tuple[str, ...] = ()
    """The functions in which it is, the innermost one first."""


FromServer = Batch | Over | Failed | Alive
