"""Readers and servers of one host share the memory of batches; a batch stays as it is while something refers to it."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest
from own_key import KEY

from tfhet.planes.feed import shared_memory
from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.frame import MOST_SEGMENTS, Segment
from tfhet.planes.feed.message import Batch, BatchRequests, FromServer
from tfhet.planes.feed.shared_memory import LocalConnection, NoSharedMemory, dial
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import MessageError
from tfhet.secure import Purpose, Records, Unauthenticated

KEYS = bytes(range(32)), bytes(range(1, 33))
REQUEST = BatchRequest(Shard(0, 1), 0, 0)
HERE = {"hosts": ["here"], "host": "here"}


def patterned(shard, batches=300, size=20_000):
    for number in range(shard.index * 10, shard.index * 10 + batches):
        yield {"image": np.full(size, number % 251, np.uint8), "label": np.arange(5) + number}


def check(batch, number: int) -> None:
    assert (batch["image"] == number % 251).all() and list(batch["label"]) == [*range(number, number + 5)]


@pytest.fixture
def mapped(monkeypatch) -> list[int]:
    """Numbers of the segments that readers have mapped."""
    found: list[int] = []
    add = shared_memory._MappedSegments.add

    def note(self, segment, descriptor):
        found.append(segment.number)
        add(self, segment, descriptor)

    monkeypatch.setattr(shared_memory._MappedSegments, "add", note)
    return found


@pytest.fixture
def ends():
    """A sender and a receiver."""
    here, there = socket.socketpair()
    sender, receiver = LocalConnection(here, Records(*KEYS)), LocalConnection(there, Records(*KEYS[::-1]))
    receiver.silent_after(20)
    yield sender, receiver
    sender.close()
    receiver.close()


def send(sender: LocalConnection, *sizes: int, value: int = 7) -> None:
    buffers = [[memoryview(np.full(size, value, np.uint8))] for size in sizes]
    sender.send([(Batch(source="id", request=REQUEST), one) for one in buffers])


def receive(receiver: LocalConnection) -> tuple[list, list[np.ndarray]]:
    messages = receiver.receive(FromServer)
    return messages, receiver.receive_data(messages, lambda size: np.empty(size, np.uint8), may_share=True)


def release(sender: LocalConnection, receiver: LocalConnection) -> None:
    receiver.send([(BatchRequests("id"), ())])
    sender.receive(BatchRequests)


@pytest.mark.parametrize("encrypted", [False, True], ids=["open", "encrypted"])
def test_batches_arrive_in_shared_memory(serve, read, mapped, encrypted):
    reader = read(serve(1, encrypted), FeedSource.of(patterned, {}), encrypted=encrypted, **HERE)
    numbers = []
    for found in reader.epoch(0):
        check(found.batch, found.key[1])
        found.batch["image"][:] = 255  # as an augmentation in place
        numbers.append(found.key[1])
    assert numbers == [*range(300)] and 1 <= len(mapped) < MOST_SEGMENTS


def test_kept_batches_do_not_change(serve, read, mapped):
    reader = read(serve(1), FeedSource.of(patterned, {"batches": 4 * MOST_SEGMENTS}), **HERE)
    kept = [found.batch for found in reader.epoch(0)]
    assert mapped == [*range(1, MOST_SEGMENTS + 1)]
    reader.close()
    for number, batch in enumerate(kept):
        check(batch, number)


def test_memory_of_the_caller_gets_a_copy(serve, read):
    pinned = []

    def allocate(size: int) -> np.ndarray:
        pinned.append(np.empty(size, np.uint8))
        return pinned[-1]

    reader = read(serve(1), FeedSource.of(patterned, {"batches": 20}), allocate=allocate, **HERE)
    for number, found in enumerate(reader.epoch(0)):
        check(found.batch, number)
        assert any(np.shares_memory(found.batch["image"], one) for one in pinned)


@pytest.mark.parametrize("names", [{}, {"hosts": ["there"], "host": "here"}, {"hosts": [None], "host": None}])
def test_other_hosts_send_over_tcp(serve, read, mapped, names):
    for found in read(serve(1), FeedSource.of(patterned, {"batches": 20}), **names).epoch(0):
        check(found.batch, found.key[1])
    assert not mapped


def test_lost_local_server_batches_are_remade(serve, read):
    servers = serve(2)
    reader = read(servers, FeedSource.of(patterned, {"batches": 100}), hosts=["here"] * 2, host="here")
    kept = []
    for found in reader.epoch(0):
        kept.append((10 * found.key[0] + found.key[1], found.batch))
        if len(kept) == 50:
            servers[0].lose()
    assert sorted(number for number, _ in kept) == sorted([*range(100), *range(10, 110)])
    for number, batch in kept:
        check(batch, number)


def test_wrong_key_and_other_servers_are_refused(serve):
    (one,) = serve(1)
    connection = dial(one.address, KEY, encrypted=False, is_local=True)
    assert isinstance(connection, LocalConnection)
    connection.close()
    with pytest.raises(Unauthenticated):  # over TCP: the name of the socket depends on the key
        dial(one.address, bytes(32), encrypted=False, is_local=True)
    one.lose()
    with pytest.raises(ConnectionRefusedError):
        dial(one.address, KEY, encrypted=False, is_local=True)


def test_shared_memory_is_not_offered_over_tcp(serve, monkeypatch):
    (one,) = serve(1)
    monkeypatch.setattr("tfhet.planes.feed.connection.purpose", lambda encrypted: Purpose.FEED_SHARED_MEMORY)
    with pytest.raises(Unauthenticated):
        FeedConnection.dial(one.address, KEY, encrypted=False)


def test_socket_of_another_user_is_not_used(serve, monkeypatch):
    (one,) = serve(1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    connection = dial(one.address, KEY, encrypted=False, is_local=True)
    assert type(connection) is FeedConnection
    connection.close()


def test_reader_without_descriptors_uses_tcp(serve, read, monkeypatch):
    def fail(self, segment, descriptor):
        os.close(descriptor)
        raise NoSharedMemory("too many open files")

    monkeypatch.setattr(shared_memory._MappedSegments, "add", fail)
    lines: list[str] = []
    reader = read(serve(1), FeedSource.of(patterned, {}), say=lines.append, **HERE)
    assert [found.key[1] for found in reader.epoch(0)] == [*range(300)]
    assert any("too many open files" in line for line in lines)


def test_server_without_descriptors_sends_data(serve, read, mapped, monkeypatch):
    def fail(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", fail)
    for found in read(serve(1), FeedSource.of(patterned, {}), **HERE).epoch(0):
        check(found.batch, found.key[1])
    assert not mapped


def test_segments_are_used_again(ends):
    sender, receiver = ends
    for size in (10_000, 10_000, 9_000, 500_000, 10_000):  # the last two replace the segment
        send(sender, size)
        messages, memories = receive(receiver)
        assert messages[0].segment.number == 1 and not messages[0].size and len(memories[0]) >= size
        del memories
        release(sender, receiver)
    assert len(sender._written._memories) == len(receiver._mapped._maps) == 1


def test_small_messages_need_no_segment(ends):
    sender, receiver = ends
    send(sender, 100, 4096, 0)
    messages, memories = receive(receiver)
    assert [message.segment is not None for message in messages] == [False, True, False]
    assert [len(memory) for memory in memories] == [128, 4096, 0]


def test_segments_in_use_are_bounded(ends):
    sender, receiver = ends
    kept = []
    for value in range(MOST_SEGMENTS + 10):
        send(sender, 5000, value=value)
        kept += receive(receiver)[1]
    assert len(sender._written._memories) == MOST_SEGMENTS
    assert all((memory[:5000] == value).all() for value, memory in enumerate(kept))


def test_last_array_releases_a_segment(ends):
    sender, receiver = ends
    send(sender, 5000)
    memory = receive(receiver)[1].pop()
    part = np.ndarray((10,), np.uint8, memory, 64)[2:].reshape(2, 4)
    del memory
    assert receiver._mapped.take_released() == ()
    del part
    assert receiver._mapped.take_released() == (1,)


@pytest.mark.parametrize("numbers", [(1,), (1, 1), (MOST_SEGMENTS,)])
def test_released_segments_must_be_in_use(ends, numbers):
    sender, receiver = ends
    if len(numbers) == 2:
        send(sender, 5000)
    receiver.send([(BatchRequests("id", released=numbers), ())])
    with pytest.raises(MessageError, match="not in use"):
        sender.receive(BatchRequests)


def test_invalid_segments_are_refused(ends, tmp_path):
    mapped_segments = ends[1]._mapped
    with pytest.raises(MessageError, match="not so long"):
        mapped_segments.view(Segment(1, 5000))
    descriptor = os.memfd_create("tfhet-batch", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 8192)
    with pytest.raises(MessageError, match="can change"):
        mapped_segments.add(Segment(1, 5000, is_new=True), descriptor)
    with pytest.raises(NoSharedMemory), open(tmp_path / "file", "w+b") as file:
        mapped_segments.add(Segment(1, 5000, is_new=True), os.dup(file.fileno()))
    mapped_segments.add(Segment(1, 5000, is_new=True), shared_memory._memory_file(8192)[0])
    with pytest.raises(MessageError, match="not so long"):
        mapped_segments.view(Segment(1, 8193))
