"""SIGTERM and Ctrl-C ask running work to stop; afterwards they have their earlier handlers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from tfhet.simulate.drive import STOPS, drive


@pytest.fixture
def received() -> Iterator[list[int]]:
    """Signals that the test's own handlers received."""
    found: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: found.append(number)) for number in STOPS}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("fails", [False, True])
def test_signal_stops_work_and_keeps_its_handler(number: int, fails: bool, received: list[int]) -> None:
    async def work(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 10)
        if fails:
            raise ValueError

    try:
        drive(work)
        assert not fails
    except ValueError:
        assert fails
    assert received == []
    os.kill(os.getpid(), number)
    assert received == [number]


def test_work_runs_inside_a_running_loop(received: list[int]) -> None:
    async def work(stop: asyncio.Event) -> bool:
        return stop.is_set()

    async def cell() -> bool:
        return drive(work)

    assert asyncio.run(cell()) is False
    os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGTERM]
