from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tfhet.control.inbox import MAX_WAITING, Inbox

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_calls_are_made_one_after_another_and_a_failing_one_stops_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        inbox, made, done = Inbox(), [], asyncio.Event()
        inbox.start()

        async def slow(what: str) -> None:
            made.append(f"{what} begins")
            await asyncio.sleep(0)
            made.append(f"{what} ends")

        inbox.put(None, "nobody")
        inbox.put(slow, "first")
        inbox.put(lambda: 1 / 0)
        inbox.put(made.append, "plain")
        inbox.put(slow, "last")
        inbox.put(done.set)
        await done.wait()
        await inbox.close()
        assert made == ["first begins", "first ends", "plain", "last begins", "last ends"]

    run(scenario())
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_may_close_its_inbox_and_runs_to_its_end(run: Run) -> None:
    async def scenario() -> None:
        inbox, done = Inbox(), asyncio.Event()
        inbox.start()

        async def last() -> None:
            await inbox.close()
            await asyncio.sleep(0)
            done.set()

        inbox.put(last)
        inbox.put(pytest.fail, "called after close")
        await done.wait()
        inbox.put(pytest.fail, "called after close")
        await asyncio.sleep(0)

    run(scenario())


def test_closing_ends_a_callback_that_never_returns(run: Run) -> None:
    async def scenario() -> None:
        inbox, begun = Inbox(), asyncio.Event()
        inbox.start()

        async def stuck() -> None:
            begun.set()
            await asyncio.Event().wait()

        inbox.put(stuck)
        await begun.wait()
        await inbox.close()
        await inbox.close()

    run(scenario())


def test_it_says_when_it_is_full_and_takes_a_loss_all_the_same() -> None:
    async def scenario() -> None:
        inbox = Inbox()
        for _ in range(MAX_WAITING):
            assert not inbox.is_full
            inbox.put(print)
        assert inbox.is_full
        inbox.put(print)

    asyncio.run(scenario())
