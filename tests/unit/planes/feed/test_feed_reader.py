"""Readers and servers of a feed: each batch arrives once and shares are equal, even if a server is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import os
import queue
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import own_key
import pytest
from forked import exit_code_of_fork
from own_key import KEY

from tfhet.errors import DataError, NotReady, UsageError
from tfhet.messages import ProcessChannel, rank
from tfhet.planes.feed import reader as reader_module, server_link
from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.dataset import DatasetFacts
from tfhet.planes.feed.delivered import BatchRequest, SourceError
from tfhet.planes.feed.message import Alive, Batch, BatchRequests, Described
from tfhet.planes.feed.plane import Membership
from tfhet.planes.feed.reader import FeedReader
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import encode
from tfhet.secure import Purpose, as_server, perform_handshake


def numbered(shard, batches=10, more=1):
    """Batches with their place; each shard has `more` than the one before."""
    for number in range(batches + more * shard.index):
        yield {"at": np.array([shard.index, number]), "big": np.full(20_000, number % 256, np.uint8)}


class Hundred:
    """A map-style dataset."""

    def __len__(self):
        return 103

    def __getitem__(self, index):
        return np.full(3, index), f"example {index}"


def hundred(shard):
    return Hundred()


def admitted(end: socket.socket, address: str) -> FeedConnection:
    """A server's connection after the handshake."""
    records = perform_handshake(end, as_server(KEY, {Purpose.FEED}, address))
    return FeedConnection(end, records)


def upside_down(shard):
    yield np.zeros(3)
    raise ValueError("the picture is upside down")


freed = threading.Event()


def stuck():
    freed.wait(30)


def hangs(shard):
    stuck()
    return Hundred()


def no_batches(shard):
    return 7


def side_by_side(readers, do):
    with ThreadPoolExecutor(len(readers)) as pool:
        return list(pool.map(do, readers))


def at(delivery):
    return tuple(int(one) for one in delivery.batch["at"])


def readers_of(read, servers, source, size=2, **options):
    return [read(servers, source, rank=rank, size=size, **options) for rank in range(size)]


@pytest.mark.parametrize("encrypted", [False, True], ids=["open", "encrypted"])
def test_ranks_get_every_batch_once_and_equally(serve, read, encrypted):
    readers = readers_of(read, serve(3, encrypted), FeedSource.of(numbered, {}), encrypted=encrypted)
    for epoch in range(2):
        got = side_by_side(readers, lambda one, epoch=epoch: [at(each) for each in one.epoch(epoch)])
        assert [len(each) for each in got] == [16, 16]  # of 10 + 11 + 12 batches
        assert len({each for rank in got for each in rank}) == 32
    assert [one.left for one in readers] == [2, 2] and [one.again for one in readers] == [0, 0]


def test_map_style_batches_are_the_same_from_any_server(serve, read):
    def epoch(servers, number):
        readers = readers_of(
            read, servers, FeedSource.of(hundred, {}, batch_size=8, shuffle=True), seed=5, is_equal=False
        )
        got = side_by_side(readers, lambda one: list(one.epoch(number)))
        return [one for rank in got for one in rank]

    found = epoch(serve(3), 1)
    assert Counter(int(one) for each in found for one in each.ids) == Counter(range(103))
    assert all((each.batch[0][:, 0] == each.ids).all() and each.examples == 103 for each in found)
    by_key, other = {each.key: each for each in found}, {each.key: each for each in epoch(serve(1), 1)}
    assert by_key.keys() == other.keys()
    for key, each in by_key.items():
        np.testing.assert_array_equal(each.ids, other[key].ids)
        assert each.batch[1] == other[key].batch[1] == [f"example {index}" for index in each.ids]
    assert [one.ids.tolist() for one in sorted(found, key=lambda one: one.key)] != [list(range(8))]


