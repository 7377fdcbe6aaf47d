"""The messages of a feed, as the headers of its frames.

reader -> server    want     batches of a shard of a source
server -> reader    batch, over (the shard has no such batch), error (of the user's code), alive
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple, TypeGuard

from tfhet.errors import shown
from tfhet.planes.feed.frame import FrameError
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.share import Ask
from tfhet.planes.feed.source import FeedSource, Shard

ALIVE_S = 1.0
"""Seconds after which a server that has nothing to send says that it lives."""
SILENT_S = 30.0
"""Seconds without a word after which a reader takes a server for lost."""


_NUMBERS = ("index", "count", "epoch", "seed", "first", "ranks", "ahead")


def wanted(wishes: Sequence[Wish], source: FeedSource, is_new: bool) -> dict[str, Any]:
    """The header of wishes that differ in their number only. is_new: whether the server has not had the source on this
    connection."""
    wish, shard = wishes[0], wishes[0].shard
    at = (shard.index, shard.count, shard.epoch, shard.seed, wish.first, wish.ranks, wish.ahead)
    found: dict[str, Any] = {"type": "want", "source": source.id, "at": at, "is_rest": wish.is_rest}
    found["numbers"] = [one.number for one in wishes]
    return {**found, "named": source.to_json()} if is_new else found


@dataclass(frozen=True)
class Want:
    """Wishes, and the source that they are for."""

    source: str
    """Its id; the source itself comes with the first wish for it on a connection."""
    wishes: tuple[Wish, ...]
    named: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, header: Mapping[str, Any]) -> Want:
        """Raises FrameError for a header that is no wish."""
        source, at, named = header.get("source"), header.get("at"), header.get("named")
        if header.get("type") != "want" or not isinstance(source, str) or not isinstance(named, (dict, NoneType)):
            raise FrameError(f"no wish: {shown(header)}")
        if not _are_numbers(at) or len(at) != len(_NUMBERS):
            raise FrameError(f"a wish for {shown(at)}; its numbers are {', '.join(_NUMBERS)}")
        if not _are_numbers(numbers := header.get("numbers")):
            raise FrameError(f"a wish for the batches {shown(numbers)}")
        index, count, epoch, seed, first, ranks, ahead = at
        if index >= count or not ranks:
            raise FrameError(f"a wish for shard {index} of {count}, for {ranks} ranks")
        shard, is_rest = Shard(index, count, epoch, seed), header.get("is_rest") is True
        return cls(source, tuple(Wish(shard, number, first, ranks, is_rest, ahead) for number in numbers), named)


def answered(kind: str, source: str, wish: Wish, **more: Any) -> dict[str, Any]:
    """The header of a server's answer to a wish."""
    shard = wish.shard
    return {"type": kind, "source": source, "at": (shard.index, shard.epoch, wish.number, wish.is_rest), **more}


class Answer(NamedTuple):
    """The answer of a server to a wish: kind is batch, over or error."""

    kind: Any
    source: Any
    epoch: int
    ask: Ask
    more: Mapping[str, Any]

    @classmethod
    def parse(cls, header: Mapping[str, Any]) -> Answer:
        """Raises FrameError for a header that is no answer."""
        at = header.get("at")
        if not isinstance(at, list) or [type(one) for one in at] != [int, int, int, bool]:
            raise FrameError(f"an answer that cannot be read: {shown(header)}")
        index, epoch, number, is_rest = at
        return cls(header.get("type"), header.get("source"), epoch, (index, number, is_rest), header)

    def number(self, name: str) -> int:
        """A number that it has, or 0. Raises FrameError for what is none."""
        if type(found := self.more.get(name, 0)) is not int:
            raise FrameError(f"an answer whose {name} is {shown(found)}")
        return found


def _are_numbers(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)
