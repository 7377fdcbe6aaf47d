"""Encrypted records: data arrive as they were sent, or the connection ends."""

from __future__ import annotations

import io
import types

import pytest
from hypothesis import given, settings, strategies as some

from tfhet.secure import EncryptedRecords, Forged, records as module

KEYS = bytes(range(32)), bytes(range(1, 33))
SMALL = 64
"""Bytes of a chunk in these tests."""


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", SMALL)
        yield


def two() -> tuple[EncryptedRecords, EncryptedRecords]:
    return EncryptedRecords(*KEYS), EncryptedRecords(*KEYS[::-1])


def chunks(sender: EncryptedRecords, *pieces: bytes) -> list[bytes]:
    return [bytes(one) for one in sender.sealed_data(map(memoryview, pieces))]


def opened(receiver: EncryptedRecords, sealed: bytes, size: int) -> bytes:
    stream, memory = io.BytesIO(sealed), memoryview(bytearray(size))

    def fill(part: memoryview) -> None:
        if stream.readinto(part) < part.nbytes:
            raise ConnectionError

    receiver.open_data(fill, memory)
    assert not stream.read()
    return bytes(memory)


@settings(max_examples=200, deadline=None)
@given(some.lists(some.lists(some.binary(max_size=3 * SMALL), max_size=5), max_size=4))
def test_data_arrive_unchanged(messages):
    sender, receiver = two()
    for pieces in messages:
        plain = b"".join(pieces)
        sealed = chunks(sender, *pieces)
        assert all(len(one) == SMALL + 16 for one in sealed[:-1])
        assert opened(receiver, b"".join(sealed), len(plain)) == plain


@pytest.mark.parametrize(
    "relay",
    [
        lambda one, two: [one[:5] + bytes([one[5] ^ 1]) + one[6:], two],
        lambda one, two: [one[:-1] + bytes([one[-1] ^ 1]), two],
        lambda one, two: [two, one],
        lambda one, two: [one, one],
        lambda one, two: [one[:40] + two[40:], two],
    ],
    ids=["changed", "tag", "reordered", "repeated", "spliced"],
)
def test_changed_data_are_refused(relay):
    sender, receiver = two()
    with pytest.raises(Forged):
        opened(receiver, b"".join(relay(*chunks(sender, bytes(range(2 * SMALL))))), 2 * SMALL)


def test_data_of_another_direction_or_record_are_refused():
    sender, receiver = two()
    first, second = chunks(sender, b"first"), chunks(sender, b"other")
    for reader, sealed in ((sender, first), (receiver, second), (two()[1], second)):
        with pytest.raises(Forged):
            opened(reader, sealed[0], 5)


def test_equal_data_are_encrypted_differently():
    sender, _ = two()
    sealed = chunks(sender, bytes(4 * SMALL))
    assert len(set(sealed)) == 4 and not any(bytes(8) in one for one in sealed)


def test_older_cryptography_has_the_same_format():
    """Versions before 47 write to no memory of the caller."""
    for old in (0, 1):
        both = two()
        for cipher in (both[old]._sends, both[old]._receives):
            full = cipher._cipher
            cipher._cipher = types.SimpleNamespace(encrypt=full.encrypt, decrypt=full.decrypt)
        assert opened(both[1], b"".join(chunks(both[0], b"x" * 100)), 100) == b"x" * 100
        with pytest.raises(Forged):
            opened(both[1], bytes(32), 16)
