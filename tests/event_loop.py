"""Tests as coroutines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any


def in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test that is a coroutine, for at most 60 seconds."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **fixtures), 60))

    return run


async def until(holds: Callable[[], object]) -> None:
    """Returns when a condition holds; raises TimeoutError after 40 seconds."""
    async with asyncio.timeout(40):
        while not holds():
            await asyncio.sleep(0.01)
