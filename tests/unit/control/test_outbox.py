from __future__ import annotations

import asyncio

import pytest

from tfhet.control.outbox import MAX_KEPT_BYTES, Inbox, Outbox


def test_outbox_is_full_until_confirmed():
    sender = Outbox()
    for _ in range(MAX_KEPT_BYTES // 60000 + 1):
        assert not sender.is_full
        sender.pack({"type": "x", "text": "x" * 60000})
    assert sender.is_full
    sender.confirm(2)
    assert not sender.is_full


async def test_calls_are_later_and_in_order_despite_errors(caplog):
    inbox, made, done = Inbox(), [], asyncio.Event()

    def first() -> None:
        made.append("first")
        inbox.put(made.append, "put by the first")
        inbox.put(done.set)

    inbox.put(None, "unused")
    inbox.put(first)
    inbox.put(lambda: {}["nothing"])
    inbox.put(made.append, "second")
    assert made == []
    await done.wait()
    assert made == ["first", "second", "put by the first"]
    assert "KeyError" in caplog.text


async def test_callback_may_close_its_inbox():
    inbox = Inbox()
    inbox.put(inbox.close)
    inbox.put(pytest.fail, "called after close")
    await asyncio.sleep(0)
    inbox.put(pytest.fail, "called after close")
    await asyncio.sleep(0)
