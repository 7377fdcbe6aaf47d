"""Elastic histories: data hosts and ranks are lost in an epoch that other ranks continue, and each id arrives once.

Loaders, readers, shares, productions and states are the real ones. A `Network` replaces connections and threads: it
carries one message at a time, in an order that a seed determines.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_clock import FakeClock
from PIL import Image

from tfhet.pipeline import Pipeline
from tfhet.planes.feed import loader as loader_module, reader as reader_module, share as share_module
from tfhet.planes.feed.delivered import MOST_LOSSES, NO_BATCH, BatchRequest
from tfhet.planes.feed.loader import Loader
from tfhet.planes.feed.message import Batch, Described, NoBatch
from tfhet.planes.feed.plane import Feed
from tfhet.planes.feed.production import EndOfShard, Production
from tfhet.planes.feed.reader import FeedReader
from tfhet.planes.feed.share import EpochPass
from tfhet.planes.feed.source import FeedSource
from tfhet.source import Balanced, FileList, IndexedSource, Mixed, SyntheticSource, ids_at
from tfhet.strategies import JobContext

HISTORIES, TESTS = 1000, 10
"""Number of histories, and of the tests that they are divided among."""
MOST_LOST = MOST_LOSSES - 1
"""Losses of data hosts in a job: a reader gives up a batch with which more are lost."""
MOST_EVENTS = 100_000


class Host:
    """A process of a data host, which answers as a server of the feed does."""

    def __init__(self) -> None:
        self._productions: dict[str, Production] = {}

    def answer(self, source: FeedSource, request: BatchRequest) -> list[tuple[Any, Any]]:
        """Returns the messages that answer a request, each with its value."""
        production = self._productions.setdefault(source.id, Production(source, request.shard.seed))
        answer: dict[str, Any] = {"source": source.id, "request": request}
        messages: list[tuple[Any, Any]] = [(Described(**answer, facts=production.facts), None)]
        if request.number != NO_BATCH:
            made = production.batch(request)
            assert made is not None
            if isinstance(made, EndOfShard):
                messages.append((NoBatch(**answer, batches=made.batches), None))
            else:
                value = {"batch": made.value, "ids": made.ids}
                messages.append((Batch(**answer, size=1000, examples=made.examples), value))
        return messages


@dataclass(eq=False)
class Line:
    """The connection of a reader to a host. What is in flight is lost with the host."""

    reader: FeedReader
    index: int
    host: Host | None = None
    """The host that it is connected to, as far as the reader knows."""
    requests: deque[BatchRequest] = field(default_factory=deque)
    answers: deque[tuple[Any, Any]] = field(default_factory=deque)

    def silent_after(self, seconds: float) -> None: ...

    def close(self) -> None: ...

    def send(self, messages: Sequence[tuple[Any, Any]]) -> None:
        for message, _ in messages:
            self.requests += message.requests

    def receive(self) -> None:
        self.reader._on_answer(self.reader._servers[self.index], *self.answers.popleft())


class Network:
    """Data hosts that are lost and return, and the readers of all ranks."""

    def __init__(self, draw: random.Random, hosts: int) -> None:
        self._draw, self._losses, self._events = draw, draw.randint(0, MOST_LOST), 0
        self.clock = FakeClock()
        self._names = [f"algo-{index}" for index in range(hosts)]
        self._hosts: list[Host | None] = [Host() for _ in range(hosts)]
        self._gone = set[int]()
        """Hosts that do not return."""
        self._lines: list[Line] = []

    def connect(self, source: FeedSource, job: JobContext, options: dict[str, Any]) -> FeedReader:
        """Does what `Feed.batches` does."""
        given = {name: options[name] for name in ("ahead", "is_equal")}
        place = {"rank": job.rank, "size": job.size, "seed": job.seed, "hosts": self._names}
        reader = FeedReader(self._names, b"", source, **place, **given, say=lambda line: None)
        reader._woken = SimpleNamespace(set=lambda: None, clear=lambda: None, wait=lambda limit_s: self.advance())
        self._lines += [Line(reader, index) for index in range(len(self._names))]
        return reader

    def next(self, this: EpochPass) -> Any:
        """Does what `EpochPass.next` does."""
        while this.ready.empty():
            self.advance()
        return this.ready.get_nowait()

    def advance(self) -> None:
        """Lets one thing happen: a host is lost or returns, a reader notices it, a batch is made, or it arrives."""
        self._events += 1
        self.clock.sleep(self._draw.choice([1e-3, 3e-2]))
        assert self._events < MOST_EVENTS, "the ranks do not reach the end of the epoch"
        self._lose_or_return()
        lines = [line for line in self._lines if line.requests or line.answers or self._is_outdated(line)]
        if not lines:  # every host is lost
            assert not any(self._hosts), "the ranks wait for batches that no host makes"
            return
        line = self._draw.choice(lines)
        if line.answers and (not line.requests or self._draw.random() < 0.5):
            line.receive()
        elif self._is_outdated(line):
            self._notice(line)
        else:
            assert line.host is not None
            line.answers += line.host.answer(line.reader._source, line.requests.popleft())

    def _is_outdated(self, line: Line) -> bool:
        return line.host is not self._hosts[line.index]

    def _lose_or_return(self) -> None:
        draw = self._draw
        living = [index for index, host in enumerate(self._hosts) if host is not None]
        lost = [index for index in range(len(self._hosts)) if index not in living and index not in self._gone]
        if lost and (not living or draw.random() < 0.1):
            self._hosts[draw.choice(lost)] = Host()
        elif self._losses and living and draw.random() < 0.05:
            self._losses -= 1
            index = draw.choice(living)
            self._hosts[index] = None
            if len(self._gone) < len(self._hosts) - 1 and draw.random() < 0.3:
                self._gone.add(index)
            for line in self._lines:
                if line.index == index and draw.random() < 0.5:  # otherwise the reader's socket has them
                    line.answers.clear()

    def _notice(self, line: Line) -> None:
        if line.host is None:
            line.host = self._hosts[line.index]
            line.reader._on_connected(line.index, line)  # type: ignore[arg-type]
            return
        line.host = None
        line.requests.clear()
        line.answers.clear()
        if line.index in self._gone:
            line.reader.serve_only([name for name in self._names if name != self._names[line.index]])
        line.reader._on_lost(line.index, "lost")


class Numbers:
    """A map-style dataset of numbers."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return index


