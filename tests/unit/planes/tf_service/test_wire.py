"""The wire between real servers and readers, in this process and another one."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest
import tensorflow as tf

from tfhet.cluster import free_ports
from tfhet.errors import UsageError
from tfhet.planes import private
from tfhet.planes.tf_service.wire import Wire

KEY = bytes(range(1, 33))
SHARDING = tf.data.experimental.service.ShardingPolicy.DYNAMIC


@dataclass
class Served:
    """A dispatcher and a worker, whose host is called `name` and reached at 127.0.0.1."""

    wire: Wire
    dispatcher: str
    ports: tuple[int, ...]
    made: int = 0

    def read(self, data: tf.data.Dataset, wire: Wire | None = None, compression: str | None = None) -> tf.data.Dataset:
        wire = wire or self.wire
        self.made += 1
        name, target = f"data-{self.made}", f"{wire.protocol}://{self.dispatcher}"
        tf.data.experimental.service.register_dataset(target, data, compression=compression, dataset_id=name)
        further = {"task_refresh_interval_hint_ms": 100, "data_transfer_protocol": wire.protocol}
        return private.read_registered(SHARDING, target, name, data.element_spec, job_name=name, **further)


def serving(wire: Wire) -> Iterator[Served]:
    library, configs = private.servers()
    ports = free_ports(2)
    address = f"127.0.0.1:{ports[0]}"
    common = {"protocol": wire.protocol}
    dispatcher = library.TF_DATA_NewDispatchServer(
        configs.DispatcherConfig(
            port=ports[0], job_gc_check_interval_ms=10_000, worker_timeout_ms=30_000, **common
        ).SerializeToString()
    )
    dispatcher.start()
    worker = library.TF_DATA_NewWorkerServer(
        configs.WorkerConfig(
            dispatcher_address=address,
            worker_address=f"127.0.0.1:{ports[1]}",
            data_transfer_address=f"127.0.0.1:{ports[1]}",
            data_transfer_protocol=wire.protocol,
            port=ports[1],
            heartbeat_interval_ms=100,
            dispatcher_timeout_ms=60_000,
            **common,
        ).SerializeToString()
    )
    worker.start()
    yield Served(wire, address, ports)
    gc.collect()
    worker.stop()
    dispatcher.stop()


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        yield name


@pytest.fixture(scope="module")
def served(folder: str) -> Iterator[Served]:
    yield from serving(Wire.join(KEY, "127.0.0.1", folder=folder))


def elements(count: int = 60) -> tf.data.Dataset:
    """A number, a batch of it, its text, and nothing."""
    return tf.data.Dataset.range(count).map(
        lambda i: (i, tf.fill((16, 32, 32, 3), tf.cast(i, tf.uint8)), tf.strings.as_string(i), tf.zeros((0, 4)))
    )


def check(data: tf.data.Dataset, count: int = 60) -> None:
    seen = []
    for number, batch, text, nothing in data.as_numpy_iterator():
        seen.append(int(number))
        assert batch.shape == (16, 32, 32, 3)
        assert (batch == number).all()
        assert text == str(number).encode()
        assert nothing.shape == (0, 4)
    assert sorted(seen) == list(range(count))


# A reader in another process, of the host NAME: on the servers' own it gets batches in shared memory, else over TCP.
OTHER = """
import sys
import tensorflow as tf
from test_wire import KEY, Served, check, elements
from tfhet.planes.tf_service.wire import Wire

name, how, dispatcher = sys.argv[1:]
wire = Wire.join(KEY, name, encrypted=how == "encrypted")
served = Served(wire, dispatcher, (), made=abs(hash((name, how))))
check(served.read(elements(), compression="AUTO" if how == "compressed" else None))
if how == "kept":
    kept = list(served.read(elements(100)))  # more than there are segments
    again = tf.data.Dataset.from_generator(lambda: kept, output_signature=elements(1).element_spec)
    check(served.read(elements()))
    check(again, 100)
left = iter(served.read(elements()))
next(left)
shared = "tfhet-batch" in open("/proc/self/maps").read()
print("whole", "shared" if shared else "sent")
"""


def other(name: str, how: str, served: Served) -> str:
    """The output of the other process."""
    env = {**os.environ, "PYTHONPATH": ":".join([os.path.dirname(__file__), *sys.path]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", OTHER, name, how, served.dispatcher]
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout


@pytest.mark.parametrize("how", ["plain", "kept", "compressed"])
def test_a_process_of_the_same_host_gets_batches_in_shared_memory(served, how):
    assert other("127.0.0.1", how, served) == "whole shared\n"


@pytest.mark.parametrize("how", ["plain", "compressed"])
def test_another_host_gets_its_batches_over_tcp(served, how):
    assert other("another-host", how, served) == "whole sent\n"


def test_another_host_gets_encrypted_batches(folder):
    for served in serving(Wire.join(KEY, "127.0.0.1", folder=folder, encrypted=True)):
        assert other("another-host", "encrypted", served) == "whole sent\n"


def test_servers_listen_on_loopback_only(served):
    listening = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {port for _, port in listening} >= set(served.ports)
    assert {ip for ip, _ in listening} == {"127.0.0.1"}


def test_a_control_connection_is_ready_before_it_is_asked_for_and_ends_when_nothing_takes_it(served):
    def ask() -> None:
        with pytest.raises((tf.errors.OpError, RuntimeError), match="(?i)not found"):
            private.registered_metadata("nothing", served.dispatcher, served.wire.protocol)

    def dialled() -> set[int]:
        """The near ports of this process's connections to the dispatcher."""
        every = psutil.Process().net_connections("tcp")
        return {
            c.laddr.port for c in every if c.raddr and c.raddr.port == served.ports[0] and c.status == "ESTABLISHED"
        }

    def until(happened: Callable[[], object], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end
            time.sleep(0.02)

    before = dialled()
    ask()
    until(lambda: dialled() - before, 4)
    ready = dialled() - before
    ask()
    until(lambda: not ready & dialled(), 4)  # it would have stayed for 5 s
    until(lambda: dialled() <= before, 30)


def answer(one: socket.socket) -> bytes:
    """The other side's first byte before it ends the connection, which may be a reset where it left bytes unread."""
    with contextlib.suppress(ConnectionResetError):
        return one.recv(1)
    return b""


@pytest.mark.parametrize("says", [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(200)])
def test_a_stranger_gets_no_byte_for_what_is_no_hello(served, says):
    for port in served.ports:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(says)
            with contextlib.suppress(OSError):  # it may have ended the connection already
                one.shutdown(socket.SHUT_WR)
            assert answer(one) == b""


def test_who_has_no_key_gets_a_nonce_and_nothing_else(served):
    for port in served.ports:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(b"tfhet-w1" + bytes([2, 9]) + bytes(32) + b"127.0.0.1")
            nonce = one.recv(32)
            assert len(nonce) == 32
            one.sendall(bytes(32))
            assert answer(one) == b""


def test_a_key_of_another_length_is_refused():
    with pytest.raises(UsageError, match="cannot join"):
        Wire.join(b"short", "127.0.0.1")
