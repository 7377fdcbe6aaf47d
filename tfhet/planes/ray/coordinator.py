"""The actor that runs a Ray data set for all ranks, an epoch at a time, and deals its batches out.

It runs on the leader's host and takes no CPU of the cluster. Blocks stay where they were made until a rank fetches
them. It runs no further ahead of the ranks than some batches for each.
"""

from __future__ import annotations

import logging
import threading
import traceback
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.planes.ray import private
from tfhet.planes.ray.dealing import Dealing, Over, Portion

HELD_FOR_A_RANK = 4
"""Number of batches, for each rank, that may be ready and not taken."""
ANSWER_S = 5.0
"""Seconds after which a rank gets the answer that it has to ask again: so it hears of a coordinator that is gone."""


class Coordinator:
    """Answers calls of several threads at once: up to `CALLS` for each rank."""

    CALLS = 4

    def __init__(self, size: int, batch_size: int, is_equal: bool, drop_last: bool):
        # Ray Data would print what a task raised once more, after the rank that raises it.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        self._given = (size, batch_size, is_equal, drop_last)
        self._most = HELD_FOR_A_RANK * size
        self._epoch = -1
        self._dealing: Dealing | None = None
        self._error: str | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, epoch: int, dataset: Any) -> None:
        """Begins an epoch, and gives up another one that is not over."""
        with self._changed:
            self._dealing, self._epoch, self._error = Dealing(*self._given), epoch, None
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._thread = threading.Thread(target=self._run, args=(self._dealing, dataset), name="epoch", daemon=True)
        self._thread.start()

    def batch(self, epoch: int, rank: int, number: int) -> Portion | Over | str | None:
        """The batch of a rank; the text of what the user's code raised; None where the rank has to ask again."""
        end_s = SYSTEM.monotonic() + ANSWER_S
        with self._changed:
            while (left_s := end_s - SYSTEM.monotonic()) > 0:
                if epoch == self._epoch and self._dealing is not None:
                    found = self._dealing.answer(rank, number)
                    if found is not None:
                        self._changed.notify_all()
                        return found
                    if self._error is not None:
                        return self._error
                self._changed.wait(left_s)
        return None

    def _run(self, dealing: Dealing, dataset: Any) -> None:
        try:
            blocks = private.blocks(dataset)
            for block, first, rows in blocks:
                with self._changed:
                    while dealing is self._dealing and dealing.waiting >= self._most:
                        self._changed.wait()
                    if dealing is not self._dealing:
                        return
                    dealing.add(block, rows, first)
                    self._changed.notify_all()
                del block
        except BaseException as error:  # noqa: BLE001  the user's code may raise anything; the ranks raise it, too
            with self._changed:
                if dealing is self._dealing:
                    self._error = private.of_the_user("".join(traceback.format_exception_only(type(error), error)))
                    self._changed.notify_all()
            return
        with self._changed:
            dealing.end()
            self._changed.notify_all()
