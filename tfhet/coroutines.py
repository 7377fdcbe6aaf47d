"""Calls from coroutines: blocking ones in threads that do not keep the process alive, and delayed ones."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
CATCH_UP_S = 0.1
"""Seconds in which a process that was suspended reads the messages that arrived meanwhile."""


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Returns the result of a blocking call that may hang. Its thread is a daemon: unlike with `asyncio.to_thread`, a
    call that hangs delays the end of neither the event loop nor the process."""
    result: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            result.set_result(call(*arguments))
        except BaseException as error:  # noqa: BLE001  it is raised in the caller
            result.set_exception(error)

    result.set_running_or_notify_cancel()  # cancelling the caller does not cancel the call
    threading.Thread(target=run, name="tfhet-call", daemon=True).start()
    return await asyncio.wrap_future(result)


def later(seconds: float, call: Callable[..., object], *arguments: Any) -> None:
    """Calls `call` after `seconds`. A process that was suspended for longer first reads the messages in its queue."""
    loop = asyncio.get_running_loop()
    loop.call_later(seconds, loop.call_later, CATCH_UP_S, call, *arguments)
