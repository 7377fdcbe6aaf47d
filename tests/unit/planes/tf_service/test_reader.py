from __future__ import annotations

import contextlib
import gc
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fake_clock import FakeClock
from own_wire import WIRE

from tfhet.clock import SYSTEM
from tfhet.cluster import free_ports
from tfhet.errors import DataError
from tfhet.messages import ProcessChannel, rank
from tfhet.placement import Pipeline, Rest
from tfhet.planes import Delivery
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.reader import WORKERS_S, ServiceReader
from tfhet.planes.tf_service.transport import Transport
from tfhet.schema import encode
from tfhet.source import IdSet, SyntheticSource
from tfhet.strategies import JobContext
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.loop import Loop

ENGINE = whole_engine()


@contextlib.contextmanager
def service() -> Iterator[str]:
    ports = free_ports(2)
    dispatcher = ENGINE.dispatcher(WIRE, ports[0])
    worker = ENGINE.worker(WIRE, ports[1], "127.0.0.1", f"127.0.0.1:{ports[0]}")
    try:
        yield f"127.0.0.1:{ports[0]}"
    finally:
        worker.stop()
        dispatcher.stop()


def pipeline(stages: str = "rescale()", examples: int = 10, splits: int = 2) -> Pipeline:
    return Pipeline(SyntheticSource(examples, splits, (4, 4, 1)), stages, batch_size=4)


def test_a_corrupt_record_ends_in_an_error_that_names_file_and_byte(corrupted):
    source, file, offset = corrupted
    with service() as dispatcher:
        job = JobContext("job", "heterogeneous", plane="tf_service", order={"dispatcher": dispatcher, "workers": 1})
        with pytest.raises(DataError, match=rf"bad record in {file} at byte {offset}: .*checksum") as found:
            reader = ServiceReader(Pipeline(source, batch_size=4), job)
            reader.agree()
            reader.offer(0)
            list(reader.epoch(0))
    assert (found.value.path, found.value.offset) == (file, offset)


class Launcher:
    """The launcher's end of a channel, and a reader at the other, of a dispatcher that nothing listens for."""

    def __init__(self) -> None:
        self.end, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = ProcessChannel(other)

    def send(self, *hosts: str, is_complete: bool = True) -> None:
        self.end.send(encode(rank.ServingHosts(hosts, is_complete), 1000))

    def reader(self, clock: FakeClock) -> ServiceReader:
        order = {"dispatcher": "127.0.0.1:1", "workers": 1}
        job = JobContext("job", "heterogeneous", plane="tf_service", order=order)
        return ServiceReader(pipeline(), job, clock=clock, channel=self.channel)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    yield made
    made.end.close()
    made.channel.close()


