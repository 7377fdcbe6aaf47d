"""The messages of a feed, as the headers of its frames.

reader -> server    want     a batch of a source
server -> reader    batch, over (the shard has no such batch), error (of the user's code), alive
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfhet.errors import DataError, UsageError
from tfhet.messages import Count
from tfhet.planes.feed.frame import FrameError
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.record import from_json_object

ALIVE_S = 1.0
"""Seconds after which a server that has nothing to send says that it lives."""
SILENT_S = 30.0
"""Seconds without a word after which a reader takes a server for lost."""


@dataclass(frozen=True)
class Want:
    """A wish, and the source that it is for."""

    source: str
    """Its id; the source itself comes with the first wish for it on a connection."""
    index: Count
    count: Count
    epoch: Count
    number: Count
    first: Count
    ranks: Count
    seed: Count = 0
    is_rest: bool = False
    named: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, wish: Wish, source: FeedSource, is_new: bool) -> Want:
        shard = wish.shard
        return cls(
            source.id,
            shard.index,
            shard.count,
            shard.epoch,
            wish.number,
            wish.first,
            wish.ranks,
            shard.seed,
            wish.is_rest,
            source.to_json() if is_new else None,
        )

    def header(self) -> dict[str, Any]:
        return {"type": "want", **asdict(self)}

    @property
    def wish(self) -> Wish:
        shard = Shard(self.index, self.count, self.epoch, self.seed)
        return Wish(shard, self.number, self.first, self.ranks, self.is_rest)

    @classmethod
    def parse(cls, header: Mapping[str, Any]) -> Want:
        """Raises FrameError for a header that is no wish."""
        values = {name: value for name, value in header.items() if name != "type"}
        try:
            found = from_json_object(cls, values, "want", strict=True)
        except (DataError, UsageError) as error:
            raise FrameError(f"{header.get('type')!r}: {error}") from None
        if header.get("type") != "want" or not (found.index < found.count and found.ranks > 0):
            raise FrameError(f"no wish: {header.get('type')!r}, shard {found.index} of {found.count}")
        return found
