"""A limit on how long a block of a coroutine may take, blocking calls that outlast it, and calls after some time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

HEARING_S = 0.1
"""Seconds in which a process that stood still reads the messages that came meanwhile."""


class Deadline:
    """`async with Deadline(5):` cancels what runs inside after 5 s and raises asyncio.TimeoutError. Not
    `asyncio.wait_for`: before Python 3.12 that swallows a cancellation which comes just when its result does
    (python/cpython#81839), and a task that has to end would go on. From 3.11 on `asyncio.timeout` does the same."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancels_before = 0
        self._expired = False

    async def __aenter__(self) -> Deadline:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancels_before = self._task.cancelling() if hasattr(self._task, "cancelling") else 0
        self._timer = asyncio.get_running_loop().call_later(max(0.0, self._seconds), self._expire)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        assert self._timer is not None
        self._timer.cancel()
        if self._expired:
            cancelled_too = hasattr(self._task, "uncancel") and self._task.uncancel() > self._cancels_before
            if kind is asyncio.CancelledError and not cancelled_too:
                raise asyncio.TimeoutError from error

    def _expire(self) -> None:
        assert self._task is not None
        self._expired = True
        self._task.cancel()


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """The result of a blocking call that may hang. Neither the end of the event loop nor that of the process waits for
    its thread, as both do for those of `asyncio.to_thread`."""
    result: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            result.set_result(call(*arguments))
        except BaseException as error:  # noqa: BLE001  it is the caller's
            result.set_exception(error)

    result.set_running_or_notify_cancel()  # a caller that gives up does not cancel it
    threading.Thread(target=run, name="tfhet-call", daemon=True).start()
    return await asyncio.wrap_future(result)


def later(seconds: float, call: Callable[..., object], *arguments: Any) -> None:
    """Calls after `seconds`. A process that stood still for longer first hears what it was sent meanwhile."""
    loop = asyncio.get_running_loop()
    loop.call_later(seconds, loop.call_later, HEARING_S, call, *arguments)
