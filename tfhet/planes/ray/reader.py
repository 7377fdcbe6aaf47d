"""The reader of Ray Data in the process of a rank that Ray did not start.

    reader = RayReader(order, source, job)
    for received in reader.epoch(0):
        train(received.batch)

Rank 0 calls the user's function, and gives the data set to an actor (coordinator.py), of which all ranks ask for their
batches. A thread fetches the blocks of the next ones into the object store of this host while one is trained on.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady, UsageError
from tfhet.planes.feed.received import Received, SourceError
from tfhet.planes.feed.share import Key
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.planes.feed.work import MAKE_LIMIT_S
from tfhet.planes.ray import private
from tfhet.planes.ray.coordinator import Coordinator
from tfhet.planes.ray.dealing import Over, Portion
from tfhet.planes.ray.settings import Order
from tfhet.strategies import JobContext

AHEAD = 2
"""Batches of a rank that are fetched before it asks for them."""
ID = "id"
"""Name of the column with the ids of examples, int64 [rows], if there is one."""
_LOOK_S = 0.2
_STOP_S = 0.5
"""Seconds within which the thread that fetches sees that it has to end."""


@contextlib.contextmanager
def _own_handler() -> Iterator[None]:
    """A block after which a request to stop comes as it did before: Ray's handler would end the process by SIGABRT."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    with contextlib.suppress(ValueError):  # not in the main thread, where Ray sets none either
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


