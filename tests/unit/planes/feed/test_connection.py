"""Frames of any size pass through a connection: plain, encrypted or in shared memory; silence and an end are errors."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest

from tfhet.planes.feed.connection import PREFIX, FeedConnection
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.message import Batch, Failed, FromServer
from tfhet.planes.feed.shared_memory import LocalConnection
from tfhet.planes.feed.source import Shard
from tfhet.schema import MessageError
from tfhet.secure import EncryptedRecords, Records

KEYS = bytes(range(32)), bytes(range(1, 33))
REQUEST = BatchRequest(Shard(0, 1), 0, 0)


@pytest.fixture(params=["plain", "encrypted", "shared"])
def ends(request) -> Iterator[tuple[FeedConnection, FeedConnection]]:
    """A sender and a receiver."""
    kind = LocalConnection if request.param == "shared" else FeedConnection
    records = EncryptedRecords if request.param == "encrypted" else Records
    if request.param == "shared":
        here, there = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            here, there = socket.create_connection(listener.getsockname()), listener.accept()[0]
    sender, receiver = kind(here, records(*KEYS)), kind(there, records(*KEYS[::-1]))
    receiver.silent_after(20)
    yield sender, receiver
    sender.close()
    receiver.close()


def test_headers_of_any_length_arrive(ends):
    sender, receiver = ends
    for length in (*range(0, 2 * PREFIX, 13), 100_000):
        sent = Failed(source="id", request=REQUEST, text="x" * length)
        sender.send([(sent, ())])
        assert receiver.receive(FromServer) == [sent]


@pytest.mark.parametrize("may_share", [False, True])
def test_messages_of_a_frame_have_their_own_data(ends, may_share):
    sender, receiver = ends
    draw = np.random.default_rng(1)
    batches = [[draw.bytes(size) for size in sizes] for sizes in ((3, 0, 64), (), (70_000, 300_000, 1, 600_000), (5,))]
    sender.send([(Batch(source="id", request=REQUEST), [memoryview(one) for one in batch]) for batch in batches])
    messages = receiver.receive(FromServer)
    memories = receiver.receive_data(messages, lambda size: np.empty(size, np.uint8), may_share)
    for batch, memory in zip(batches, memories, strict=True):
        assert bytes(memory) == b"".join(one + bytes(-len(one) % 64) for one in batch)
    sender.send([(Failed(source="id", request=REQUEST, text="next"), ())])
    assert receiver.receive(FromServer)[0].text == "next"


def test_long_header_is_refused(ends):
    sender, receiver = ends
    sender.send([(Failed(source="id", request=REQUEST, text="x" * 1000), ())])
    with pytest.raises(MessageError, match="at most 500"):
        receiver.receive(FromServer, 500)


def test_silence_and_the_end_are_errors(ends):
    sender, receiver = ends
    receiver.silent_after(0.1)
    sender._end.sendall(b"x" * 20)
    with pytest.raises(TimeoutError):
        receiver.receive(FromServer)
    sender.close()
    with pytest.raises(ConnectionError):
        receiver.receive(FromServer)
