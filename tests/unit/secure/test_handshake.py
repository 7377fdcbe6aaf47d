"""The handshake and the records of all connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tfhet.errors import TfhetError
from tfhet.extras import MissingPackage
from tfhet.schema import MessageError
from tfhet.secure import (
    Forged,
    Purpose,
    Records,
    Unauthenticated,
    as_client,
    as_server,
    perform_handshake,
    perform_handshake_async,
)
from tfhet.secure.handshake import MAGIC, Steps
from tfhet.secure.records import encrypted

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
NAME = "algo-2:6001"


def met(client: Steps, server: Steps, relay=lambda sender, number, data: data) -> list:
    """Both sides' records or errors. relay: changes the `number`-th bytes that the client (0) or the server (1) sends;
    None ends the connection."""
    sides, wishes, results = [client, server], [next(client), next(server)], [None, None]
    waiting, numbers = [b"", b""], [itertools.count(), itertools.count()]
    ended = False
    while None in results:
        moved = False
        for at, side in enumerate(sides):
            wish = wishes[at]
            if results[at] is not None:
                continue
            try:
                if isinstance(wish, bytes):
                    data = relay(at, next(numbers[at]), wish)
                    ended = ended or data is None
                    waiting[1 - at] += data or b""
                    wishes[at] = next(side)
                elif len(waiting[at]) >= wish:
                    received, waiting[at] = waiting[at][:wish], waiting[at][wish:]
                    wishes[at] = side.send(received)
                elif ended or results[1 - at] is not None:
                    wishes[at] = side.throw(ConnectionError("closed"))
                else:
                    continue
            except StopIteration as done:
                results[at] = done.value
            except (TfhetError, ConnectionError) as error:
                results[at] = error
            moved = True
        ended = ended or not moved
    return results


def sides(client=(KEY, Purpose.FEED, NAME), server=(KEY, {Purpose.FEED, Purpose.LINK}, NAME)):
    return as_client(*client), as_server(*server)


def encrypted_sides():
    return sides((KEY, Purpose.ENCRYPTED_FEED, NAME), (KEY, {Purpose.ENCRYPTED_FEED}, NAME))


@pytest.mark.parametrize("both", [sides, encrypted_sides])
def test_two_with_the_key_exchange_records(both):
    client, server = met(*both())
    for sender, receiver in ((client, server), (server, client)) * 2:
        for message, data in ((b"one", 0), (b"", 7), (b"x" * 1000, 1 << 40)):
            record = sender.sealed(message, data)
            assert receiver.lengths(record[: Records.HEAD], 1000) == (len(message), data)
            assert receiver.opened(record[Records.HEAD :]) == message


def test_proofs_and_tags_follow_rfc_5869(monkeypatch):
    monkeypatch.setattr("secrets.token_bytes", lambda size: bytes([7]) * size)
    said: list[bytes] = []
    client, _ = met(*sides(), relay=lambda sender, number, data: said.append(data) or data)
    opening, answer, proof, other_proof = said

    def expanded(label: bytes) -> bytes:
        return HKDF(hashes.SHA256(), 32, salt=opening + answer, info=label).derive(KEY)

    assert opening == MAGIC + bytes((Purpose.FEED, len(NAME))) + bytes([7]) * 32 + NAME.encode()
    assert (proof, other_proof) == (expanded(b"client proof"), expanded(b"server proof"))
    record = client.sealed(b"text", 3)
    lengths = b"\0" * 7 + b"\x04" + b"\0" * 7 + b"\x03"
    tags = []
    for number, data in enumerate((lengths, b"text"), 1):
        mac = hmac.HMAC(expanded(b"client tags"), hashes.SHA256())
        mac.update(number.to_bytes(8, "big") + data)
        tags.append(mac.finalize()[:16])
    assert record == lengths + tags[0] + b"text" + tags[1]


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ((OTHER, Purpose.FEED, NAME), "wrong secret"),
        ((KEY, Purpose.FEED, "algo-3:6001"), "algo-3"),
        ((KEY, Purpose.ENCRYPTED_FEED, NAME), "ENCRYPTED_FEED"),
        ((KEY, 200, NAME), "purpose 200"),
    ],
    ids=["key", "name", "purpose", "unknown purpose"],
)
def test_client_that_does_not_fit_gets_no_proof(client, reason):
    said = []
    results = met(*sides(client=client), relay=lambda sender, number, data: said.append(sender) or data)
    assert all(isinstance(result, Unauthenticated) for result in results)
    assert reason in str(results[1]) and said == [0, 1, 0]


@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("number", [0, 1])
def test_no_changed_bit_passes(sender, number):
    lengths = {(0, 0): 42 + len(NAME), (0, 1): 32, (1, 0): 40, (1, 1): 32}
    for at in range(lengths[sender, number]):

        def relay(who, which, data, at=at):
            if (who, which) != (sender, number):
                return data
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

        client, server = met(*sides(), relay=relay)
        assert isinstance(client, (Unauthenticated, MessageError, ConnectionError))
        assert isinstance(server, Exception) or (sender, number) == (1, 1)


@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("number", [0, 1])
def test_connection_that_ends_in_the_handshake_gives_no_records(sender, number):
    results = met(*sides(), relay=lambda *what: None if what[:2] == (sender, number) else what[2])
    assert isinstance(results[0], Exception)
    assert isinstance(results[1], Exception) or (sender, number) == (1, 1)


@pytest.mark.parametrize("sender", [0, 1])
def test_public_key_that_a_relay_changed_is_refused(sender):
    for at in range(Records.HEAD + 48):

        def relay(who, which, data, at=at):
            return data if (who, which) != (sender, 2) else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

        assert isinstance(met(*encrypted_sides(), relay=relay)[1 - sender], Forged)


def test_missing_package_is_named_on_both_sides(monkeypatch):
    """The client has the package, the server has not."""

    def lacks(records, session, *, is_server):
        if is_server:
            raise MissingPackage("cryptography", "--data_plane_encryption")
        return (yield from encrypted(records, session, is_server=is_server))

    monkeypatch.setattr("tfhet.secure.handshake.encrypted", lacks)
    client, server = met(*encrypted_sides())
    assert isinstance(server, MissingPackage) and "`cryptography`" in str(client)


@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("message", [bytes(32), bytes(31), bytes(33)], ids=["weak", "short", "long"])
def test_unusable_public_key_is_refused(monkeypatch, sender, message):
    def sends(records, session, *, is_server):
        if is_server == bool(sender):
            yield records.sealed(message)
            yield 1 << 30
        return (yield from encrypted(records, session, is_server=is_server))

    monkeypatch.setattr("tfhet.secure.handshake.encrypted", sends)
    assert isinstance(met(*encrypted_sides())[1 - sender], MessageError)


def test_reflected_proof_is_not_accepted():
    client = as_client(KEY, Purpose.LINK)
    next(client)
    next(client)
    proof = client.send(MAGIC + bytes(32))
    next(client)
    with pytest.raises(Unauthenticated):
        client.send(proof)


def test_replayed_client_is_not_accepted():
    said = []
    met(*sides(), relay=lambda sender, number, data: (said.append(data) if sender == 0 else None) or data)
    server = as_server(KEY, {Purpose.FEED}, NAME)
    next(server)
    server.send(said[0][:42])
    server.send(said[0][42:])
    next(server)
    with pytest.raises(Unauthenticated):
        server.send(said[1])


def test_other_version_is_named_on_both_sides():
    def relay(sender, number, data):
        return data.replace(MAGIC, MAGIC[:-1] + b"0") if sender == 0 else data

    assert "tfhet-c0" in str(met(*sides(), relay=relay)[1])

    def answer(sender, number, data):
        return data.replace(MAGIC, MAGIC[:-1] + b"9") if sender == 1 else data

    assert "tfhet-c9" in str(met(*sides(), relay=answer)[0])


def test_other_protocols_get_no_byte():
    server = as_server(KEY, {Purpose.LINK})
    next(server)
    with pytest.raises(MessageError):
        server.send(b"GET / HTTP/1.1\r\n" + bytes(26))


def test_blocking_and_asyncio_sockets_meet():
    here, there = socket.socketpair()
    there.setblocking(False)

    async def accept() -> Records:
        return await perform_handshake_async(there, as_server(KEY, {Purpose.FEED}, NAME))

    with here, there, ThreadPoolExecutor(1) as pool:
        dialling = pool.submit(perform_handshake, here, as_client(KEY, Purpose.FEED, NAME))
        server = asyncio.run(accept())
        record = dialling.result(10).sealed(b"hello")
        assert here.gettimeout() is None
    assert server.lengths(record[: Records.HEAD], 5) == (5, 0)


def test_slow_server_has_no_more_time_than_others():
    here, there = socket.socketpair()

    def drip() -> None:
        with contextlib.suppress(OSError):
            for _ in range(40):
                there.sendall(b"x")
                time.sleep(0.05)

    with here, there, ThreadPoolExecutor(1) as pool:
        pool.submit(drip)
        with pytest.raises(TimeoutError):
            perform_handshake(here, as_client(KEY, Purpose.FEED, NAME), 0.2)
        here.close()


@pytest.mark.parametrize(
    "relay",
    [
        lambda one, two: [one[:40] + bytes([one[40] ^ 1]) + one[41:]],
        lambda one, two: [one[:7] + b"\x02" + one[8:]],
        lambda one, two: [two],
        lambda one, two: [one, one],
        lambda one, two: [one[:32] + two[32:]],
        lambda one, two: [bytes(len(one))],
    ],
    ids=["changed", "length", "dropped", "repeated", "spliced", "zeros"],
)
@pytest.mark.parametrize("both", [sides, encrypted_sides])
def test_no_other_record_is_opened(both, relay):
    client, server = met(*both())
    written = relay(client.sealed(b"first msg"), client.sealed(b"other msg"))
    with pytest.raises(Forged):
        for record in written:
            server.lengths(record[: Records.HEAD], 100)
            server.opened(record[Records.HEAD :])


@pytest.mark.parametrize("both", [sides, encrypted_sides])
def test_records_of_another_direction_or_connection_are_not_opened(both):
    first, second = met(*both()), met(*both())
    record = first[0].sealed(b"text")
    for reader in (first[0], *second):
        with pytest.raises(Forged):
            reader.lengths(record[: Records.HEAD], 100)


def test_long_message_is_refused():
    client, server = met(*sides())
    with pytest.raises(MessageError, match="101 bytes"):
        server.lengths(client.sealed(bytes(101))[: Records.HEAD], 100)
