from __future__ import annotations

import random

import pytest

from tfhet.control.outbox import MAX_KEPT_BYTES, Outbox
from tfhet.schema import MessageError


def test_messages_are_taken_once_and_in_order() -> None:
    sender, receiver = Outbox(), Outbox()
    packed = [sender.pack({"type": "x", "i": i}) for i in range(3)]
    assert receiver.take(packed[0]) == {"type": "x", "i": 0}
    assert receiver.take(packed[0]) is None
    with pytest.raises(MessageError, match="message 3 after 1"):
        receiver.take(packed[2])
    assert receiver.take(packed[1]) == {"type": "x", "i": 1}
    assert receiver.seen == 2


def test_what_is_confirmed_is_not_said_again() -> None:
    sender = Outbox()
    packed = [sender.pack({"type": "x"}) for _ in range(3)]
    sender.confirm(2)
    assert sender.unconfirmed() == (packed[2],)
    sender.confirm(1)
    assert sender.unconfirmed() == (packed[2],)
    sender.confirm(3)
    assert sender.unconfirmed() == ()
    for wrong in (4, -1):
        with pytest.raises(MessageError):
            sender.confirm(wrong)


def test_it_is_full_until_the_other_side_confirms() -> None:
    sender = Outbox()
    for _ in range(MAX_KEPT_BYTES // 60000 + 1):
        assert not sender.is_full
        sender.pack({"type": "x", "text": "x" * 60000})
    assert sender.is_full
    sender.confirm(2)
    assert not sender.is_full


def test_everything_arrives_over_connections_that_break_anywhere() -> None:
    random_ = random.Random(7)
    sender, receiver = Outbox(), Outbox()
    got = []
    for start in range(0, 100, 10):
        wire = list(sender.unconfirmed()) + [sender.pack({"type": "x", "i": start + i}) for i in range(10)]
        for message in wire[: random_.randint(0, len(wire))]:
            body = receiver.take(message)
            if body is not None:
                got.append(body["i"])
        sender.confirm(receiver.seen)
    got += [body["i"] for message in sender.unconfirmed() if (body := receiver.take(message)) is not None]
    assert got == list(range(100))
