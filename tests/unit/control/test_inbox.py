from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tfhet.control.inbox import Inbox

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_calls_are_made_in_order_and_later_and_a_failing_one_stops_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        inbox, made, done = Inbox(), [], asyncio.Event()

        def first() -> None:
            made.append("first")
            inbox.put(made.append, "put by the first")
            inbox.put(done.set)

        inbox.put(None, "nobody")
        inbox.put(first)
        inbox.put(lambda: {}["nothing"])
        inbox.put(made.append, "second")
        assert made == []
        await done.wait()
        assert made == ["first", "second", "put by the first"]

    run(scenario())
    assert "KeyError" in caplog.text


def test_a_callback_may_close_its_inbox(run: Run) -> None:
    async def scenario() -> None:
        inbox = Inbox()
        inbox.put(inbox.close)
        inbox.put(pytest.fail, "called after close")
        await asyncio.sleep(0)
        inbox.put(pytest.fail, "called after close")
        await asyncio.sleep(0)

    run(scenario())