def numbers(shard: Any, count: int) -> Numbers:
    return Numbers(count)


class History:
    """An epoch that several jobs read, one after the other, each from the last saved state."""

    def __init__(self, seed: int, path: str) -> None:
        """path: an image file."""
        self._draw = draw = random.Random(seed)
        self._path, count = path, draw.randint(12, 110)
        self._is_pipeline, self._is_training = draw.random() < 0.6, draw.random() < 0.6
        self._shuffle = draw.choice([True, True, False, 7])
        self._drop_last = draw.random() < 0.2 and (self._is_pipeline or self._is_training)
        self._source, self._stages = self._drawn_source(count)
        self._ids = ids_at(np.arange(self._source.example_count()), self._source.sizes()).tolist()
        self._state: dict[str, Any] | None = None
        self._seen: list[int] = []
        """Ids that were read before the state was saved."""
        self._left = 0
        """Number of examples, plus 1, that may fill no batch of all ranks at the end of the epoch."""

    def _drawn_source(self, count: int) -> tuple[IndexedSource, str]:
        draw = self._draw
        if not self._is_pipeline or (kind := draw.random()) < 0.7:
            return SyntheticSource(count, draw.randint(1, 3) if self._is_pipeline else 1, (1, 1, 1)), ""
        if kind < 0.85:
            sizes = (draw.randint(4, 60), draw.randint(4, 60))
            return Mixed([(SyntheticSource(size, 1, (1, 1, 1)), draw.randint(1, 3)) for size in sizes]), ""
        return Balanced(
            FileList([(self._path, draw.randint(0, 2)) for _ in range(count // 3)])
        ), "decode(); resize(2, 2)"

    def play(self, patch: pytest.MonkeyPatch) -> None:
        while self._state is None or self._state["epoch"] == 0:
            self._run_job(patch)
        assert len(self._seen) == len(set(self._seen)), "ids arrived twice"
        missing = set(self._ids) - set(self._seen)
        assert len(missing) < self._left and set(self._seen) <= set(self._ids), f"{missing} did not arrive"

    def _run_job(self, patch: pytest.MonkeyPatch) -> None:
        draw, count = self._draw, len(self._ids)
        size, batch_size, hosts = draw.randint(1, 5), draw.randint(2, 12), draw.choice([0, 1, 2, 2, 3, 4])
        begin = 0 if self._state is None else self._state["examples"]
        if 0 < count - begin < 2 * size or (self._drop_last and size * batch_size > count):
            size, batch_size = 1, 2  # fewer examples than ranks are refused
        network = Network(draw, hosts)
        patch.setattr(loader_module, "_ordinals", itertools.repeat(0))  # all ranks make the same loader
        for module in (reader_module, share_module):
            patch.setattr(module, "SYSTEM", network.clock)
        patch.setattr(EpochPass, "next", lambda this, limit_s: network.next(this))
        patch.setattr(Feed, "batches", lambda plane, *given: network.connect(*given))
        loaders = [self._loader(batch_size, self._job(rank, size, hosts)) for rank in range(size)]
        may_leave = self._drop_last or (self._is_training and not self._is_pipeline)
        self._left = size * batch_size if may_leave else 1
        while not self._read(loaders):  # all ranks return to the last state
            continue
        for loader in loaders:
            loader.close()

    def _job(self, rank: int, size: int, hosts: int) -> JobContext:
        if not hosts:
            return JobContext("job", "homogeneous", rank, size, rank, size)
        names = [f"algo-{index}" for index in range(hosts)]
        order = {"servers": [f"{name}:1" for name in names], "hosts": names, "encrypted": False}
        return JobContext("job", "heterogeneous", rank, size, rank, size, plane="feed", order=order)

    def _loader(self, batch_size: int, job: JobContext) -> Loader:
        ahead = self._draw.choice([None, 1, 2, 5])
        if not self._is_pipeline:
            options = {"shuffle": bool(self._shuffle), "training": self._is_training, "drop_last": self._drop_last}
            arguments = {"count": len(self._ids)}
            return Loader(numbers, arguments, batch_size=batch_size, job=job, ahead=ahead, is_noted=False, **options)
        settings: dict[str, Any] = {"shuffle": self._shuffle, "seed": 3, "drop_last": self._drop_last}
        pipeline = Pipeline(self._source, self._stages, batch_size=batch_size, **settings)
        return Loader.of_pipeline(pipeline, job=job, ahead=ahead, is_noted=False, with_ids=True)

    def _read(self, loaders: Sequence[Loader]) -> bool:
        """Reads from the last saved state on. Returns whether the job ends; what was read after the state that it
        saved last is lost."""
        draw, unsaved = self._draw, list[int]()
        for loader in loaders:
            loader.set_epoch(0) if self._state is None else loader.load_state_dict(self._state)
        iterators = [iter(loader) for loader in loaders]
        for _ in range(draw.choice([1, 2, 4, 8, 100])):
            found = {rank: next(iterators[rank], None) for rank in draw.sample(range(len(loaders)), len(loaders))}
            is_over = loaders[0]._epoch > 0  # there was no batch
            if not is_over:
                for batch in found.values():
                    unsaved += (batch[2] if self._is_pipeline else batch).tolist()
            if is_over or draw.random() < 0.5:
                states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
                assert all(state == states[0] for state in states)
                self._state = states[0]
                self._seen += unsaved
                unsaved = []
                if self._state["epoch"] > 0:
                    return True
        return draw.random() < 0.7


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers get no threads for their connections."""
    thread = SimpleNamespace(start=lambda: None)
    parts = {"Lock": threading.Lock, "Event": threading.Event, "Thread": lambda **options: thread}
    monkeypatch.setattr(reader_module, "threading", SimpleNamespace(**parts))


@pytest.fixture
def play(no_threads, tmp_path, monkeypatch) -> Callable[[int], None]:
    path = tmp_path / "image.png"
    Image.new("L", (1, 1)).save(path)

    def one(seed: int) -> None:
        with monkeypatch.context() as patch:
            History(seed, str(path)).play(patch)

    return one


@pytest.mark.parametrize("first", range(0, HISTORIES, HISTORIES // TESTS))
def test_elastic_histories_read_every_id_once(play, first):
    for seed in range(first, first + HISTORIES // TESTS):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"play({seed}) repeats this history")
            raise
