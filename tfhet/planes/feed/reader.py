"""The reader of a feed, in the process of a rank: it asks the servers for its share of an epoch, first ready first.

    reader = FeedReader(servers, key, source, rank=0, size=2)
    for delivery in reader.epoch(0):
        train(delivery.batch)
    reader.close()

Each server has some batches of a rank in work or on the way (`Credit`): one that is slow holds up nothing but its own.
What a lost server was asked for is asked of another one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady, UsageError
from tfhet.planes.feed.connection import FeedConnection, Stranger
from tfhet.planes.feed.credit import Credit
from tfhet.planes.feed.epoch_pass import EpochPass
from tfhet.planes.feed.frame import BatchLayout, Dict
from tfhet.planes.feed.length import length
from tfhet.planes.feed.memory import Pool
from tfhet.planes.feed.message import SILENT_S, Alive, Answer, Batch, Failed, FromServer, Over, Want
from tfhet.planes.feed.received import Received, SourceError
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.feed.taken import Key
from tfhet.planes.feed.work import MAKE_LIMIT_S, Watch
from tfhet.schema import MessageError

LOST_S = 60.0
"""Seconds without any server after which a reader gives up; launchers mostly know the cause before."""
DIAL_S = 0.2
"""Seconds between two attempts to reach a server that is lost."""
_LOOK_S = 1.0
_NONE = np.empty(0, np.uint8)


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
        ahead: int | None = None,
        is_equal: bool = True,
        hosts: Sequence[str] = (),
        make_limit_s: float = MAKE_LIMIT_S,
        allocate: Callable[[int], np.ndarray] | None = None,
        say: Callable[[str], None] = print,
    ):
        """servers: HOST:PORT of each; hosts: the names of their hosts. ahead: batches of this rank that each server
        may have; None: see `Credit`. make_limit_s: see `Watch`. allocate: returns memory, uint8 [n], for a batch; None:
        ordinary memory, which is used again. say: writes a line to the log. Raises UsageError for `ahead` below 1."""
        self._servers, self._key, self._encrypted, self._source = tuple(servers), key, encrypted, source
        self._rank, self._size, self._seed = rank, size, seed
        self._credits = [Credit(len(self._servers), ahead) for _ in self._servers]
        self._is_equal, self._allocate, self._say = is_equal, allocate or Pool().take, say
        self.again = 0
        """Number of batches that servers made a second time because another one was lost."""
        self.left = 0
        """Number of batches of all epochs that were left over, since they fill no round of all ranks."""
        self._passes: dict[int, EpochPass] = {}
        self._ends: dict[int, FeedConnection] = {}
        self._named: dict[int, bool] = {}
        self._lost: dict[int, str] = {}
        """Servers that do not answer, and why."""
        self._hosts, self._given_up, self._make_limit_s = tuple(hosts), set[int](), make_limit_s
        self._alone_s: float | None = None
        """Since when no server answers."""
        self._failure: Exception | None = None
        self._is_closed, self._process = False, os.getpid()
        self._within = threading.Lock()
        self._sending = [threading.Lock() for _ in self._servers]
        for server in range(len(self._servers)):
            threading.Thread(target=self._live, args=(server,), name="tfhet-feed", daemon=True).start()

    def epoch(self, epoch: int, taken: Iterable[Key] = (), *, goes_on: bool = True) -> Iterator[Received]:
        """This rank's share of an epoch, but for what was `taken` before. goes_on: whether the next epoch is begun
        while the end of this one is on its way. Raises SourceError, NotReady once no server answers any more, and
        UsageError in a process that was forked."""
        self._check_process()
        with self._within:
            this = self._passes.get(epoch)
            self._passes = {epoch: this} if this is not None and not this.share.taken and not taken else {}
        this = self._begin(epoch, taken)
        self._ask()
        while (found := self._next(this)) is not None:
            if goes_on and this.share.is_ending and epoch + 1 not in self._passes:
                self._begin(epoch + 1, ())
                self._ask()
            elif self._credits[found.server].asks(this.has(found.server)):
                self._ask(found.server)
            yield found
        with self._within:
            self.left += this.share.left
            self._passes.pop(epoch, None)

    def taken(self, epoch: int) -> frozenset[Key]:
        """The batches that `epoch` has delivered of an epoch that is not over."""
        with self._within:
            return frozenset(self._passes[epoch].share.taken) if epoch in self._passes else frozenset()

    def batches(self) -> int:
        """Number of batches in an epoch of a map-style dataset, as one of the servers says. Raises SourceError and
        NotReady."""
        given = (self._key, self._encrypted, self._source, self._seed, self._make_limit_s)
        return length([one for at, one in enumerate(self._servers) if at not in self._given_up], *given)

    def serve_only(self, hosts: Sequence[str]) -> None:
        """Gives the servers of all other hosts up for good, which the launchers have lost."""
        with self._within:
            gone = {at for at, host in enumerate(self._hosts) if host not in hosts} - self._given_up
            self._given_up |= gone
            ends = [self._ends[at] for at in gone if at in self._ends]
        for end in ends:
            end.close()  # its thread notices

    def close(self) -> None:
        """Ends all connections. Safe to call again."""
        with self._within:
            self._is_closed = True
            ends, self._ends = list(self._ends.values()), {}
            self._has_changed()
        for end in ends:
            end.close()

    # In the thread of the script

    def _begin(self, epoch: int, taken: Iterable[Key]) -> EpochPass:
        count, is_map = len(self._servers), bool(self._source.batch_size)
        with self._within:
            if epoch not in self._passes:
                share = Share(epoch, self._seed, self._rank, self._size, count, is_map, self._is_equal, taken)
                self._passes[epoch] = EpochPass.of(share)
                for server in self._lost:
                    share.lost(server)
            return self._passes[epoch]

    def _next(self, this: EpochPass) -> Received | None:
        while True:
            self._check_process()
            if this.ready.empty() and self._is_over(this):
                return None
            if (found := this.next(_LOOK_S)) is not None:
                with self._within:
                    this.took(found)
                return found

    def _is_over(self, this: EpochPass) -> bool:
        """Whether nothing more will come. Raises what `epoch` raises."""
        with self._within:
            if not this.ready.empty():
                return False
            if self._failure is not None:
                raise self._failure
            if this.share.is_whole:
                return True
            if self._is_closed:
                raise UsageError("the feed is closed")
            if self._passes.get(this.share.epoch) is not this:
                raise UsageError("another iteration of this feed has begun: a rank reads one at a time")
            if self._alone_s is not None and SYSTEM.monotonic() > self._alone_s + LOST_S:
                why = "; ".join(f"{self._servers[server]}: {text}" for server, text in self._lost.items())
                raise NotReady(f"no server of the feed has answered for {LOST_S:g} s: {why}")
            return False

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # without the threads; what they held at the fork is held for ever
            raise UsageError("this process was forked after its feed was opened; open it in the child instead")

    def _ask(self, only: int | None = None) -> None:
        """Asks one server, or every one, for as much as it may have in work."""
        for server, end in [each for each in list(self._ends.items()) if only in (None, each[0])]:
            try:
                with self._sending[server]:  # the first wish names the source
                    for want in self._wants(server, end):
                        end.send([(want, ())])
            except OSError:
                end.close()  # its thread notices

    def _wants(self, server: int, end: FeedConnection) -> list[Want]:
        found: list[Want] = []
        with self._within:
            if self._ends.get(server) is not end:
                return found
            for _, each in sorted(self._passes.items()):
                if wishes := tuple(each.wishes(server, self._credits[server])):
                    named = None if self._named[server] else self._source
                    found.append(Want(self._source.id, wishes, named))
                    self._named[server] = True
        return found

    # In the thread of a connection

    def _live(self, server: int) -> None:
        while not (self._is_closed or server in self._given_up):
            try:
                end = FeedConnection.dial(self._servers[server], self._key, self._encrypted)
                with contextlib.closing(end):
                    self._is_there(server, end)
                    self._receive(server, end)
            except (OSError, MessageError, Stranger) as error:
                self._is_lost(server, str(error) or type(error).__name__)
                if not self._is_closed:
                    SYSTEM.sleep(DIAL_S)
            except Exception as error:  # noqa: BLE001  such as memory that is short, or a package that is missing
                self._fail(error)
                return

    def _is_there(self, server: int, end: FeedConnection) -> None:
        end.silent_after(SILENT_S)
        with self._within:
            if self._is_closed:
                raise ConnectionError("the feed is closed")
            if self._lost.pop(server, None) is not None:
                self._say(f"[tfhet] the feed reads from {self._servers[server]} again")
            self._ends[server], self._named[server], self._alone_s = end, False, None
            for each in self._passes.values():
                each.share.found(server)
        self._ask()

    def _is_lost(self, server: int, why: str) -> None:
        with self._within:
            was_there = self._ends.pop(server, None) is not None
            if self._is_closed:
                return
            if was_there:
                why = "its host was lost" if server in self._given_up else why
                self._say(f"[tfhet] the feed has lost {self._servers[server]} ({why}); others make what it had")
            self._lost[server] = why
            for each in self._passes.values():
                each.lost(server)
            if len(self._lost) == len(self._servers) and self._alone_s is None:
                self._alone_s = SYSTEM.monotonic()
                self._has_changed()
        self._ask()

    def _receive(self, server: int, end: FeedConnection) -> None:
        watch = Watch(self._servers[server], str(self._source), self._make_limit_s)
        layout = BatchLayout(Dict({}))
        while True:
            messages = end.receive(FromServer)
            memories = [self._allocate(message.size) if message.size else _NONE for message in messages]
            end.receive_into([memory.data for memory in memories])
            for message in messages:
                memory = memories.pop(0)
                if isinstance(message, Batch) and message.tree is not None:  # else it is as that of the last batch
                    layout = BatchLayout(message.tree)
                if not isinstance(message, Alive):
                    self._heard(server, message, layout, memory)
                elif line := watch.heard(message):
                    self._say(line)
                del memory

    def _heard(self, server: int, answer: Answer, layout: BatchLayout, memory: np.ndarray) -> None:
        if isinstance(answer, Batch):
            received = Received.of(layout.batch(memory), answer.examples, answer.ask[:2], server)
        with self._within:
            this = self._passes.get(answer.wish.shard.epoch)
            if this is None or answer.source != self._source.id:  # of an epoch that was given up
                return
            if isinstance(answer, Batch):
                if this.share.came(answer.ask):
                    self._credits[server].came(memory.size, SYSTEM.monotonic())
                    self.again += answer.again
                    this.came(received)
                return
            if isinstance(answer, Over):
                this.on_way[server] -= this.share.is_over(answer.ask, answer.batches)
            elif isinstance(answer, Failed):
                number, shard = answer.wish.number, answer.wish.shard
                where = f"{self._servers[server]}, at batch {number} of shard {shard.index}, epoch {shard.epoch}"
                self._failure = SourceError(f"{self._source} raised on {where}:\n{answer.text}")
            self._has_changed()
        if isinstance(answer, Over):
            self._ask()

    def _fail(self, error: Exception) -> None:
        with self._within:
            self._failure = error
            self._has_changed()

    def _has_changed(self) -> None:
        """Has the script look, if it waits."""
        for each in self._passes.values():
            each.ready.put(None)
