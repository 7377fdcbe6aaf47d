from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from fake_clock import FakeClock
from own_wire import WIRE

from tfhet.clock import SYSTEM
from tfhet.cluster import free_ports
from tfhet.errors import DataError
from tfhet.messages import ProcessChannel, rank
from tfhet.pipeline import Pipeline
from tfhet.planes import Delivery
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.reader import WORKERS_S, ServiceReader
from tfhet.planes.tf_service.transport import Transport
from tfhet.schema import encode
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.loop import Loop

ENGINE = whole_engine()


def pipeline(stages: str = "rescale()", examples: int = 10, splits: int = 2) -> Pipeline:
    return Pipeline(SyntheticSource(examples, splits, (4, 4, 1)), stages, batch_size=4)


def test_corrupt_record_is_named(corrupted, served):
    source, file, offset = corrupted
    reader = ServiceReader(Pipeline(source, batch_size=4), served.job())
    reader.agree()
    reader.offer(0)
    with pytest.raises(DataError) as found:
        list(reader.epoch(0))
    assert (found.value.path, found.value.offset) == (file, offset)


class Launcher:
    """The launcher's end of a channel, and a reader at the other end."""

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
def test_reader_waits_for_remaining_workers(launcher, hosts, left):
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


def test_wait_for_workers_has_a_deadline(launcher):
    clock = FakeClock()
    launcher.send("a", is_complete=False)
    reader = launcher.reader(clock)
    assert reader.has_servers(lambda: True)
    assert clock.monotonic() == 0.0
    assert reader.has_servers(lambda: False)
    assert WORKERS_S <= clock.monotonic() < WORKERS_S + 1


def test_reader_without_a_launcher_has_servers():
    job = JobContext("job", "heterogeneous", plane="tf_service", order={"dispatcher": "127.0.0.1:1", "workers": 1})
    assert ServiceReader(pipeline(), job).has_servers(lambda: False)


# A renewed dispatcher


DISPATCHERS = """
import pathlib, sys
from own_wire import WIRE
from tfhet.planes.tf_service import journal
from tfhet.planes.tf_service.engine import whole_engine

engine, dispatcher, port, folder = whole_engine(), None, int(sys.argv[1]), pathlib.Path(sys.argv[2])
generation = 0
for line in sys.stdin:
    if line == "renew\\n":
        if dispatcher is not None:
            dispatcher.stop()
        dispatcher, generation = None, generation + 1  # frees its port
        before = folder / str(generation - 1) if generation > 1 else None
        journal.begin(folder / str(generation), generation, before)
        dispatcher = engine.dispatcher(WIRE, port, str(folder / str(generation)))
    print(dispatcher.num_workers(), flush=True)
"""
"""Dispatchers, each in the place of the one before, as a fleet renews them. They have a process of their own: after an
error of a worker, the wire answers the reader's process with this error, whatever it calls."""


class Renewed:
    """A dispatcher in another process and two workers in this one; `renew` puts another dispatcher in its place."""

    def __init__(self, folder: Path) -> None:
        self.ports = free_ports(3)
        command = [sys.executable, "-c", DISPATCHERS, str(self.ports[0]), str(folder)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._ask("renew")
        self.address = f"127.0.0.1:{self.ports[0]}"
        self.workers = [ENGINE.worker(WIRE, port, "127.0.0.1", self.address) for port in self.ports[1:]]

    def _ask(self, command: str) -> int:
        """Returns the number of workers that the dispatcher knows."""
        assert self.process.stdin and self.process.stdout
        print(command, file=self.process.stdin, flush=True)
        lines = iter(self.process.stdout.readline, "")
        return next(int(line) for line in lines if line.strip().isdigit())  # others are about the engine's start

    def renew(self) -> None:
        """Returns when the workers have registered again and dropped their work for the old dispatcher."""
        self._ask("renew")
        deadline = SYSTEM.monotonic() + 30
        while self._ask("count") < 2 or any(worker.num_tasks() for worker in self.workers):
            assert SYSTEM.monotonic() < deadline
            SYSTEM.sleep(0.02)

    def reader(self, *declared: Any) -> ServiceReader:
        order = {"dispatcher": self.address, "workers": 2}
        return ServiceReader(pipeline(*declared), JobContext("job", "heterogeneous", plane="tf_service", order=order))

    def stop(self) -> None:
        gc.collect()
        for worker in self.workers:
            worker.stop()
        self.process.communicate(timeout=60)


@pytest.fixture
def renewed(tmp_path: Path) -> Iterator[Renewed]:
    service = Renewed(tmp_path)
    yield service
    service.stop()


def test_renewed_dispatchers_lose_and_repeat_nothing(renewed):
    reader, cut_off, given = renewed.reader("rescale()", 400, 40), [], []
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
    assert cut_off == [True, True, False], reader.failure
    result = loop.epoch(1)
    assert (result["once"], result["missing"], result["repeated"], result["rereads"]) == (400, 0, 0, 0)


def test_dispatcher_without_the_mark_is_not_read(renewed):
    reader = renewed.reader()
    reader.agree()
    renewed.renew()
    reader.offer(0)
    assert list(reader.epoch(0)) == []
    assert reader.was_cut_off
    reader.agree()
    reader.offer(0, None, 1)
    assert sum(len(delivery.ids) for delivery in reader.epoch(0, None, 1)) == 10
    assert not reader.was_cut_off


@pytest.mark.parametrize("is_renewed_before", [False, True])
def test_prefetch_without_the_mark_is_not_read(renewed, is_renewed_before: bool):
    reader = renewed.reader()
    reader.agree()
    if is_renewed_before:
        renewed.renew()
    reader.ahead(1, offers=True)
    assert reader.has_offered_ahead(1)
    if not is_renewed_before:
        renewed.renew()
    assert list(reader.epoch(1)) == [] and reader.was_cut_off
    reader.agree()
    reader.offer(1)
    assert sum(len(delivery.ids) for delivery in reader.epoch(1)) == 10
    assert not reader.was_cut_off


def test_nothing_is_prefetched_without_the_mark(renewed, monkeypatch):
    """It would get the number that a reader of the current epoch has, whose next heartbeat may come only later: that
    reader would get what was opened, too."""
    opened: list[str] = []
    read = Transport.read
    monkeypatch.setattr(Transport, "read", lambda self, *how: opened.append(how[1]) or read(self, *how))
    reader = renewed.reader()
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


def test_agreement_drops_the_prefetched_epoch(renewed):
    reader = renewed.reader()
    reader.agree()
    reader.ahead(1, offers=True)
    reader.agree()
    assert not reader.has_offered_ahead(1) and not _threads()
    reader.offer(1)
    assert sum(len(delivery.ids) for delivery in reader.epoch(1)) == 10


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
def test_service_errors_cut_off_and_bad_data_do_not(renewed, error, is_cut_off):
    reader = renewed.reader()
    reader.agree()
    assert reader.cut_off_by(error) == is_cut_off
