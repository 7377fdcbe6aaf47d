"""The share of one rank in an epoch of a feed: which batches it asks for, of which server, and when it has all.

Of each shard the rank r of R takes the batches r, r + R, r + 2R, ... When all shards are over, those that do not fill a
round of all ranks are dealt out together, in the order of shards. So every rank computes the same from the lengths of
the shards alone, and all get the same number of batches; fewer than R are left over, which are counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass

from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.source import Shard
from tfhet.planes.feed.taken import Key, Taken

Ask = tuple[int, int, bool]
"""A batch, by its `Key`, and whether it is asked for as a rest: before, it may have been refused for its round."""


@dataclass(eq=False)
class _Part:
    """A shard, as far as a rank knows it."""

    server: int
    """The server that is asked for it."""
    rounds: int = 0
    """Number of rounds for which it has been asked."""
    batches: int | None = None
    """How many there are; None before that is known."""


@dataclass(eq=False)
class Share:
    """The share of rank `rank` of `size`. Not for several threads at once."""

    epoch: int
    seed: int
    rank: int
    size: int
    servers: int
    """Number of servers, which have a shard each; a map-style dataset is one shard, which every server has."""
    is_map: bool
    is_equal: bool = True
    """Whether all ranks get the same number of batches; otherwise none is left over."""
    before: InitVar[Iterable[Key]] = ()
    """Batches that were delivered in an earlier run."""

    def __post_init__(self, before: Iterable[Key]) -> None:
        self.taken = Taken(self.rank, self.size, before)
        """Batches that were delivered to the script, also before."""
        self._parts = [_Part(index) for index in range(1 if self.is_map else self.servers)]
        self._again: list[Ask] = []
        """Batches that a lost server was asked for."""
        self._asked: dict[Ask, int] = {}
        """Batches that have been asked for and have not come, with the server."""
        self._rest: list[Key] | None = None
        self._living = set(range(self.servers))
        self.is_ending = False
        """Whether some server has nothing more to do for it, as far as is known."""

    # Asking

    def wishes(self, server: int, most: int, ahead: int = 0) -> list[Wish]:
        """The next batches to ask `server` for, at most `most`; none while there are none for it. ahead: number that it
        may have of this rank."""
        asks = list(itertools.islice(self._asks(server), most))
        if not asks:
            return []
        self._asked |= dict.fromkeys(asks, server)
        first: dict[int, int] = {}
        for index, number, _ in (*self._asked, *self._again):
            first[index] = min(number, first.get(index, number))
        shard = {index: Shard(index, len(self._parts), self.epoch, self.seed) for index, *_ in asks}
        return [Wish(shard[index], number, first[index], self.size, is_rest, ahead) for index, number, is_rest in asks]

    def _asks(self, server: int) -> Iterator[Ask]:
        """Yields what may be asked of a server; who takes one has to ask for it."""
        for ask in [ask for ask in self._again if self._is_at(ask[0], server)]:
            self._again.remove(ask)
            yield ask
        for index, part in enumerate(self._parts):
            while self._is_at(index, server) and part.batches is None:
                number = part.rounds * self.size + self.rank
                part.rounds += 1
                if (index, number) not in self.taken:
                    yield index, number, False
        for key in [key for key in self._rest_of_all() if self._is_at(key[0], server)]:
            assert self._rest is not None
            self._rest.remove(key)
            yield *key, True

    def _is_at(self, index: int, server: int) -> bool:
        return self.is_map or self._parts[index].server == server

    def _rest_of_all(self) -> list[Key]:
        """Share of this rank in the batches that fill no round, once all shards are over."""
        if self._rest is None:
            if not self._is_known:
                return []
            over = [
                (index, number)
                for index, part in enumerate(self._parts)
                for number in range(self._rounds(part) * self.size, part.batches or 0)
            ]
            if self.is_equal:
                over = over[: len(over) // self.size * self.size]
            self._rest = [key for key in over[self.rank :: self.size] if key not in self.taken]
        return self._rest

    # Hearing

    def came(self, ask: Ask) -> bool:
        """Whether a batch that came is wanted: it was asked for, and has not come before."""
        return self._asked.pop(ask, None) is not None

    def is_over(self, ask: Ask, batches: int) -> bool:
        """Takes the answer that a shard has no whole round with that batch, and how many batches it has. Returns
        whether the answer was awaited."""
        if not 0 <= ask[0] < len(self._parts):
            return False
        part = self._parts[ask[0]]
        part.batches = batches if part.batches is None else part.batches
        self.is_ending = True
        return self._asked.pop(ask, None) is not None

    def lost(self, server: int) -> None:
        """Asks the servers that are left for what this one had; itself, if there are none."""
        self._living.discard(server)
        self._again += self._given_up(server)
        left = sorted(self._living)
        for at, part in enumerate(part for part in self._parts if part.server == server and left):
            part.server = left[at % len(left)]

    def found(self, server: int) -> None:
        """The server is there, or there again: it gets what has no server."""
        self._living.add(server)
        for part in self._parts:
            if part.server not in self._living:
                part.server = server

    def _given_up(self, server: int) -> list[Ask]:
        gone = [key for key, one in self._asked.items() if one == server]
        for key in gone:
            del self._asked[key]
        return gone

    # Knowing

    @property
    def _is_known(self) -> bool:
        return all(part.batches is not None for part in self._parts)

    def _rounds(self, part: _Part) -> int:
        """Number of whole rounds of all ranks in a shard that is over."""
        return (part.batches or 0) // self.size

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return self._is_known and not (self._asked or self._again or self._rest_of_all())

    @property
    def left(self) -> int:
        """Number of batches of the epoch that no rank gets, known when it is over."""
        total = sum(part.batches or 0 for part in self._parts)
        return total % self.size if self.is_equal else 0
