"""The messages of a feed, as the headers of its frames.

reader -> server    want     a batch of a source
server -> reader    batch, over (the shard has no such batch), error (of the user's code), alive
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

from tfhet.errors import shown
from tfhet.planes.feed.frame import FrameError
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.source import FeedSource, Shard

ALIVE_S = 1.0
"""Seconds after which a server that has nothing to send says that it lives."""
SILENT_S = 30.0
"""Seconds without a word after which a reader takes a server for lost."""


_NUMBERS = ("index", "count", "epoch", "seed", "number", "first", "ranks")


def wanted(wish: Wish, source: FeedSource, is_new: bool) -> dict[str, Any]:
    """The header of a wish. is_new: whether the server has not had the source on this connection."""
    shard = wish.shard
    numbers = (shard.index, shard.count, shard.epoch, shard.seed, wish.number, wish.first, wish.ranks)
    found: dict[str, Any] = {"type": "want", "source": source.id, "at": numbers, "is_rest": wish.is_rest}
    return {**found, "named": source.to_json()} if is_new else found


@dataclass(frozen=True)
class Want:
    """A wish, and the source that it is for."""

    source: str
    """Its id; the source itself comes with the first wish for it on a connection."""
    wish: Wish
    named: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, header: Mapping[str, Any]) -> Want:
        """Raises FrameError for a header that is no wish."""
        source, at, named = header.get("source"), header.get("at"), header.get("named")
        if header.get("type") != "want" or not isinstance(source, str) or not isinstance(named, (dict, NoneType)):
            raise FrameError(f"no wish: {shown(header)}")
        if not isinstance(at, list) or len(at) != len(_NUMBERS) or any(type(one) is not int or one < 0 for one in at):
            raise FrameError(f"a wish for {shown(at)}; its numbers are {', '.join(_NUMBERS)}")
        index, count, epoch, seed, number, first, ranks = at
        if index >= count or not ranks:
            raise FrameError(f"a wish for shard {index} of {count}, for {ranks} ranks")
        wish = Wish(Shard(index, count, epoch, seed), number, first, ranks, header.get("is_rest") is True)
        return cls(source, wish, named)
