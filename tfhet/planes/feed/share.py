"""A rank's share of an epoch: the batches that it requests from each server, how many at a time, and when it has all.

Of each shard, rank r of R gets the batches r, r + R, r + 2R, ... When all shards have ended, the batches that fill no
round of all ranks are distributed in the order of shards. So every rank computes the same from the lengths of the
shards, and all ranks get the same number of batches; fewer than R are left over, and they are counted.
"""

from __future__ import annotations

import itertools
import math
import queue
from collections.abc import Iterator
from dataclasses import dataclass, field

from tfhet.clock import SYSTEM
from tfhet.planes.feed.batch_reader import START, Position
from tfhet.planes.feed.credit import Credit
from tfhet.planes.feed.delivered import BatchRequest, DeliveredSet, Key, Loss, Received, RequestKey, described
from tfhet.planes.feed.source import Shard


@dataclass(eq=False)
class _Part:
    """The state of a shard that a rank knows."""

    server: int
    """The server that makes its batches."""
    rounds: int = 0  # that were requested
    batches: int | None = None  # in the shard, once known


@dataclass(eq=False)
class Share:
    """The share of rank `rank` of `size`. Not thread-safe."""

    epoch: int
    seed: int
    rank: int
    size: int
    servers: int
    """Number of servers, each with one shard. A map-style dataset is one shard, which every server has."""
    is_map: bool
    is_equal: bool = True
    """Whether all ranks get the same number of batches; otherwise no batch is left over, and a rank may be short of
    one."""
    position: Position = START
    iteration: int = 0
    """See `BatchRequest`."""

    def __post_init__(self) -> None:
        self.delivered = DeliveredSet(self.rank, self.size, self.position.delivered)
        """Batches that the script has received; of an iterable in earlier runs too."""
        self._parts = [_Part(index) for index in range(1 if self.is_map else self.servers)]
        self._again: list[RequestKey] = []  # of lost servers
        self._requested: dict[RequestKey, int] = {}
        """Batches that were requested and have not arrived, with the server."""
        self._rest: list[Key] | None = None
        self._living = set(range(self.servers))
        self.is_ending = False
        """Whether a server is known to have no further work for the epoch."""

    # Requests

    def requests(self, server: int, most: int, ahead: int = 0) -> list[BatchRequest]:
        """Returns at most `most` batches to request from a server now. ahead: maximum that it may have in all."""
        keys = list(itertools.islice(self._next_keys(server), most))
        if not keys:
            return []
        self._requested |= dict.fromkeys(keys, server)
        first: dict[int, int] = {}
        for index, number, _ in (*self._requested, *self._again):
            first[index] = min(number, first.get(index, number))
        shard = {index: Shard(index, len(self._parts), self.epoch, self.seed) for index, *_ in keys}
        place = self.position.offset, self.iteration
        return [
            BatchRequest(shard[index], number, first[index], self.size, is_rest, ahead, *place)
            for index, number, is_rest in keys
        ]

    def _next_keys(self, server: int) -> Iterator[RequestKey]:
        """Yields batches that a server can make; the caller must request each of them."""
        for key in [key for key in self._again if self._is_at(key[0], server)]:
            self._again.remove(key)
            yield key
        for index, part in enumerate(self._parts):
            while self._is_at(index, server) and part.batches is None:
                number = part.rounds * self.size + self.rank
                part.rounds += 1
                if (index, number) not in self.delivered:
                    yield index, number, False
        rest = self._rest_of_all()
        for batch in [batch for batch in rest if self._is_at(batch[0], server)]:
            rest.remove(batch)
            yield *batch, True

    def _is_at(self, index: int, server: int) -> bool:
        return self.is_map or self._parts[index].server == server

    def _rest_of_all(self) -> list[Key]:
        """Returns this rank's part of the batches that fill no round, once all shards have ended."""
        if self._rest is None:
            if not self._is_known:
                return []
            rest = [
                (index, number)
                for index, part in enumerate(self._parts)
                for number in range((part.batches or 0) // self.size * self.size, part.batches or 0)
            ]
            if self.is_equal:
                rest = rest[: len(rest) // self.size * self.size]
            self._rest = [key for key in rest[self.rank :: self.size] if key not in self.delivered]
        return self._rest

    @property
    def again(self) -> int:
        """Number of batches of lost servers that are not requested again yet."""
        return len(self._again)

    @property
    def next_of_map(self) -> float:
        """Lowest number of a batch of a map-style dataset that was requested and has not arrived; inf if none."""
        return min((number for _, number, _ in (*self._requested, *self._again)), default=math.inf)

    # Answers

    def accept(self, key: RequestKey) -> bool:
        """Returns whether a batch that arrived was requested and has not arrived before."""
        return self._requested.pop(key, None) is not None

    def end_shard(self, key: RequestKey, batches: int) -> bool:
        """Notes that a shard has no complete round with this batch. Returns whether the batch was requested: an answer
        to an earlier iteration may arrive too soon."""
        if not self.accept(key):
            return False
        part = self._parts[key[0]]
        part.batches = batches if part.batches is None else part.batches
        self.is_ending = True
        return True

    def remove_server(self, server: int) -> RequestKey | None:
        """Assigns the work of a lost server to the others; keeps it if there are none. Returns the batch that the
        server was to make first, if there is one."""
        self._living.discard(server)
        lost = [key for key, one in self._requested.items() if one == server]
        self._again += lost
        for key in lost:
            del self._requested[key]
        left = sorted(self._living)
        for at, part in enumerate(part for part in self._parts if part.server == server and left):
            part.server = left[at % len(left)]
        return lost[0] if lost else None

    def add_server(self, server: int) -> None:
        """Assigns the unassigned shards to a server that joined or rejoined."""
        self._living.add(server)
        for part in self._parts:
            if part.server not in self._living:
                part.server = server

    # State

    @property
    def _is_known(self) -> bool:
        return all(part.batches is not None for part in self._parts)

    @property
    def is_whole(self) -> bool:
        """Whether all batches have arrived."""
        return self._is_known and not (self._requested or self._again or self._rest_of_all())

    @property
    def is_short(self) -> bool:
        """Whether this rank gets one batch less than another; valid when all shards have ended."""
        total = sum(part.batches or 0 for part in self._parts)
        return not self.is_equal and self.rank >= total % self.size > 0

    @property
    def left(self) -> int:
        """Number of batches of the epoch that no rank gets; valid when all shards have ended."""
        total = sum(part.batches or 0 for part in self._parts)
        return total % self.size if self.is_equal else 0


@dataclass(eq=False)
class EpochPass:
    """An epoch that a rank reads. Not thread-safe, except for `ready` and `next`."""

    share: Share
    in_transit: list[int]
    """Number of batches in progress and in transit, by server."""
    waiting: list[int]
    """Number of batches in `ready`, by server."""
    ready: queue.SimpleQueue[Received | None] = field(default_factory=queue.SimpleQueue)
    """None wakes the script, which then checks the state again."""
    losses: dict[RequestKey, Loss] = field(default_factory=dict)
    """Of the batches that a server was to make when it was lost."""

    @classmethod
    def of(cls, share: Share) -> EpochPass:
        return cls(share, [0] * share.servers, [0] * share.servers)

    def __post_init__(self) -> None:
        self._since_s = [0.0] * self.share.servers
        """When each server began with the first of its batches, at the latest."""
        self._early: dict[int, Received] = {}
        """Batches of a map-style dataset that arrived before one with a lower number."""

    def free(self, server: int, credit: Credit) -> int:
        early = sum(each.server == server for each in self._early.values())
        return credit.free(self.in_transit[server] + self.waiting[server], early)

    def requests(self, server: int, credit: Credit) -> list[BatchRequest]:
        # Batches of lost servers come first, whatever the server has: those that it has made may wait for them.
        found = self.share.requests(server, max(self.free(server, credit), self.share.again), credit.most)
        if not self.in_transit[server]:
            self._since_s[server] = SYSTEM.monotonic()
        self.in_transit[server] += len(found)
        return found

    def add(self, found: Received, now_s: float) -> None:
        """Adds a batch that `Share.accept` accepted."""
        self._since_s[found.server] = now_s
        self.in_transit[found.server] -= 1
        self.waiting[found.server] += 1
        if self.share.is_map:
            self._early[found.key[1]] = found
            self._release()
        else:
            self.ready.put(found)

    def _release(self) -> None:
        """Makes the batches ready that no batch with a lower number has to precede."""
        for number in sorted(number for number in self._early if number < self.share.next_of_map):
            self.ready.put(self._early.pop(number))

    def end_shard(self, server: int, key: RequestKey, batches: int) -> None:
        """See `Share.end_shard`."""
        self._since_s[server] = SYSTEM.monotonic()
        self.in_transit[server] -= self.share.end_shard(key, batches)
        self._release()

    def next(self, limit_s: float) -> Received | None:
        """Returns the next batch for the script; None after `limit_s` seconds, or if the state has changed."""
        try:
            return self.ready.get(timeout=limit_s)
        except queue.Empty:
            return None

    def deliver(self, found: Received) -> None:
        """Notes that the script has received a batch from `ready`."""
        self.waiting[found.server] -= 1
        self.share.delivered.add(found.key)

    def remove_server(self, server: int) -> Loss | None:
        """Assigns the work of a lost server to the others. Returns the batch that it was to make, if there is one."""
        key = self.share.remove_server(server)
        self.in_transit[server] = 0
        if key is None:
            return None
        before = self.losses.get(key, Loss(described(key, self.share.epoch)))
        self.losses[key] = before.again(SYSTEM.monotonic() - self._since_s[server])
        return self.losses[key]