def test_lost_server_batches_are_remade(serve, read):
    servers = serve(3)
    readers = readers_of(read, servers, FeedSource.of(numbered, {"batches": 200, "more": 0}))
    met = threading.Barrier(2)

    def read_on(one):
        deliveries = one.epoch(0)
        got: list[tuple[int, int]] = []
        while sum(shard == 1 for shard, _ in got) < 20:  # else another one need not make any again
            got.append(at(next(deliveries)))
        if met.wait(20) == 0:
            servers[1].lose()
        met.wait(20)
        return got + [at(each) for each in deliveries]

    got = side_by_side(readers, read_on)
    assert [len(each) for each in got] == [300, 300]
    assert {each for rank in got for each in rank} == {(shard, number) for shard in range(3) for number in range(200)}
    assert sum(one.again for one in readers) > 0
    assert side_by_side(readers, lambda one: len(list(one.epoch(1)))) == [300, 300]


def test_user_error_has_its_traceback(serve, read):
    servers = serve(1)
    broken = read(servers, FeedSource.of(upside_down, {}))
    with pytest.raises(SourceError, match="batch 1 of shard 0") as raised:
        list(broken.epoch(0))
    assert 'raise ValueError("the picture is upside down")' in str(raised.value)
    assert "tfhet/planes/feed" not in str(raised.value)
    assert len(list(read(servers, FeedSource.of(numbered, {})).epoch(0))) == 10


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (FeedSource.of(no_batches, {}), "returned int"),
        (FeedSource.of(no_batches, {}, batch_size=4), "no __len__"),
        (FeedSource.of(numbered, {"unknown": 1}), "'unknown'"),
        (FeedSource("", "/nowhere/train.py", "make"), "/nowhere/train.py"),
        (FeedSource("own_key", own_key.__file__, "make"), "no function make"),
        (FeedSource("os", os.__file__, "system"), "os.py"),
        (FeedSource("os", own_key.__file__, "system"), "own_key.py"),
        (FeedSource("", "/etc/passwd", "make"), "/etc/passwd"),
    ],
    ids=[
        "no iterable",
        "no dataset",
        "arguments",
        "no file",
        "no function",
        "standard library",
        "another module",
        "other file",
    ],
)
def test_unusable_sources_are_refused(serve, read, source, named):
    with pytest.raises(SourceError, match=named):
        next(read(serve(1), source).epoch(0))


def swapped(shard):
    """Batches whose trees are equal in Python but not in JSON."""
    low, high = np.zeros(64, np.float32), np.full(64, 100, np.float32)
    yield {"low": low, "high": high}
    yield {"high": high, "low": low}
    yield {"low": low, "high": high}
    for value in (1, True, 1.0, 0.0, -0.0, 0, False):
        yield {"low": low, "high": high, "value": value}


def test_trees_keep_order_and_types(serve, read):
    found = [each.batch for each in read(serve(1), FeedSource.of(swapped, {})).epoch(0)]
    assert all(batch["low"].max() == 0 and batch["high"].min() == 100 for batch in found)
    assert [list(batch)[:2] for batch in found[:3]] == [["low", "high"], ["high", "low"], ["low", "high"]]
    assert [repr(batch["value"]) for batch in found[3:]] == ["1", "True", "1.0", "0.0", "-0.0", "0", "False"]


def test_waiting_small_batches_share_a_frame(serve, read, monkeypatch):
    send, sent = FeedConnection.send, []

    def slow(self, messages):
        sent.append([type(header) for header, _ in messages])
        time.sleep(0.005)
        send(self, messages)

    monkeypatch.setattr(FeedConnection, "send", slow)
    found = [at(each) for each in read(serve(1), FeedSource.of(numbered, {"batches": 60})).epoch(0)]
    assert found == [(0, number) for number in range(60)]
    assert max(map(len, sent)) > 1
    assert all(set(types) == {Batch} for types in sent if len(types) > 1)


def test_iteration_ends_when_another_begins(serve, read):
    one = read(serve(1), FeedSource.of(numbered, {}))
    first = one.epoch(0)
    next(first)
    second = one.epoch(1)
    assert len(list(second)) == 10
    with pytest.raises(UsageError, match="another iteration"):
        list(first)


