"""The reader of a feed in a rank: requests its share from all servers, and delivers an iterable's batches as they come.

    reader = FeedReader(servers, key, source, rank=0, size=2)
    for received in reader.epoch(0):
        train(received.batch)

Each server has some batches of a rank in progress or in transit (`Credit`). Others make a lost server's batches.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady, UsageError
from tfhet.planes.feed.batch_reader import MAKE_LIMIT_S, START, Position
from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.dataset import Agreement, DatasetFacts
from tfhet.planes.feed.delivered import NO_BATCH, BatchRequest, Key, Loss, Received, SourceError, described
from tfhet.planes.feed.frame import MemoryPool
from tfhet.planes.feed.message import SILENT_S, Alive, Answer, Batch, Described, Failed, NoBatch
from tfhet.planes.feed.server_link import ServerLink, ServerTimeout, received, server_links
from tfhet.planes.feed.share import EpochPass, Share
from tfhet.planes.feed.shared_memory import NoSharedMemory, dial
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import MessageError
from tfhet.secure import Unauthenticated

LOST_S = 60.0
"""Seconds without any server after which a reader gives up; launchers mostly know the cause before."""
DIAL_S, _CHECK_S = 0.2, 1.0  # between two attempts to connect to a lost server, and two checks of the state


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
        hosts: Sequence[str | None] = (),
        host: str | None = None,
        make_limit_s: float = MAKE_LIMIT_S,
        allocate: Callable[[int], np.ndarray] | None = None,
        say: Callable[[str], None] = print,
    ):
        """
        Args:
            servers: HOST:PORT of each server; `hosts`: names of their hosts; `host`: name of this one, to share memory.
            ahead: Number of batches of this rank that each server may have, from 1; None: see `Credit`.
            is_equal: Whether all ranks get the same number of batches.
            make_limit_s: Limit in seconds for one batch of the user's code.
            allocate: Returns memory for a batch, uint8 [n]; None: ordinary memory, which is used again.
        """
        self._servers = server_links(servers, hosts, host, ahead)
        self._key, self._encrypted, self._source, self._seed = key, encrypted, source, seed
        self._rank, self._size, self._is_equal, self._make_limit_s = rank, size, is_equal, make_limit_s
        self._allocate, self._may_share, self._say = allocate or MemoryPool().allocate, allocate is None, say
        self.again, self.left, self.is_short, self.shards = 0, 0, False, len(self._servers)  # see `BatchReader`
        self._passes, self._iterations, self._is_closed = dict[int, EpochPass](), 0, False
        self._agreement, self._needs_facts, self._unmade = Agreement(source), False, Loss("the dataset")
        self._alone_s: float | None = None  # when the last server was lost
        self._failure: Exception | None = None
        self._process, self._woken, self._lock = os.getpid(), threading.Event(), threading.Lock()
        for index in range(len(self._servers)):
            threading.Thread(target=self._live, args=(index,), name="tfhet-feed", daemon=True).start()

    def epoch(self, epoch: int, position: Position = START, *, continues: bool = True) -> Iterator[Received]:
        """Yields this rank's share of an epoch.

        Args:
            position: What an earlier run has delivered.
            continues: Whether to begin the next epoch while the last batches of this one are in transit.

        Raises:
            SourceError: The user's code raised an error.
            NotReady: No server has answered for LOST_S seconds, or a batch takes more than `make_limit_s` seconds.
            UsageError: This process was forked, the reader is closed, or another iteration has begun.
        """
        self._check_process()
        with self._lock:
            this = self._passes.get(epoch)
            self._passes = {epoch: this} if this and not this.share.delivered and position == START else {}
            self._iterations += 1
        this = self._begin(epoch, position)
        self._request()
        while (found := self._next(this)) is not None:
            if continues and this.share.is_ending and epoch + 1 not in self._passes:
                self._begin(epoch + 1, START)
                self._request()
            elif this.free(found.server, self._servers[found.server].credit):
                self._request(found.server)
            yield found
        with self._lock:
            self.left, self.is_short = self.left + this.share.left, this.share.is_short
            self._passes.pop(epoch, None)

    def delivered(self, epoch: int) -> frozenset[Key]:
        """See `BatchReader`."""
        with self._lock:
            return self._passes[epoch].share.delivered.keys() if epoch in self._passes else frozenset()

    def facts(self, waits: bool = True) -> DatasetFacts | None:
        """See `BatchReader`. Every process makes its dataset. Raises the errors of `epoch`."""
        self._needs_facts = True
        self._request()
        while waits and self._agreement.facts is None:
            self._check_process()
            with self._lock:
                self._check()
            self._woken.wait(_CHECK_S)
            self._woken.clear()
        return self._agreement.facts

    def serve_only(self, hosts: Sequence[str]) -> None:
        """Gives up the servers of all other hosts, which the launchers have lost."""
        with self._lock:
            lost = [one for one in self._servers if one.host not in (None, *hosts) and not one.is_given_up]
        for server in lost:
            server.is_given_up = True
            server.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._wake()
        for server in self._servers:
            server.close()

    # In the thread of the script

    def _begin(self, epoch: int, position: Position) -> EpochPass:
        place = self._rank, self._size, len(self._servers), bool(self._source.batch_size), self._is_equal
        with self._lock:
            if (this := self._passes.get(epoch)) is None:
                this = self._passes[epoch] = EpochPass.of(Share(epoch, self._seed, *place, position))
                for index, server in enumerate(self._servers):
                    if server.lost is not None:
                        this.share.remove_server(index)
            this.share.iteration = 2 * self._iterations + (len(self._passes) > 1)
            return this

    def _next(self, this: EpochPass) -> Received | None:
        while True:
            self._check_process()
            if this.ready.empty() and self._is_over(this):
                return None
            if (found := this.next(_CHECK_S)) is not None:
                with self._lock:
                    this.deliver(found)
                return found

    def _is_over(self, this: EpochPass) -> bool:
        with self._lock:
            if not this.ready.empty() or (self._failure is None and this.share.is_whole):
                return this.ready.empty()
            self._check()
            if self._passes.get(this.share.epoch) is not this:
                raise UsageError("another iteration of this feed has begun: a rank reads one at a time")
            return False

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise UsageError("the feed is closed")
        if self._alone_s is not None and SYSTEM.monotonic() > self._alone_s + LOST_S:
            why = "; ".join(f"{server.address}: {server.lost}" for server in self._servers)
            raise NotReady(f"no server of the feed has answered for {LOST_S:g} s: {why}")

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # it has no threads, and locks may be held for ever
            raise UsageError("this process was forked after its feed was opened; open it in the child instead")

    def _request(self, only: int | None = None) -> None:
        """Requests as many batches as allowed, from every server by default."""
        facts = BatchRequest(Shard(0, 1, 0, self._seed), NO_BATCH, 0) if self._needs_facts else None
        for server in self._servers if only is None else [self._servers[only]]:
            if (connection := server.connection) is None:
                continue
            try:
                with server.sending:  # in order: the first message names the source
                    with self._lock:
                        is_current = server.connection is connection
                        messages = server.requests(self._passes, self._source, facts) if is_current else []
                    for message in messages:
                        connection.send([(message, ())])
            except OSError:
                connection.close()  # wakes its thread

    # In the thread of a connection

    def _live(self, index: int) -> None:
        server = self._servers[index]
        while not (self._is_closed or server.is_given_up):
            try:
                connection = dial(server.address, self._key, self._encrypted, server.is_local)
                with contextlib.closing(connection):
                    self._on_connected(index, connection)
                    self._receive(index, connection)
            except (OSError, MessageError, Unauthenticated) as error:
                server.is_local &= not isinstance(error, NoSharedMemory)
                self._on_lost(index, str(error) or type(error).__name__)
                if not self._is_closed:
                    SYSTEM.sleep(DIAL_S)
            except Exception as error:  # noqa: BLE001  for example no memory, or a missing package
                with self._lock:
                    self._failure = error
                    self._wake()
                return

    def _on_connected(self, index: int, connection: FeedConnection) -> None:
        connection.silent_after(SILENT_S)
        server = self._servers[index]
        with self._lock:
            if self._is_closed or server.is_given_up:
                raise ConnectionError("the feed is closed, or the host was lost")
            if server.lost is not None:
                self._say(f"[tfhet] the feed reads from {server.address} again")
            server.open(connection)
            self._alone_s = None
            for each in self._passes.values():
                each.share.add_server(index)
        self._request()

    def _on_lost(self, index: int, why: str) -> None:
        server = self._servers[index]
        with self._lock:
            was_connected, server.connection = server.connection is not None, None
            if self._is_closed:
                return
            if was_connected:
                why = "its host was lost" if server.is_given_up else why
                self._say(f"[tfhet] the feed has lost {server.address} ({why}); other servers make its batches")
            server.lost = why
            losses = [each.remove_server(index) for each in self._passes.values()]
            if was_connected and server.is_described and self._agreement.facts is None:
                self._unmade = self._unmade.again(SYSTEM.monotonic() - server.since_s)
                losses.append(self._unmade)
            for loss in losses:
                if loss and (reason := loss.reason(self._source, f"{server}: {why}", self._make_limit_s)):
                    self._failure = NotReady(reason)
                    self._wake()
            if self._alone_s is None and all(one.lost is not None for one in self._servers):
                self._alone_s = SYSTEM.monotonic()
                self._wake()
        self._request()

    def _receive(self, index: int, connection: FeedConnection) -> None:
        timeout = ServerTimeout(self._servers[index].address, str(self._source), self._make_limit_s)
        for answer, batch in received(connection, self._allocate, self._may_share):
            if isinstance(answer, Alive):
                if line := timeout.check(answer):
                    self._say(line)
            elif answer.source == self._source.id:
                self._on_answer(self._servers[index], answer, batch)
            del batch

    def _on_answer(self, server: ServerLink, answer: Answer, batch: Any) -> None:
        epoch, key = answer.request.shard.epoch, answer.key
        got = Received.of(batch, answer.examples, key[:2], server.index) if isinstance(answer, Batch) else None
        with self._lock:
            if (this := self._passes.get(epoch)) and this.share.position.offset != answer.request.offset:
                this = None  # the answer is for an earlier iteration
            if isinstance(answer, Batch) and got is not None:
                if this is None:  # of an epoch that was given up
                    return
                if this.share.accept(key):
                    server.credit.on_batch(answer.size, now_s := SYSTEM.monotonic())
                    self.again += answer.again
                    this.add(got, now_s)
                if not (this.share.is_map and this.free(server.index, server.credit)):  # others may delay its batches
                    return
            elif isinstance(answer, Described):
                self._agreement.add(str(server), answer.facts)
            elif isinstance(answer, Failed) and (this is not None or answer.request.number == NO_BATCH):
                where = f"{server.address}, at {described(key, epoch)}"
                self._failure = SourceError(f"{self._source} raised on {where}:\n{answer.text}")
            elif this is not None and isinstance(answer, NoBatch):
                this.end_shard(server.index, key, answer.batches)
            self._wake()
        self._request()

    def _wake(self) -> None:
        """Wakes the script, which then checks the state."""
        self._woken.set()
        for each in self._passes.values():
            each.ready.put(None)
