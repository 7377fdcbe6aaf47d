"""simulate/drive.py: SIGTERM and Ctrl-C ask what runs to stop, and afterwards do what they did before."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from tfhet.simulate.drive import STOPS, drive


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """Signals that came while nothing ran."""
    found: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: found.append(number)) for number in STOPS}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_asks_what_runs_to_stop_and_is_its_callers_again_afterwards(number: int, heard: list[int]) -> None:
    async def until_stopped(stop: asyncio.Event) -> str:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 10)
        return "stopped"

    assert drive(until_stopped) == "stopped" and heard == []
    os.kill(os.getpid(), number)
    assert heard == [number]


def test_signals_are_the_callers_again_after_what_failed(heard: list[int]) -> None:
    async def fails(stop: asyncio.Event) -> None:
        raise ValueError("no host")

    with pytest.raises(ValueError, match="no host"):
        drive(fails)
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM]


def test_in_a_running_loop_it_works_beside_it(heard: list[int]) -> None:
    async def work(stop: asyncio.Event) -> bool:
        return stop.is_set()

    async def cell() -> bool:
        return drive(work)

    assert asyncio.run(cell()) is False and heard == []
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM]