class RayReader:
    """Reads the share of the job's rank. See `FeedReader`, whose interface it has."""

    again = None
    """Ray does not say what it made again."""

    def __init__(
        self,
        order: Order,
        source: FeedSource,
        job: JobContext,
        *,
        is_equal: bool = True,
        ahead: int | None = None,
        allocate: Callable[[int], np.ndarray] | None = None,
        make_limit_s: float = MAKE_LIMIT_S,
    ):
        """allocate: gives the memory, uint8 [n], into which arrays are copied; None: they are views, read-only.
        make_limit_s: seconds that a rank waits for rank 0 to make the actor, and for each batch, from the one before;
        for the first, the call of the user's function on rank 0 counts, too."""
        if source.shuffle or source.collate is not None:
            raise UsageError(
                "shuffle and collate are for map-style datasets; with --data_plane ray the function shuffles and "
                "collates by Ray Data itself (random_shuffle, map_batches)"
            )
        self.left = 0
        self._order, self._source, self._job = order, source, job
        self._is_equal, self._ahead, self._allocate = is_equal, max(1, ahead or AHEAD), allocate
        self._make_limit_s = min(make_limit_s, 1e6)  # Ray takes no limit without end
        self._rows: int | None = None
        self._at = -1
        self._passes = 0
        """Number of passes that were begun."""
        self._is_within = False
        self._actor: Any = None

    def epoch(self, epoch: int, taken: Iterable[Key] = (), *, goes_on: bool = True) -> Iterator[Received]:
        """The batches of this rank. Raises SourceError with what the user's code raised, and NotReady where the cluster
        is gone or no batch comes within `make_limit_s`."""
        if tuple(taken):
            raise UsageError("Ray Data cannot go on within an epoch: give set_epoch the epoch that is to be read anew")
        actor = self._coordinator()
        if self._job.rank == 0:
            self._begin(epoch)
        self._at, self._is_within, number = epoch, True, self._passes
        self._passes += 1
        fetched: queue.Queue[Received | Over | Exception] = queue.Queue(self._ahead)
        stop = threading.Event()
        thread = threading.Thread(
            target=self._fetch, args=(actor, number, fetched, stop), name="ray-fetch", daemon=True
        )
        thread.start()
        try:
            while True:
                found = fetched.get()
                if isinstance(found, Exception):
                    raise found
                if isinstance(found, Over):
                    self._rows, self.left = found.rows, self.left + found.left
                    self._is_within = False
                    return
                yield found
                del found
        finally:
            stop.set()
            with contextlib.suppress(queue.Empty):  # the thread may wait for room
                while True:
                    fetched.get_nowait()

    def taken(self, epoch: int) -> frozenset[Key]:
        """Nothing, between two epochs. Raises UsageError within one: Ray Data cannot go on there."""
        if self._is_within and epoch == self._at:
            raise UsageError("Ray Data cannot go on within an epoch: take state_dict between two epochs")
        return frozenset()

    def batches(self) -> int:
        """Raises TypeError: only the end of an epoch shows its length."""
        raise TypeError(f"{self._source} is a Ray data set, whose length only its end shows")

    def close(self) -> None:
        """Ends nothing: the actor serves other ranks that still read, and goes with the cluster."""

    def _coordinator(self) -> Any:
        if self._actor is not None:
            return self._actor
        import ray

        job, namespace = self._job, f"tfhet-{self._job.job_id}"
        if not ray.is_initialized():
            at = self._order.nodes.get(job.host)
            with _own_handler():
                ray.init(self._order.address, namespace=namespace, _node_ip_address=at, log_to_driver=job.rank == 0)
        name = f"batches-{self._source.ordinal}"
        if job.rank == 0:
            self._actor = self._made(name, namespace)
            return self._actor
        end_s = SYSTEM.monotonic() + self._make_limit_s
        while SYSTEM.monotonic() < end_s:
            with contextlib.suppress(ValueError):
                self._actor = ray.get_actor(name, namespace)
                return self._actor
            SYSTEM.sleep(_LOOK_S)
        raise NotReady(
            f"rank {job.rank}: rank 0 did not begin to read {self._source} within "
            f"{self._make_limit_s:g} s (make_limit_s); all ranks have to "
            "make their loaders in the same order"
        )

    def _made(self, name: str, namespace: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here, "lifetime": "detached"}
        options |= {"max_concurrency": max(4, self._ahead + 2) * self._job.size}
        made = ray.remote(Coordinator).options(name=name, namespace=namespace, **options)
        return made.remote(self._job.size, self._source.batch_size, self._is_equal, self._source.drop_last)

    def _begin(self, epoch: int) -> None:
        """Has the coordinator begin an epoch of what the user's function returns."""
        dataset = self._source.make(Shard(0, 1, epoch, self._job.seed))
        if not private.is_dataset(dataset):
            raise UsageError(
                f"{self._source} returned {type(dataset).__name__}; with --data_plane ray it returns a ray.data.Dataset"
            )
        dataset.context.enable_progress_bars = False
        self._got(self._actor.begin.remote(self._passes, dataset), 0, SYSTEM.monotonic() + self._make_limit_s)

    def _fetch(self, actor: Any, number: int, into: queue.Queue[Any], stop: threading.Event) -> None:
        """Puts the batches of a pass, and then Over or what was raised, into a queue."""
        import ray

        calls: collections.deque[Any] = collections.deque()
        indices = itertools.count()

        def ask() -> None:
            index = next(indices)
            calls.append((index, actor.batch.remote(number, self._job.rank, index)))

        try:
            for _ in range(self._ahead):
                ask()
            over: Over | None = None
            end_s = SYSTEM.monotonic() + self._make_limit_s
            while calls and not stop.is_set():
                index, call = calls.popleft()
                if not ray.wait([call], timeout=max(0.0, min(_STOP_S, end_s - SYSTEM.monotonic())))[0]:
                    if SYSTEM.monotonic() >= end_s:
                        raise self._late(index)
                    calls.appendleft((index, call))
                    continue
                if stop.is_set():
                    return
                answer = self._got(call, index, end_s)
                if answer is None:
                    calls.appendleft((index, actor.batch.remote(number, self._job.rank, index)))
                elif isinstance(answer, str):
                    raise SourceError(f"a task of {self._source} failed: {answer}")
                elif isinstance(answer, Over):
                    over = answer  # what was asked for besides may have come before
                else:
                    if over is None:
                        ask()
                    into.put(self._received(answer, index, end_s))
                    end_s = SYSTEM.monotonic() + self._make_limit_s
                del answer
            if over is not None and not stop.is_set():
                into.put(over)
        except (SourceError, NotReady) as error:
            into.put(error)
        except Exception as error:  # noqa: BLE001  whatever Ray raises when its cluster is gone
            into.put(NotReady(f"rank {self._job.rank}: Ray delivers no more: {type(error).__name__}: {error}"))

    def _late(self, index: int) -> NotReady:
        return NotReady(
            f"rank {self._job.rank}: batch {index} of {self._source} did not come within {self._make_limit_s:g} s "
            "(make_limit_s): its tasks or another rank stand still"
        )

    def _got(self, refs: Any, index: int, end_s: float) -> Any:
        """The values of references, in one call: shorter ones, repeated, would begin the transfer of a block anew."""
        import ray

        try:
            return ray.get(refs, timeout=max(_STOP_S, end_s - SYSTEM.monotonic()))
        except ray.exceptions.GetTimeoutError:
            raise self._late(index) from None

    def _received(self, portion: Portion, index: int, end_s: float) -> Received:
        blocks = self._got([ref for ref, _, _ in portion.parts], index, end_s)
        pieces = [
            private.columns(block, first, end) for block, (_, first, end) in zip(blocks, portion.parts, strict=True)
        ]
        names = pieces[0].keys()
        batch = {name: self._array([piece[name] for piece in pieces]) for name in names}
        ids = batch.get(ID)
        if ids is not None and (ids.dtype != np.int64 or ids.ndim != 1):
            ids = None
        self._rows = portion.rows or self._rows
        return Received(batch, ids, None if ids is None else self._rows, (0, index), 0)

    def _array(self, pieces: list[np.ndarray]) -> np.ndarray:
        """One array of its pieces; in given memory where that was asked for."""
        if self._allocate is None or pieces[0].dtype.hasobject:
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        rows = sum(len(piece) for piece in pieces)
        shape, dtype = (rows, *pieces[0].shape[1:]), pieces[0].dtype
        size = dtype.itemsize * int(np.prod(shape))
        out = self._allocate(size)[:size].view(dtype).reshape(shape)
        return np.concatenate(pieces, out=out)