def test_server_stops_at_the_credit(serve, read):
    one = read(serve(1), FeedSource.of(numbered, {"batches": 1000}), ahead=5)
    deliveries = one.epoch(0)
    made = []
    for _ in range(3):
        next(deliveries)
        time.sleep(0.2)
        made += [each.ready.qsize() for each in one._passes.values()]
    assert made == [4, 3, 5]  # requested together when half are used
    assert len(list(deliveries)) == 997


def test_rank_reads_without_the_others(serve, read):
    alone = read(serve(2), FeedSource.of(numbered, {"batches": 50, "more": 0}), rank=1, size=3)
    assert len(list(alone.epoch(0))) == 33


def test_reader_without_servers_gives_up(serve, read, monkeypatch):
    monkeypatch.setattr(reader_module, "LOST_S", 0.5)
    servers = serve(1)
    servers[0].lose()
    with pytest.raises(NotReady, match="refused"):
        next(read(servers, FeedSource.of(numbered, {})).epoch(0))
    with pytest.raises(NotReady, match="refused"):
        read(servers, FeedSource.of(numbered, {})).facts()


def exits(shard):
    sys.exit("no such file")


@pytest.mark.parametrize("batch_size", [0, 8])
def test_exit_of_the_users_code_is_its_error(serve, read, batch_size):
    with pytest.raises(SourceError, match="SystemExit: no such file"):
        next(read(serve(1), FeedSource.of(exits, {}, batch_size=batch_size)).epoch(0))


def test_module_of_the_function_has_the_scripts_arguments(serve, read, tmp_path, monkeypatch):
    file = tmp_path / "reads_argv.py"
    file.write_text("import sys\nargv = sys.argv\ndef make(shard):\n    yield argv\n")
    source = FeedSource("", str(file), "make", argv=("--size", "64"))
    (found,) = read(serve(1), source).epoch(0)
    assert found.batch == [str(file), "--size", "64"]
    assert source.id == dataclasses.replace(source, argv=()).id
    monkeypatch.setattr(sys, "argv", ["train.py", "--lr", "1"])
    assert FeedSource.of(numbered, {}).argv == ("--lr", "1")


def test_sources_without_readers_are_dropped(serve, read):
    (one,) = serve(1)
    for ordinal in range(6):
        reader = read([one], FeedSource.of(hundred, {}, batch_size=8, ordinal=ordinal))
        assert len(list(reader.epoch(0))) == 13
        reader.close()
    deadline = time.monotonic() + 20
    while len(one.server._productions) > 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(one.server._productions) <= 3


def test_client_with_another_key_gets_nothing(serve, read, monkeypatch):
    monkeypatch.setattr(reader_module, "LOST_S", 0.5)
    with pytest.raises(NotReady, match="proof"):
        next(read(serve(1), FeedSource.of(numbered, {}), b"x" * 32).epoch(0))


def test_server_silent_within_a_batch_is_lost(serve, read, monkeypatch):
    monkeypatch.setattr(reader_module, "SILENT_S", 1.0)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"

    def half() -> None:
        end, _ = listener.accept()
        connection = admitted(end, address)
        connection.receive(BatchRequests)
        end.sendall(connection._records.sealed(b'{"type":' + bytes(20), 1 << 20)[:40])
        listener.close()  # and says no more

    threading.Thread(target=half, daemon=True).start()
    log: list[str] = []
    one = read([address, *serve(1)], FeedSource.of(hundred, {}, batch_size=8), say=log.append)
    found = list(one.epoch(0))
    assert Counter(int(each) for delivery in found for each in delivery.ids) == Counter(range(103))
    assert any("has lost" in line for line in log)


