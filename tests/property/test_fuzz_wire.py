"""Strangers at the ports of a dispatcher and a worker: none gets a byte of data, and readers do not notice.

What they send is drawn with a seed: beginnings of real conversations, changed, cut and lengthened, and rubbish. Some
know the key, as a member of another version would, and send rubbish after the proofs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import stranger
import tensorflow as tf
from event_loop import until
from own_wire import KEY, WIRE, _own_wire  # noqa: F401
from relay import TRICKS, between, exactly
from rubbish import FULL

from tfhet.cluster import free_ports
from tfhet.planes.tf_service import Fleet, Transport
from tfhet.secure import MAGIC, TAG_BYTES, Purpose, Records, as_client, perform_handshake
from tfhet.secure.handshake import Schedule

INPUTS = 50_000 if FULL else 2_000
HERE = "127.0.0.1"
ANSWER_BYTES = 40
MODES = list(Purpose)[:4]
BATCHES, ENCRYPTED, CONTROL, SHARED = MODES
REQUEST = bytes(4) + b"\x08\x07"  # GetElementRequest: task 7, which no worker knows


@dataclass
class Service:
    """A dispatcher and a worker, processes of their own."""

    fleet: Fleet
    ports: tuple[int, ...]
    lines: list[str]
    pids: dict[str, int]
    read: int = 0

    def serves(self, count: int = 200) -> bool:
        """Whether a reader gets all of a data set, from processes that are still the first ones."""
        self.read += 1
        dispatcher, name, data = f"{HERE}:{self.ports[0]}", f"read-{self.read}", tf.data.Dataset.range(count)
        Transport().publish(WIRE, dispatcher, data, name)
        found = sorted(int(i) for i in Transport().read(WIRE, dispatcher, name, data.element_spec, "dynamic"))
        return found == list(range(count)) and self.fleet.pids == self.pids and self.fleet.workers_registered == 1


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    lines: list[str] = []
    loop, ports = asyncio.new_event_loop(), free_ports(2)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(120)  # type: ignore[arg-type]

    async def start() -> None:
        await fleet.start_dispatcher(ports[0], 60)
        await fleet.start_workers(ports[1:], f"{HERE}:{ports[0]}", 60)
        async with asyncio.timeout(60):
            while fleet.workers_registered != 1:
                await asyncio.sleep(0.05)

    fleet = Fleet("algo-1", HERE, dict(os.environ), key=KEY, on_line=lines.append)
    try:
        run(start())
        yield Service(fleet, ports, lines, fleet.pids)
    finally:
        run(fleet.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def hello(mode: int, name: bytes = HERE.encode()) -> bytes:
    return MAGIC + bytes([mode, len(name)]) + bytes(32) + name


def received(one: socket.socket, most: int = 1 << 16) -> bytes:
    """All that the other side sends until it ends the connection, or has sent `most` bytes."""
    got = b""
    with contextlib.suppress(OSError):
        while len(got) < most and (more := one.recv(most - len(got))):
            got += more
    return got


def converse(port: int, opening: bytes, key: bytes | None, later: bytes, sealed: bool = False) -> bytes:
    """Sends an opening, the proof of a key or what is in its place, and something more, as a record if it is `sealed`;
    returns what came after the first answer of the server, and, for a real key, after its proof."""
    with socket.create_connection((HERE, port), timeout=60) as one, contextlib.suppress(OSError):
        one.sendall(opening)
        if key is not None and len(answer := received(one, ANSWER_BYTES)) == ANSWER_BYTES:
            schedule = Schedule(key, opening + answer)
            one.sendall(schedule.client_proof)
            if (proof := received(one, 32)) != schedule.server_proof:
                return proof + received(one)
            one.sendall(Records(schedule.client_tags, schedule.server_tags).sealed(later) if sealed else later)
            one.shutdown(socket.SHUT_WR)
            return received(one)
        one.sendall(later)
        one.shutdown(socket.SHUT_WR)
        return received(one)[ANSWER_BYTES:]
    return b""


def test_python_and_the_wire_speak_one_protocol(service):
    """The conversations below would be no test if they were wrong in form."""
    with socket.create_connection((HERE, service.ports[1]), timeout=60) as end:
        records = perform_handshake(end, as_client(KEY, Purpose.SERVICE_BATCHES, HERE))
        for _ in range(2):
            end.sendall(records.sealed(REQUEST))
            size, data = records.lengths(exactly(end, Records.HEAD), 1 << 20)
            answer = bytes(records.opened(exactly(end, size + TAG_BYTES)))
            assert b"task 7" in answer.lower() and data == 0


@pytest.mark.parametrize("trick", TRICKS)
def test_requests_that_a_relay_forges_are_not_answered(service, trick):
    with between(service.ports[1], trick, "up") as way, socket.create_connection((HERE, way.port), timeout=60) as end:
        records = perform_handshake(end, as_client(KEY, Purpose.SERVICE_BATCHES, HERE))
        end.sendall(records.sealed(REQUEST) + records.sealed(REQUEST + b"\x08\x08"))
        answers = []
        with contextlib.suppress(OSError):
            while True:
                size, _ = records.lengths(exactly(end, Records.HEAD), 1 << 20)
                answers.append(bytes(records.opened(exactly(end, size + TAG_BYTES))))
    assert len(answers) == (trick == "repeats") and b"ask 8" not in b"".join(answers)
    if trick != "cuts":
        asyncio.run(until(lambda: any("interferes" in line for line in service.lines)))
    service.lines.clear()


@pytest.mark.parametrize("mode", MODES)
def test_a_wrong_key_opens_nothing(service, mode):
    for port in service.ports:
        assert converse(port, hello(mode), bytes(32), bytes(64)) == b""


def test_the_key_does_not_open_a_host_that_was_dialled_by_another_name(service):
    for port in service.ports:
        assert converse(port, hello(BATCHES, b"another-host"), KEY, bytes(64)) == b""


def test_shared_memory_is_not_to_be_had_over_the_network(service):
    assert converse(service.ports[1], hello(SHARED), KEY, bytes(64)) == b""


def test_rubbish_is_survived(service):
    seeds = [
        (hello(mode), key, later)
        for mode in MODES
        for key in (None, bytes(32), KEY)
        for later in (bytes(40), REQUEST, (9).to_bytes(4, "little") * 4, b"\x16\x03\x01\x02\x00" + bytes(80))
    ]

    def one(number: int) -> bytes:
        draw = random.Random(number)
        opening, key, later = draw.choice(seeds)
        if draw.random() < 0.5:
            at = draw.randrange(len(opening))
            opening = draw.choice(
                [opening[:at], opening[:at] + draw.randbytes(1) + opening[at + 1 :], draw.randbytes(at)]
            )
        later = (
            later + draw.randbytes(draw.choice([0, 0, 3, 200])) if draw.random() < 0.5 else later[: draw.randrange(9)]
        )
        if len(opening) < 10 or len(opening) < 42 + opening[9]:
            key = None  # the server waits for more of it, and would not answer
        got = converse(draw.choice(service.ports), opening, key, later, draw.random() < 0.5)
        return b"" if key == KEY else got

    with ThreadPoolExecutor(16) as pool:
        assert not any(pool.map(one, range(INPUTS), chunksize=50))
    assert service.serves()


def test_connections_that_say_nothing_keep_no_reader_out(service):
    with contextlib.ExitStack() as stack:
        for number in range(600):
            one = stack.enter_context(socket.create_connection((HERE, service.ports[number % 2]), timeout=60))
            one.sendall(hello(CONTROL)[: number % 42])
        assert service.serves()


def relay(target: int, seen: list[bytes], spoils: bool = False) -> tuple[int, socket.socket]:
    """Passes connections to 127.0.0.1:`target` on, and notes what clients say. spoils: puts a byte into what the server
    says after the proofs. Returns its port and its listening socket."""
    listening = socket.create_server((HERE, 0))

    def carry(there: socket.socket, back: socket.socket, is_client: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := there.recv(1 << 16):
                if is_client:
                    seen.append(data)
                elif spoils and passed >= ANSWER_BYTES + 32:
                    data = b"\0" + data
                passed += len(data)
                back.sendall(data)
        with contextlib.suppress(OSError):
            back.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listening.accept()
                other = socket.create_connection((HERE, target))
                for way in ((one, other, True), (other, one, False)):
                    threading.Thread(target=carry, args=way, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listening.getsockname()[1], listening


REGISTERS = """
import sys
import tensorflow as tf
from tfhet.planes.tf_service import Transport, Wire
wire = Wire.join(bytes.fromhex(sys.argv[2]), "127.0.0.1")
Transport().publish(wire, sys.argv[1], tf.data.Dataset.range(3), "a-word-that-is-secret")
"""


def registers(dispatcher: str, timeout: float) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    argv = [sys.executable, "-c", REGISTERS, dispatcher, KEY.hex()]
    return subprocess.run(argv, env=env, timeout=timeout, capture_output=True)


def test_a_relay_reads_nothing_and_what_it_has_seen_opens_nothing(service):
    seen: list[bytes] = []
    port, listening = relay(service.ports[0], seen)
    with listening:
        assert registers(f"{HERE}:{port}", 240).returncode == 0
    said = b"".join(seen)
    assert said.startswith(MAGIC) and len(said) > 500
    assert b"secret" not in said and b"RegisterDataset" not in said and b"PRI * HTTP/2" not in said
    with socket.create_connection((HERE, service.ports[0]), timeout=60) as one:
        with contextlib.suppress(OSError):
            one.sendall(said)  # replayed
        assert len(received(one)) <= ANSWER_BYTES
    assert service.serves()


def test_a_relay_that_speaks_itself_ends_its_connection_and_nothing_else(service):
    port, listening = relay(service.ports[0], [], spoils=True)
    with listening, pytest.raises(subprocess.TimeoutExpired):  # TensorFlow asks again for an hour
        registers(f"{HERE}:{port}", 12)
    assert service.serves()


def test_tensorflow_without_the_key_registers_no_worker_and_no_data(service):
    with ThreadPoolExecutor() as threads:
        said = threads.map(stranger.visit, (f"{HERE}:{port}" for port in service.ports))
        assert list(said) == [stranger.ASKS] * len(service.ports)
    assert service.serves()
