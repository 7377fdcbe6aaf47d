"""Calls callbacks one after another, in a task beside those that read messages and renew leases."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000


class Inbox:
    """A queue of calls and the task that makes them. A slow callback delays other callbacks only."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[tuple[Callable[..., Any], tuple[Any, ...]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_full(self) -> bool:
        """Whether the maximum is reached. `put` takes more all the same: the loss of a member must be reported."""
        return self._calls.qsize() >= MAX_WAITING

    def start(self) -> None:
        """Starts the task; needs a running loop."""
        self._task = asyncio.create_task(self._run(), name="tfhet-inbox")

    def put(self, callback: Callable[..., Any] | None, *arguments: Any) -> None:
        """Queues a call of a plain or coroutine function; does nothing for None."""
        if callback is not None and not self._closed:
            self._calls.put_nowait((callback, arguments))

    async def _run(self) -> None:
        while not self._closed:
            callback, arguments = await self._calls.get()
            try:
                result = callback(*arguments)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                logger.exception("a callback of the link failed")

    async def close(self) -> None:
        """Drops the waiting calls and ends the task. A callback that closes its own inbox runs to its end."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
