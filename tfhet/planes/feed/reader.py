"""The reader of a feed, in the process of a rank: it asks the servers for its share of an epoch, first ready first.

    reader = FeedReader(servers, key, source, rank=0, size=2)
    for delivery in reader.epoch(0):
        train(delivery.batch)
    reader.close()

Each server has at most `ahead` batches of a rank in work or on the way: one that is slow holds up nothing but its own.
What a lost server was asked for is asked of another one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady, UsageError
from tfhet.planes.feed.connection import FeedConnection, Stranger
from tfhet.planes.feed.frame import FrameError, unpacked
from tfhet.planes.feed.length import length
from tfhet.planes.feed.memory import Pool
from tfhet.planes.feed.message import SILENT_S, wanted
from tfhet.planes.feed.received import Received, SourceError
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.feed.taken import Key
from tfhet.planes.feed.work import MAKE_LIMIT_S, Watch

AHEAD = 2
"""Batches of a rank that each server has in work, or on the way."""
LOST_S = 60.0
"""Seconds without any server after which a reader gives up; launchers mostly know the cause before."""
DIAL_S = 0.2
"""Seconds between two attempts to reach a server that is lost."""
_LOOK_S = 1.0


@dataclass(eq=False)
class _Pass:
    """An epoch that is being read, or begun."""

    share: Share
    in_use: list[int]
    """Number of batches in work, on the way and ready, by server."""
    ready: deque[Received] = field(default_factory=deque)


class FeedReader:
    def __init__(
        self,
        servers: Sequence[str],
        key: bytes,
        source: FeedSource,
        *,
        rank: int = 0,
        size: int = 1,
        seed: int = 0,
        encrypted: bool = False,
        ahead: int = AHEAD,
        is_equal: bool = True,
        hosts: Sequence[str] = (),
        make_limit_s: float = MAKE_LIMIT_S,
        allocate: Callable[[int], np.ndarray] | None = None,
        say: Callable[[str], None] = print,
    ):
        """servers: HOST:PORT of each; hosts: the names of their hosts. make_limit_s: see `Watch`. allocate: returns
        memory, uint8 [n], for a batch; None: ordinary memory, which is used again. say: writes a line to the log.
        Raises UsageError for `ahead` below 1."""
        if ahead < 1:
            raise UsageError(f"ahead must be at least 1, not {ahead}")
        self._servers, self._key, self._encrypted, self._source = tuple(servers), key, encrypted, source
        self._rank, self._size, self._seed, self._ahead = rank, size, seed, ahead
        self._is_equal, self._allocate, self._say = is_equal, allocate or Pool().take, say
        self.again = 0
        """Number of batches that servers made a second time because another one was lost."""
        self.left = 0
        """Number of batches of all epochs that were left over, since they fill no round of all ranks."""
        self._passes: dict[int, _Pass] = {}
        self._ends: dict[int, FeedConnection] = {}
        self._named: dict[int, bool] = {}
        self._lost: dict[int, str] = {}
        """Servers that do not answer, and why."""
        self._hosts, self._given_up, self._make_limit_s = tuple(hosts), set[int](), make_limit_s
        self._alone_s: float | None = None
        """Since when no server answers."""
        self._failure: Exception | None = None
        self._is_closed, self._process = False, os.getpid()
        self._changed = threading.Condition()
        self._sending = [threading.Lock() for _ in self._servers]
        for server in range(len(self._servers)):
            threading.Thread(target=self._live, args=(server,), name="tfhet-feed", daemon=True).start()

    def epoch(self, epoch: int, taken: Iterable[Key] = (), *, goes_on: bool = True) -> Iterator[Received]:
        """This rank's share of an epoch, but for what was `taken` before. goes_on: whether the next epoch is begun
        while the end of this one is on its way. Raises SourceError, NotReady once no server answers any more, and
        UsageError in a process that was forked."""
        self._check_process()
        with self._changed:
            this = self._passes.get(epoch)
            self._passes = {epoch: this} if this is not None and not this.share.taken and not taken else {}
        this = self._begin(epoch, taken)
        self._ask()
        while (found := self._next(this)) is not None:
            if begins := goes_on and this.share.is_ending and epoch + 1 not in self._passes:
                self._begin(epoch + 1, ())
            self._ask(None if begins else found.server)
            yield found
        with self._changed:
            self.left += this.share.left
            self._passes.pop(epoch, None)

    def taken(self, epoch: int) -> frozenset[Key]:
        """The batches that `epoch` has delivered of an epoch that is not over."""
        with self._changed:
            return frozenset(self._passes[epoch].share.taken) if epoch in self._passes else frozenset()

    def batches(self) -> int:
        """Number of batches in an epoch of a map-style dataset, as one of the servers says. Raises SourceError and
        NotReady."""
        given = (self._key, self._encrypted, self._source, self._seed, self._make_limit_s)
        return length([one for at, one in enumerate(self._servers) if at not in self._given_up], *given)

    def serve_only(self, hosts: Sequence[str]) -> None:
        """Gives the servers of all other hosts up for good, which the launchers have lost."""
        with self._changed:
            gone = {at for at, host in enumerate(self._hosts) if host not in hosts} - self._given_up
            self._given_up |= gone
            ends = [self._ends[at] for at in gone if at in self._ends]
        for end in ends:
            end.close()  # its thread notices

    def close(self) -> None:
        """Ends all connections. Safe to call again."""
        with self._changed:
            self._is_closed = True
            ends, self._ends = list(self._ends.values()), {}
            self._changed.notify_all()
        for end in ends:
            end.close()

    # In the thread of the script

    def _begin(self, epoch: int, taken: Iterable[Key]) -> _Pass:
        count, is_map = len(self._servers), bool(self._source.batch_size)
        with self._changed:
            if epoch not in self._passes:
                share = Share(epoch, self._seed, self._rank, self._size, count, is_map, self._is_equal, taken)
                self._passes[epoch] = _Pass(share, [0] * count)
                for server in self._lost:
                    share.lost(server)
            return self._passes[epoch]

    def _next(self, this: _Pass) -> Received | None:
        while True:
            self._check_process()
            with self._changed:
                if this.ready:
                    found = this.ready.popleft()
                    this.in_use[found.server] -= 1
                    this.share.taken.add(found.key)
                    return found
                if self._failure is not None:
                    raise self._failure
                if this.share.is_whole:
                    return None
                if self._is_closed:
                    raise UsageError("the feed is closed")
                if self._alone_s is not None and SYSTEM.monotonic() > self._alone_s + LOST_S:
                    why = "; ".join(f"{self._servers[server]}: {text}" for server, text in self._lost.items())
                    raise NotReady(f"no server of the feed has answered for {LOST_S:g} s: {why}")
                self._changed.wait(_LOOK_S)

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # without the threads; what they held at the fork is held for ever
            raise UsageError("this process was forked after its feed was opened; open it in the child instead")

    def _ask(self, only: int | None = None) -> None:
        """Asks one server, or every one, for as much as it may have in work."""
        for server, end in [each for each in list(self._ends.items()) if only in (None, each[0])]:
            try:
                with self._sending[server]:  # the first wish names the source
                    for want in self._wants(server, end):
                        end.send(want)
            except OSError:
                end.close()  # its thread notices

    def _wants(self, server: int, end: FeedConnection) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        with self._changed:
            for _, each in sorted(self._passes.items()):
                while self._ends.get(server) is end and each.in_use[server] < self._ahead:
                    wish = each.share.next_wish(server)
                    if wish is None:
                        break
                    each.in_use[server] += 1
                    found.append(wanted(wish, self._source, is_new=not self._named.get(server)))
                    self._named[server] = True
        return found

    # In the thread of a connection

    def _live(self, server: int) -> None:
        while not (self._is_closed or server in self._given_up):
            try:
                end = FeedConnection.dial(self._servers[server], self._key, self._encrypted)
            except (OSError, Stranger) as error:
                self._is_lost(server, str(error))
                SYSTEM.sleep(DIAL_S)
                continue
            except Exception as error:  # noqa: BLE001  such as a package that is missing
                self._fail(error)
                return
            try:
                self._is_there(server, end)
                self._receive(server, end)
            except (OSError, FrameError) as error:
                self._is_lost(server, str(error) or type(error).__name__)
            except Exception as error:  # noqa: BLE001  such as memory that is short: the script has to know
                self._fail(error)
            finally:
                end.close()

    def _is_there(self, server: int, end: FeedConnection) -> None:
        end.silent_after(SILENT_S)
        with self._changed:
            if self._is_closed:
                raise ConnectionError("the feed is closed")
            if self._lost.pop(server, None) is not None:
                self._say(f"[tfhet] the feed reads from {self._servers[server]} again")
            self._ends[server], self._named[server], self._alone_s = end, False, None
            for each in self._passes.values():
                each.share.found(server)
        self._ask()

    def _is_lost(self, server: int, why: str) -> None:
        with self._changed:
            was_there = self._ends.pop(server, None) is not None
            if self._is_closed:
                return
            if was_there:
                why = "its host was lost" if server in self._given_up else why
                self._say(f"[tfhet] the feed has lost {self._servers[server]} ({why}); others make what it had")
            self._lost[server] = why
            for each in self._passes.values():
                each.share.lost(server)
                each.in_use[server] = sum(one.server == server for one in each.ready)
            if len(self._lost) == len(self._servers) and self._alone_s is None:
                self._alone_s = SYSTEM.monotonic()
            self._changed.notify_all()
        self._ask()

    def _receive(self, server: int, end: FeedConnection) -> None:
        watch = Watch(self._servers[server], str(self._source), self._make_limit_s)
        while True:
            header, size = end.receive()
            memory = self._allocate(size) if size else np.empty(0, np.uint8)
            end.receive_into(memory.data)
            if (kind := header.get("type")) != "alive":
                self._heard(server, header, kind, memory)
            elif line := watch.heard(header):
                self._say(line)
            del memory

    def _heard(self, server: int, header: Mapping[str, Any], kind: Any, memory: np.ndarray) -> None:
        try:
            epoch, ask = int(header["epoch"]), (int(header["index"]), int(header["number"]), bool(header["is_rest"]))
            value = unpacked(header["tree"], memory) if kind == "batch" else {}
            batches, again = int(header.get("batches", 0)), int(header.get("again", 0))
        except (KeyError, TypeError, ValueError) as error:
            raise FrameError(f"an answer that cannot be read: {error}") from None
        with self._changed:
            this = self._passes.get(epoch)
            if this is None or header.get("source") != self._source.id:  # of an epoch that was given up
                return
            if kind == "batch" and this.share.came(ask):
                this.ready.append(Received(value["batch"], value["ids"], header.get("examples"), ask[:2], server))
                self.again += again
            elif kind == "over":
                this.in_use[server] -= this.share.is_over(ask, batches)
            elif kind == "error":
                self._failure = SourceError(
                    f"{self._source} raised on {self._servers[server]}, at batch {ask[1]} of shard {ask[0]}, epoch "
                    f"{epoch}:\n{header.get('text')}"
                )
            self._changed.notify_all()
        if kind == "over":
            self._ask()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
