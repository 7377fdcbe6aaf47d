"""Runs a coroutine to its end, with Ctrl-C and SIGTERM as a request to stop; also inside a running event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
STOPS = (signal.SIGTERM, signal.SIGINT)


def drive(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Returns the result of `work(stop)`. SIGTERM and Ctrl-C set `stop`. Inside a running event loop, as in a notebook,
    `work` runs in its own thread. Afterwards signals have their earlier handlers."""
    loops: list[asyncio.AbstractEventLoop] = []
    stop = asyncio.Event()

    async def run() -> T:
        loops.append(asyncio.get_running_loop())
        if threading.current_thread() is threading.main_thread():
            for number in STOPS:
                loops[0].add_signal_handler(number, stop.set)
        return await work(stop)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _same_after():
            return asyncio.run(run())
    with ThreadPoolExecutor(1, thread_name_prefix="simulate") as pool:
        result = pool.submit(asyncio.run, run())
        try:
            return result.result()
        except KeyboardInterrupt:
            if loops:
                loops[0].call_soon_threadsafe(stop.set)
            raise


@contextmanager
def _same_after() -> Iterator[None]:
    """Restores the handlers of signals: asyncio leaves the default ones. A handler that Python did not set is lost."""
    handlers = {number: signal.getsignal(number) for number in STOPS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None:
                    signal.signal(number, handler)
