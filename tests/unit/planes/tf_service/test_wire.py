"""The wire between real servers and readers, in this process and in another one."""

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
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.transport import Transport
from tfhet.planes.tf_service.wire import Wire
from tfhet.secure import MAGIC, Purpose, Unauthenticated, as_client, perform_handshake

KEY = bytes(range(1, 33))
ENGINE = whole_engine()


@dataclass
class Served:
    """A dispatcher and a worker, whose host is called `name` and reached at 127.0.0.1."""

    wire: Wire
    dispatcher: str
    ports: tuple[int, ...]
    made: int = 0

    def read(self, data: tf.data.Dataset, compression: str | None = None) -> tf.data.Dataset:
        self.made += 1
        transport, name = Transport(compression), f"data-{self.made}"
        transport.publish(self.wire, self.dispatcher, data, name)
        return transport.read(self.wire, self.dispatcher, name, data.element_spec, "dynamic")


def serving(wire: Wire) -> Iterator[Served]:
    ports = free_ports(2)
    address = f"127.0.0.1:{ports[0]}"
    dispatcher = ENGINE.dispatcher(wire, ports[0])
    worker = ENGINE.worker(wire, ports[1], "127.0.0.1", address)
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


@pytest.fixture(scope="module")
def encrypted(folder: str) -> Iterator[Served]:
    yield from serving(Wire.join(KEY, "127.0.0.1", folder=folder, encrypted=True))


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


# Readers of several hosts in another process: on the servers' own host they get shared memory, elsewhere TCP.
OTHER = """
import sys
import tensorflow as tf
from test_wire import KEY, Served, check, elements
from tfhet.planes.tf_service.wire import Wire

name, plain, encrypted = sys.argv[1:]

def read(dispatcher, *how):
    served = Served(Wire.join(KEY, name, encrypted="encrypted" in how), dispatcher, (), made=abs(hash((name, how))))
    check(served.read(elements(), compression="AUTO" if "compressed" in how else None))
    if "kept" in how:
        kept = list(served.read(elements(100)))  # more than there are segments
        again = tf.data.Dataset.from_generator(lambda: kept, output_signature=elements(1).element_spec)
        check(served.read(elements()))
        check(again, 100)
    left = iter(served.read(elements()))
    next(left)
    shared = "tfhet-batch" in open("/proc/self/maps").read()
    print(*how, "shared" if shared else "sent", sep=",")

read(plain)
read(plain, "kept")
read(plain, "compressed")
read(encrypted, "encrypted")
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("127.0.0.1", ["shared", "kept,shared", "compressed,shared", "encrypted,shared"]),
        ("another-host", ["sent", "kept,sent", "compressed,sent", "encrypted,sent"]),
    ],
)
def test_readers_get_shared_memory_on_the_same_host_only(served, encrypted, name, found):
    env = {**os.environ, "PYTHONPATH": ":".join([os.path.dirname(__file__), *sys.path]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", OTHER, name, served.dispatcher, encrypted.dispatcher]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=240)
    assert done.stdout.split() == found


def test_servers_listen_on_loopback_only(served):
    listening = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {port for _, port in listening} >= set(served.ports)
    assert {ip for ip, _ in listening} == {"127.0.0.1"}


def test_control_connections_are_prepared_and_ended(served):
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
    """The other side's first byte before it ends the connection, by a reset if it has unread bytes."""
    with contextlib.suppress(ConnectionResetError):
        return one.recv(1)
    return b""


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(200)])
def test_no_byte_answers_a_wrong_hello(served, sent):
    for port in served.ports:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(sent)
            with contextlib.suppress(OSError):  # it may have ended the connection already
                one.shutdown(socket.SHUT_WR)
            assert answer(one) == b""


def test_wrong_proof_gets_only_a_nonce(served):
    for port in served.ports:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(MAGIC + bytes([Purpose.SERVICE_CONTROL, 9]) + bytes(32) + b"127.0.0.1")
            assert len(one.recv(40, socket.MSG_WAITALL)) == 40
            one.sendall(bytes(32))
            assert answer(one) == b""


def test_downgrade_of_encrypted_batches_is_refused(encrypted):
    for purpose in (Purpose.SERVICE_BATCHES, Purpose.SERVICE_SHARED_MEMORY, Purpose.FEED):
        one = socket.create_connection(("127.0.0.1", encrypted.ports[1]), timeout=30)
        with one, pytest.raises(Unauthenticated):
            perform_handshake(one, as_client(KEY, purpose, "127.0.0.1"))


def test_key_of_wrong_length_is_refused():
    with pytest.raises(UsageError):
        Wire.join(b"short", "127.0.0.1")
