"""Number of batches in an epoch of a map-style dataset, asked of a server before anything is read."""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.errors import NotReady
from tfhet.planes.feed.connection import FeedConnection, Stranger
from tfhet.planes.feed.message import SILENT_S, Alive, FromServer, Over, Want
from tfhet.planes.feed.production import MOST, Wish
from tfhet.planes.feed.received import SourceError
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.planes.feed.work import Watch
from tfhet.schema import MessageError


def length(
    servers: Sequence[str], key: bytes, encrypted: bool, source: FeedSource, seed: int, make_limit_s: float
) -> int:
    """As the first of the servers says that answers. Raises SourceError, and NotReady where none answers, or the user's
    code takes longer than `make_limit_s`."""
    why = "there is none"
    for address in servers:
        try:
            end = FeedConnection.dial(address, key, encrypted)
        except (OSError, Stranger) as error:
            why = f"{address}: {error}"
            continue
        watch = Watch(address, str(source), make_limit_s)
        try:
            end.silent_after(SILENT_S)
            end.send([(Want(source.id, (Wish(Shard(0, 1, 0, seed), MOST, 0),), source), ())])
            while True:
                for message in end.receive(FromServer):
                    if isinstance(message, Over):
                        return message.batches
                    if not isinstance(message, Alive):
                        raise SourceError(f"{source} raised on {address}:\n{getattr(message, 'text', '')}")
                    watch.heard(message)
        except (OSError, MessageError) as error:
            why = f"{address}: {error}"
        finally:
            end.close()
    raise NotReady(f"no server of the feed answers: {why}")
