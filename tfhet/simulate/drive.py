"""Runs a coroutine to its end, with Ctrl-C and SIGTERM as a request to stop; also inside a running event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def drive(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Returns the result of `work(stop)`. `stop` is set when the user or the system wants it to end.

    Inside a running loop, as in a notebook's cell, `work` runs in a thread of its own.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_with_signals(work))
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def inside() -> T:
        loops.append((asyncio.get_running_loop(), asyncio.Event()))
        return await work(loops[0][1])

    with ThreadPoolExecutor(1, thread_name_prefix="simulate") as pool:
        result = pool.submit(lambda: asyncio.run(inside()))
        try:
            return result.result()
        except KeyboardInterrupt:
            if loops:
                loops[0][0].call_soon_threadsafe(loops[0][1].set)
            raise


async def _with_signals(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    stop = asyncio.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await work(stop)