@pytest.mark.parametrize(("hosts", "left"), [(("a",), True), ((), False)])
def test_a_reader_waits_until_all_workers_that_are_left_are_known(launcher, hosts, left):
    class Clock(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.monotonic() > 0.24:
                launcher.send(*hosts)

    clock = Clock()
    launcher.send("a", "b")
    launcher.send(*hosts, is_complete=False)
    assert launcher.reader(clock).has_servers(lambda: False) is left
    assert clock.monotonic() == pytest.approx(5 * 0.05)


def test_workers_that_never_come_are_waited_for_until_the_deadline_or_a_stop(launcher):
    clock = FakeClock()
    launcher.send("a", is_complete=False)
    reader = launcher.reader(clock)
    assert reader.has_servers(lambda: True)
    assert clock.monotonic() == 0.0
    assert reader.has_servers(lambda: False)
    assert WORKERS_S <= clock.monotonic() < WORKERS_S + 1


@pytest.mark.parametrize("said", [b"rubbish", b'{"type": "odd"}', b'{"type": "serving_hosts", "hosts": 3}'])
def test_what_a_reader_does_not_understand_changes_nothing(launcher, said):
    reader = launcher.reader(FakeClock())
    launcher.end.send(said)
    assert reader.has_servers(lambda: False)
    launcher.send()
    launcher.end.send(said)
    assert not reader.has_servers(lambda: False)


def test_without_a_launcher_the_order_is_all_that_a_reader_knows():
    job = JobContext("job", "heterogeneous", plane="tf_service", order={"dispatcher": "127.0.0.1:1", "workers": 1})
    assert ServiceReader(pipeline(), job).has_servers(lambda: False)


# A dispatcher that begins anew


class Renewed:
    """A dispatcher and two workers in this process; `renew` puts a dispatcher without memory in its place."""

    def __init__(self) -> None:
        self.ports = free_ports(3)
        self.dispatcher = ENGINE.dispatcher(WIRE, self.ports[0])
        self.address = f"127.0.0.1:{self.ports[0]}"
        self.workers = [ENGINE.worker(WIRE, port, "127.0.0.1", self.address) for port in self.ports[1:]]

    def renew(self) -> None:
        """Returns when the workers have come back, and dropped what they did for the old one."""
        self.dispatcher.stop()
        self.dispatcher = None  # its port is free when nobody holds it any more
        self.dispatcher = ENGINE.dispatcher(WIRE, self.ports[0])
        deadline = SYSTEM.monotonic() + 30
        while self.dispatcher.num_workers() < 2 or any(worker.num_tasks() for worker in self.workers):
            assert SYSTEM.monotonic() < deadline, "the workers did not come back"
            SYSTEM.sleep(0.02)

    def job(self, rank: int = 0, size: int = 1) -> JobContext:
        return JobContext(
            "job",
            "heterogeneous",
            rank,
            size,
            rank,
            size,
            plane="tf_service",
            order={"dispatcher": self.address, "workers": 2},
        )

    def stop(self) -> None:
        gc.collect()
        for worker in self.workers:
            worker.stop()
        self.dispatcher.stop()


@pytest.fixture
def renewed() -> Iterator[Renewed]:
    service = Renewed()
    yield service
    service.stop()


def test_a_reader_is_cut_off_by_a_fresh_dispatcher_and_what_is_left_comes_exactly_once(renewed):
    reader, cut_off, given = ServiceReader(pipeline("rescale()", 400, 40), renewed.job()), [], []
    whole = reader.epoch

    def epoch(*part: Any) -> Iterator[Delivery]:
        given.append(0)
        for count, delivery in enumerate(whole(*part)):
            if count == 5 and len(given) < 3:
                renewed.renew()
            given[-1] += len(delivery.ids)
            yield delivery
        cut_off.append(reader.was_cut_off)

    reader.epoch = epoch
    loop = Loop(reader, EmulatedAccelerator(0.0, SoloCollective()), SoloCollective())
    loop.agree()
    result = loop.epoch(0)
    assert (result["once"], result["missing"], result["repeated"]) == (400, 0, 0)
    assert sum(given) == 400 and result["rereads"] == len(given) - 1
    # A worker that was asking the dispatcher for a split goes on asking, and takes one from the fresh one for work that
    # it has given up (TF 2.15.1 and 2.21): at most one each, which come in a last part.
    assert cut_off in ([True, True, False], [True, True, False, False]), reader.failure
    assert sum(given[3:]) <= 2 * 10
    result = loop.epoch(1)
    assert (result["once"], result["missing"], result["repeated"], result["rereads"]) == (400, 0, 0, 0)


def test_a_dispatcher_without_the_mark_is_not_read_from(renewed):
    reader = ServiceReader(pipeline(), renewed.job())
    reader.agree()
    renewed.renew()
    reader.offer(0)
    assert list(reader.epoch(0)) == []
    assert reader.was_cut_off
    reader.agree()
    reader.offer(0, None, 1)
    assert sum(len(delivery.ids) for delivery in reader.epoch(0, None, 1)) == 10
    assert not reader.was_cut_off


@pytest.mark.parametrize("is_offered_anew", [False, True])
def test_what_was_made_ready_ahead_at_a_dispatcher_without_the_mark_is_not_read(renewed, is_offered_anew: bool):
    reader = ServiceReader(pipeline(), renewed.job())
    reader.agree()
    if is_offered_anew:
        renewed.renew()
    reader.ahead(1, offers=True)
    assert reader.has_offered_ahead(1)
    if not is_offered_anew:
        renewed.renew()
    assert list(reader.epoch(1)) == [] and reader.was_cut_off
    reader.agree()
    reader.offer(1)
    assert sum(len(delivery.ids) for delivery in reader.epoch(1)) == 10
    assert not reader.was_cut_off


def test_nothing_is_opened_ahead_at_a_dispatcher_without_the_mark(renewed, monkeypatch):
    """It would get the number that a reader of the current epoch has, whose next heartbeat may come only later: that
    reader would get what was opened, too."""
    opened: list[str] = []
    read = Transport.read
    monkeypatch.setattr(Transport, "read", lambda self, *how: opened.append(how[1]) or read(self, *how))
    reader = ServiceReader(pipeline(), renewed.job())
    reader.agree()
    renewed.renew()
    reader.ahead(1, offers=True)
    assert reader.has_offered_ahead(1)
    reader.close()
    assert opened == []
    reader.agree()
    reader.ahead(1, offers=True)
    assert reader.has_offered_ahead(1) and len(opened) == 1
    reader.close()


def test_what_is_made_ready_ahead_is_given_up_when_the_ranks_agree_anew(renewed):
    reader = ServiceReader(pipeline(), renewed.job())
    reader.agree()
    reader.ahead(1, offers=True)
    reader.agree()
    assert not reader.has_offered_ahead(1) and not _threads()
    reader.offer(1)
    assert sum(len(delivery.ids) for delivery in reader.epoch(1)) == 10


def test_a_rank_that_waits_for_an_epoch_to_be_offered_ends_when_it_is_closed(renewed):
    reader = ServiceReader(pipeline(), renewed.job())
    reader.agree()
    reader.ahead(1, offers=False)
    assert _threads()
    reader.close()
    assert not _threads()


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tfhet-ahead"]


@pytest.mark.parametrize(
    ("error", "is_cut_off"),
    [
        (tf.errors.NotFoundError(None, None, "Failed to get split: Iteration id 2000 not found"), True),
        (tf.errors.UnavailableError(None, None, "Connection reset by peer"), True),
        (tf.errors.NotFoundError(None, None, "part-1.tfrecord; No such file or directory"), False),
        (tf.errors.DataLossError(None, None, "corrupted record at 12"), False),
    ],
)
def test_a_worker_with_work_of_an_earlier_dispatcher_cuts_a_reader_off_and_bad_data_do_not(renewed, error, is_cut_off):
    reader = ServiceReader(pipeline(), renewed.job())
    reader.agree()
    assert reader.cut_off_by(error) == is_cut_off


def test_a_reader_that_goes_local_needs_no_dispatcher(renewed):
    reader = ServiceReader(pipeline(), renewed.job(1, 2))
    assert reader.is_served
    reader.go_local()
    assert not reader.is_served
    reader.agree()
    reader.offer(0)
    rest = Rest(np.ones(2, bool), IdSet.of(range(2**32, 2**32 + 2)))
    # The second of two ranks: of the splits 0 and 1 in the order of the epoch it has the second.
    found = [int(i) for rank in (0, 1) for d in local(renewed, rank).epoch(0, rest) for i in d.ids]
    assert sorted(found) == [*range(5), *(2**32 + position for position in (2, 3, 4))]


def local(service: Renewed, rank: int) -> ServiceReader:
    reader = ServiceReader(pipeline(), service.job(rank, 2))
    reader.go_local()
    return reader
