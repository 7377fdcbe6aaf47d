"""Calls callbacks one after another, once the task that reads messages or renews leases has paused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class Inbox:
    """Calls that are made by the event loop, in order. One that fails is logged."""

    def __init__(self) -> None:
        self._is_closed = False

    def put(self, callback: Callable[..., None] | None, *arguments: Any) -> None:
        """Has a function called soon; does nothing for None."""
        if callback is not None:
            asyncio.get_running_loop().call_soon(self._call, callback, arguments)

    def _call(self, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            if not self._is_closed:
                callback(*arguments)
        except Exception:
            logger.exception("a callback of the link failed")

    def close(self) -> None:
        """Drops the calls that are not made yet."""
        self._is_closed = True
