from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tfhet.deadline import Deadline

Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def _for_ever() -> None:
    await asyncio.Event().wait()


def test_a_block_that_takes_too_long_times_out(run: Run) -> None:
    async def scenario() -> None:
        for seconds in (0.02, 0.0, -1.0):
            with pytest.raises(asyncio.TimeoutError):
                async with Deadline(seconds):
                    await _for_ever()

    run(scenario())


def test_a_block_in_time_is_left_alone(run: Run) -> None:
    async def scenario() -> None:
        async with Deadline(10):
            await asyncio.sleep(0)
        with pytest.raises(KeyError):
            async with Deadline(10):
                raise KeyError
        await asyncio.sleep(0)

    run(scenario())


def test_only_the_deadline_that_passed_times_out(run: Run) -> None:
    async def scenario() -> None:
        with pytest.raises(asyncio.TimeoutError):
            async with Deadline(0.02), Deadline(10):
                await _for_ever()

    run(scenario())


def test_a_cancellation_from_outside_stays_one(run: Run) -> None:
    async def scenario() -> None:
        async def work() -> None:
            async with Deadline(10):
                await _for_ever()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())


def test_a_cancellation_just_when_the_result_comes_is_not_swallowed(run: Run) -> None:
    async def scenario() -> None:
        result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        went_on = False

        async def work() -> None:
            nonlocal went_on
            async with Deadline(10):
                await result
            went_on = True
            await _for_ever()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        result.set_result(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not went_on

    run(scenario())