@pytest.mark.parametrize("do", [lambda one: next(one.epoch(0)), lambda one: one.facts()], ids=["batch", "length"])
def test_hanging_code_is_named_with_its_place(serve, read, monkeypatch, do):
    monkeypatch.setattr(server_link, "SLOW_S", 0.2)
    monkeypatch.setattr("tfhet.planes.feed.server.ALIVE_S", 0.1)
    freed.clear()
    log: list[str] = []
    one = read(serve(1), FeedSource.of(hangs, {}, batch_size=8), make_limit_s=0.6, say=log.append)
    try:
        with pytest.raises(NotReady) as raised:
            do(one)
    finally:
        freed.set()
    (line,) = log
    for text in (str(raised.value), line):
        assert re.search(r"test_feed_reader:hangs .* stuck \(test_feed_reader.py, line \d+\).* hangs \(", text)
    assert "make_limit_s" in str(raised.value)


def test_slow_import_is_named(serve, read, tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.planes.feed.server.ALIVE_S", 0.1)
    library = tmp_path / "slow_library"
    library.mkdir()
    (library / "__init__.py").write_text("from slow_library import inner\n")
    (library / "inner.py").write_text("import time\ndef stuck():\n    time.sleep(2)\nstuck()\n")
    file = tmp_path / "imports_slowly.py"
    file.write_text("import slow_library\ndef make(shard):\n    return [1, 2]\n")
    one = read(serve(1), FeedSource("", str(file), "make", batch_size=1), make_limit_s=0.5)
    with pytest.raises(NotReady, match=r"stuck \(inner.* the import of slow_library.* <module> \(imports_slowly"):
        one.facts()


class Started:
    count = 0


def test_servers_import_before_the_first_request(serve, read, tmp_path):
    file = tmp_path / "counts_imports.py"
    file.write_text(f"from {__name__} import Started\nStarted.count += 1\ndef make(shard):\n    return [1, 2]\n")
    read(serve(1), FeedSource("", str(file), "make", batch_size=1))
    end_s = time.monotonic() + 10
    while not Started.count and time.monotonic() < end_s:
        time.sleep(0.01)
    assert Started.count == 1


class Files:
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.files[index]


lengths = itertools.count(3)
orders = itertools.count()


def growing(shard):
    return Files(["c.jpg"] * next(lengths))


def unsorted(shard):
    return Files([["a.jpg", "b.jpg", "c.jpg"], ["a.jpg", "c.jpg", "b.jpg"]][next(orders) % 2])


@pytest.mark.parametrize(("make", "named"), [(growing, "[34] and [34] examples"), (unsorted, "in files")])
def test_servers_that_disagree_end_the_epoch(serve, read, make, named):
    servers = serve(2)
    hosts = ["algo-1", "algo-2"]
    one = read(servers, FeedSource.of(make, {}, batch_size=1), hosts=hosts, say=print)
    with pytest.raises(DataError, match=named) as raised:
        while True:
            one.facts()
            list(one.epoch(0))
    assert all(host in str(raised.value) for host in hosts)


def test_process_lost_at_one_batch_ends_the_epoch(serve, read, monkeypatch):
    """A process that dies, or is killed, hangs up instead of answering."""
    monkeypatch.setattr(reader_module, "DIAL_S", 0.01)

    def hang_up(self, client, source, request) -> None:
        if request is not None:
            client.connection.close()

    monkeypatch.setattr("tfhet.planes.feed.server.Server._answer", hang_up)
    with pytest.raises(NotReady, match=r"numbered: 4 .* batch 0 of shard 0, epoch 0 .* make_limit_s \(600"):
        list(read(serve(1), FeedSource.of(numbered, {})).epoch(0))
    with pytest.raises(NotReady, match="hundred: 4 .* the dataset"):
        read(serve(1), FeedSource.of(hundred, {}, batch_size=8)).facts()
    with pytest.raises(NotReady, match="numbered: 1 .* batch 0 of shard 0, epoch 0"):
        list(read(serve(1), FeedSource.of(numbered, {}), make_limit_s=1e-9).epoch(0))


def test_limit_is_for_the_readers_own_source():
    slow = Alive("train.py:make", 60.0, ("load (train.py, line 3)",))
    assert "train.py:make" in (server_link.ServerTimeout("a:1", "val.py:make", 20.0).check(slow) or "")
    with pytest.raises(NotReady, match="make_limit_s"):
        server_link.ServerTimeout("a:1", "train.py:make", 20.0).check(slow)


def silent_server(answer: Sequence[Any] = ()) -> tuple[str, threading.Thread]:
    """A server that sends nothing but `answer` until its reader hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"

    def live() -> None:
        connection = admitted(listener.accept()[0], address)
        listener.close()
        with contextlib.suppress(ConnectionError):
            while True:
                connection.receive(BatchRequests)
                if answer:
                    connection.send(answer)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    return address, thread


def test_server_of_a_lost_host_is_given_up(serve, read):
    address, thread = silent_server()
    log: list[str] = []
    source, hosts = FeedSource.of(hundred, {}, batch_size=8), ["algo-1", "algo-2"]
    one = read([address, *serve(1)], source, hosts=hosts, say=log.append)
    told = threading.Timer(0.5, one.serve_only, [["algo-2"]])  # the first batch may be one of the silent server
    told.start()
    found = list(one.epoch(0))
    told.join()
    assert one.facts().examples == 103
    one.close()
    thread.join(10)
    assert Counter(int(each) for delivery in found for each in delivery.ids) == Counter(range(103))
    (line,) = log
    assert address in line and "its host was lost" in line


def test_answer_may_follow_another_message_in_its_frame(read):
    request = BatchRequest(Shard(0, 1), 0, 0)
    answer = Described(source=FeedSource.of(hundred, {}, batch_size=8).id, request=request, facts=DatasetFacts(7))
    address, thread = silent_server([(Alive(), ()), (answer, ())])
    one = read([address], FeedSource.of(hundred, {}, batch_size=8))
    assert one.facts().examples == 7
    one.close()
    thread.join(10)


def test_readers_learn_of_lost_hosts_while_they_live():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hosts = Membership(ProcessChannel(theirs))

    class Reader:
        def __init__(self):
            self.received = queue.SimpleQueue()

        def serve_only(self, names):
            self.received.put(names)

    lives, gone = Reader(), Reader()
    for one in (lives, gone):
        hosts.subscribe(one.serve_only)
    left = gone.received
    del gone, one
    gc.collect()
    ours.send(b'{"type": "of a later version"}')
    ours.send(encode(rank.ServingHosts(("algo-2",)), 1000))
    assert lives.received.get(timeout=10) == ("algo-2",)
    assert left.empty()
    late = Reader()
    hosts.subscribe(late.serve_only)
    assert late.received.get(timeout=10) == ("algo-2",)
    ours.close()


def test_memory_of_dropped_batches_is_used_again(serve, read):
    one = read(serve(1), FeedSource.of(numbered, {"batches": 30}), ahead=2)
    places, kept = Counter(), []
    for delivery in one.epoch(0):
        places[delivery.batch["big"].__array_interface__["data"][0]] += 1
        if delivery.batch["at"][1] in (3, 4):
            kept.append(delivery.batch["big"])
        del delivery
        gc.collect()
    assert max(places.values()) > 5 and len(places) <= 8
    assert [int(one[0]) for one in kept] == [3, 4]


def test_forked_process_is_refused(serve, read):
    one = read(serve(1), FeedSource.of(numbered, {}))
    deliveries = one.epoch(0)
    next(deliveries)

    def refused() -> int:
        with pytest.raises(UsageError, match="forked"):
            next(deliveries)
        return 17

    assert exit_code_of_fork(refused) == 17
    assert len(list(deliveries)) == 9


def test_functions_unknown_to_other_hosts_are_refused():
    def inner(shard):
        return []

    with pytest.raises(UsageError, match="top level"):
        FeedSource.of(inner, {})
    with pytest.raises(UsageError, match="top level"):
        FeedSource.of(lambda shard: [], {})
    with pytest.raises(UsageError, match="JSON"):
        FeedSource.of(numbered, {"batches": np.ones(3)})
    with pytest.raises(UsageError, match="ahead"):
        FeedReader(["127.0.0.1:1"], KEY, FeedSource.of(numbered, {}), ahead=0)
