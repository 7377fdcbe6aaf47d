"""Strangers, and members that send rubbish, at the port of a feed: none ends it, and readers do not notice."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from own_key import KEY
from rubbish import FULL

from tfhet.planes.feed import FeedReader, FeedSource, Server
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.message import BatchRequests, FromServer
from tfhet.planes.feed.shared_memory import dial
from tfhet.planes.feed.source import Shard
from tfhet.schema import to_json
from tfhet.secure import MAGIC, Purpose, Records

INPUTS = 1_500 if FULL else 150


class Numbers:
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> np.ndarray:
        return np.array([index])


def numbers(shard) -> Numbers:
    return Numbers()


SOURCE = FeedSource.of(numbers, {}, batch_size=8)


@dataclass
class Served:
    port: int
    address: str

    def serves(self) -> bool:
        """Whether readers on this host and on another one get all, once."""
        return all(sorted(self._read(host)) == list(range(40)) for host in ("here", "there"))

    def _read(self, host: str) -> list[int]:
        reader = FeedReader([self.address], KEY, SOURCE, hosts=["here"], host=host, say=lambda line: None)
        try:
            return [int(one) for each in reader.epoch(0, continues=False) for one in each.batch[:, 0]]
        finally:
            reader.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = listener.getsockname()[1]
    server, stop = Server(listener, f"127.0.0.1:{port}", KEY, False), threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    yield Served(port, f"127.0.0.1:{port}")
    stop.set()
    server.close()
    thread.join(20)
    assert not thread.is_alive()


def test_strangers_get_nothing_whatever_they_send(served):
    draw = random.Random(1)
    for _ in range(INPUTS):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as end, contextlib.suppress(OSError):
            opening = draw.choice([b"", b"GET / HTTP/1.1\r\n\r\n", MAGIC, MAGIC + bytes((Purpose.FEED, 0)) + bytes(32)])
            end.sendall(opening + draw.randbytes(draw.randrange(200)))
            end.shutdown(socket.SHUT_WR)
            answer = b""
            while more := end.recv(1000):
                answer += more
            assert len(answer) in (0, 40)
    assert served.serves()


def test_a_member_that_sends_rubbish_ends_its_connection_alone(served):
    draw, odd = random.Random(2), [-1, None, 1.5, "0", [], 1 << 70, True]
    requests = tuple(BatchRequest(Shard(0, 1), number, 0, ahead=2) for number in range(2))
    good = to_json(BatchRequests(SOURCE.id, requests, SOURCE))

    def rubbish(records: Records) -> bytes:
        header = json.loads(json.dumps(good))
        what = draw.randrange(8)
        if what == 0:
            return draw.randbytes(draw.randrange(100))
        if what == 1:
            return records.sealed(b" " * draw.choice([1 << 21, 3]), draw.choice([0, 1 << 50])) + draw.randbytes(20)
        if what == 2:
            header[draw.choice(list(header))] = draw.choice([None, [], {}, -1, 10**30, "x" * 1000, [[[]]], True])
        elif what == 3:
            header["wishes"][0]["shard"][draw.choice(["index", "count", "epoch"])] = draw.choice(odd)
        elif what == 4:
            header["named"][draw.choice(list(header["named"]))] = draw.choice([None, [], {}, -1, "no/such", "../.."])
        elif what == 5:
            header["wishes"][draw.randrange(2)][draw.choice(["number", "first", "ranks"])] = draw.choice(odd)
        elif what == 6:
            header["source"] = "another"
            del header["named"]
        else:
            header["released"] = draw.choice([None, [0], [1], [1, 1], [65], [1] * 65, "1", [1 << 70]])
            header["segment"] = draw.choice([None, {}, {"number": 1, "size": 1 << 40, "is_new": True}, {"number": 65}])
        rest = draw.choice([0, 0, 7])
        text = json.dumps([header | {"size": rest}] * draw.choice([1, 1, 2])).encode()
        return records.sealed(text, rest * draw.choice([1, 1, 2]))

    for _ in range(INPUTS):
        connection = dial(served.address, KEY, encrypted=False, is_local=draw.random() < 0.5)
        connection.silent_after(0.05)
        try:
            with contextlib.suppress(OSError):
                connection._end.sendall(rubbish(connection._records))
                connection.receive(FromServer)
        finally:
            connection.close()
    assert served.serves()
