"""The reader of Ray Data in a rank that Ray did not start.

    reader = RayReader(order, source, job)
    for received in reader.epoch(0):
        train(received.batch)

Rank 0 calls the user's function and passes the data set to an actor (coordinator.py), from which all ranks request
batches. A thread fetches the blocks of the next batches into the object store of this host.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady, UsageError
from tfhet.planes.feed import START, FeedSource, Key, Position, Received, Shard, SourceError
from tfhet.planes.feed.batch_reader import MAKE_LIMIT_S
from tfhet.planes.ray import private
from tfhet.planes.ray.coordinator import Coordinator, EndOfShare, Portion
from tfhet.planes.ray.settings import Order
from tfhet.strategies import JobContext

AHEAD = 2  # batches that are fetched before the rank requests them
ID = "id"
"""Name of the optional column with the ids of examples, int64 [rows]."""
_CHECK_S = 0.2
_STOP_S = 0.5
"""Seconds within which the fetching thread notices that it must end."""


@contextlib.contextmanager
def _own_handler() -> Iterator[None]:
    """A block that keeps the handler of SIGTERM: Ray's handler would end the process by SIGABRT."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    with contextlib.suppress(ValueError):  # not in the main thread; Ray sets no handler there
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


class RayReader:
    """A `BatchReader` of the share of the job's rank."""

    shards = 1
    again = None
    """Ray does not report repeated work."""
    is_short = False

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
        """allocate: returns memory for the arrays, uint8 [n]; None: they are read-only views. make_limit_s: limit in
        seconds for each batch, including the call of the user's function, and for rank 0 to make the actor."""
        if source.shuffle or source.collate is not None:
            raise UsageError(
                "shuffle and collate are for map-style datasets; with --data_plane ray use random_shuffle and "
                "map_batches of Ray Data in the function"
            )
        self.left = 0
        self._order, self._source, self._job = order, source, job
        self._is_equal, self._ahead, self._allocate = is_equal, max(1, ahead or AHEAD), allocate
        self._make_limit_s = min(make_limit_s, 1e6)  # Ray needs a finite limit
        self._rows: int | None = None
        self._at = -1
        self._passes = 0
        self._is_within = False
        self._actor: Any = None

    def epoch(self, epoch: int, position: Position = START, *, continues: bool = True) -> Iterator[Received]:
        """See `BatchReader`. Raises SourceError with the error of the user's code, and NotReady if the cluster is lost
        or no batch arrives within `make_limit_s` seconds."""
        if position != START:
            raise UsageError("Ray Data cannot continue within an epoch: set the epoch to read again by set_epoch")
        actor = self._coordinator()
        if self._job.rank == 0:
            self._begin(epoch)
        self._at, self._is_within, number = epoch, True, self._passes
        self._passes += 1
        fetched: queue.Queue[Received | EndOfShare | Exception] = queue.Queue(self._ahead)
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
                if isinstance(found, EndOfShare):
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

    def delivered(self, epoch: int) -> frozenset[Key]:
        """Returns an empty set between two epochs. Raises UsageError within one."""
        if self._is_within and epoch == self._at:
            raise UsageError("Ray Data cannot continue within an epoch: call state_dict between two epochs")
        return frozenset()

    def facts(self, waits: bool = True) -> None:
        if waits:
            raise TypeError(f"{self._source} is a Ray data set: its length is unknown before its end")

    def close(self) -> None:
        """Does nothing: the actor serves other ranks, and ends with the cluster."""

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
            self._actor = self._make(name, namespace)
            return self._actor
        end_s = SYSTEM.monotonic() + self._make_limit_s
        while SYSTEM.monotonic() < end_s:
            with contextlib.suppress(ValueError):
                self._actor = ray.get_actor(name, namespace)
                return self._actor
            SYSTEM.sleep(_CHECK_S)
        raise NotReady(
            f"rank {job.rank}: rank 0 did not begin to read {self._source} within {self._make_limit_s:g} s "
            "(make_limit_s); all ranks must make their loaders in the same order"
        )

    def _make(self, name: str, namespace: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here, "lifetime": "detached"}
        options |= {"max_concurrency": max(4, self._ahead + 2) * self._job.size}
        made = ray.remote(Coordinator).options(name=name, namespace=namespace, **options)
        return made.remote(self._job.size, self._source.batch_size, self._is_equal, self._source.drop_last)

    def _begin(self, epoch: int) -> None:
        """Starts an epoch of the data set that the user's function returns."""
        dataset = self._source.make(Shard(0, 1, epoch, self._job.seed))
        if not private.is_dataset(dataset):
            raise UsageError(
                f"{self._source} returned {type(dataset).__name__}; with --data_plane ray it returns a ray.data.Dataset"
            )
        dataset.context.enable_progress_bars = False
        self._got(self._actor.begin.remote(self._passes, dataset), 0, SYSTEM.monotonic() + self._make_limit_s)

    def _fetch(self, actor: Any, number: int, into: queue.Queue[Any], stop: threading.Event) -> None:
        """Puts the batches of a pass, and then EndOfShare or an error, into a queue."""
        import ray

        calls: collections.deque[Any] = collections.deque()
        indices = itertools.count()

        def request() -> None:
            index = next(indices)
            calls.append((index, actor.batch.remote(number, self._job.rank, index)))

        try:
            for _ in range(self._ahead):
                request()
            end: EndOfShare | None = None
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
                elif isinstance(answer, EndOfShare):
                    end = answer  # other requested batches may have arrived before
                else:
                    if end is None:
                        request()
                    into.put(self._received(answer, index, end_s))
                    end_s = SYSTEM.monotonic() + self._make_limit_s
                del answer
            if end is not None and not stop.is_set():
                into.put(end)
        except (SourceError, NotReady) as error:
            into.put(error)
        except Exception as error:  # noqa: BLE001  whatever Ray raises when its cluster is gone
            into.put(NotReady(f"rank {self._job.rank}: Ray cannot deliver: {type(error).__name__}: {error}"))

    def _late(self, index: int) -> NotReady:
        return NotReady(
            f"rank {self._job.rank}: batch {index} of {self._source} did not arrive within {self._make_limit_s:g} s "
            "(make_limit_s): its tasks or another rank are stuck"
        )

    def _got(self, refs: Any, index: int, end_s: float) -> Any:
        """Returns the values of references, in one call: repeated short calls would restart the transfer of a block."""
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
        """Joins the pieces of an array, in memory of `allocate` if it was passed."""
        if self._allocate is None or pieces[0].dtype.hasobject:
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        rows = sum(len(piece) for piece in pieces)
        shape, dtype = (rows, *pieces[0].shape[1:]), pieces[0].dtype
        size = dtype.itemsize * int(np.prod(shape))
        out = self._allocate(size)[:size].view(dtype).reshape(shape)
        return np.concatenate(pieces, out=out)
