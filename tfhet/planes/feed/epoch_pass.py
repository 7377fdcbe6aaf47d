"""An epoch that a rank reads, or has begun: what is on the way from each server, and what waits for the script."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field

from tfhet.planes.feed.credit import Credit
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.received import Received
from tfhet.planes.feed.share import Share


@dataclass(eq=False)
class EpochPass:
    """Not for several threads at once, but for `ready` and `next`."""

    share: Share
    on_way: list[int]
    """Number of batches in work and on the way, by server."""
    waiting: list[int]
    """Number of batches in `ready`, by server."""
    ready: queue.SimpleQueue[Received | None] = field(default_factory=queue.SimpleQueue)
    """None: something else has changed, for which the script has to look."""

    @classmethod
    def of(cls, share: Share) -> EpochPass:
        return cls(share, [0] * share.servers, [0] * share.servers)

    def has(self, server: int) -> int:
        """Number of batches that a server has in work, on the way, or waiting."""
        return self.on_way[server] + self.waiting[server]

    def wishes(self, server: int, credit: Credit) -> list[Wish]:
        """The batches to ask a server for now."""
        found = self.share.wishes(server, credit.asks(self.has(server)), credit.most)
        self.on_way[server] += len(found)
        return found

    def came(self, found: Received) -> None:
        """Takes a batch that was wanted (`Share.came`)."""
        self.on_way[found.server] -= 1
        self.waiting[found.server] += 1
        self.ready.put(found)

    def next(self, limit_s: float) -> Received | None:
        """The next batch for the script. None where none comes for so long, or something else has changed."""
        try:
            return self.ready.get(timeout=limit_s)
        except queue.Empty:
            return None

    def took(self, found: Received) -> None:
        """Notes that the script has a batch from `ready`."""
        self.waiting[found.server] -= 1
        self.share.taken.add(found.key)

    def lost(self, server: int) -> None:
        """See `Share.lost`."""
        self.share.lost(server)
        self.on_way[server] = 0
