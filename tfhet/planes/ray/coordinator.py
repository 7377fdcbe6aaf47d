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
from tfhet.errors import NotReady
from tfhet.planes.ray import private
from tfhet.planes.ray.dealing import Dealing, Over, Portion

HELD_FOR_A_RANK = 4
"""Number of batches, for each rank, that may be ready and not taken."""
ANSWER_S = 5.0
"""Seconds after which a rank gets the answer that it has to ask again: so it hears of a coordinator that is gone."""


class Coordinator:
    """Answers calls of several threads at once.

    A *pass* is an epoch that is read; all ranks count theirs alike. It stays until every rank has begun a later one."""

    def __init__(self, size: int, batch_size: int, is_equal: bool, drop_last: bool):
        # Ray Data would print what a task raised once more, after the rank that raises it.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        self._given = (size, batch_size, is_equal, drop_last)
        self._most = HELD_FOR_A_RANK * size
        self._passes: dict[int, Dealing] = {}
        self._errors: dict[int, str] = {}
        self._at = [0] * size
        """The latest pass of each rank."""
        self._changed = threading.Condition()

    def begin(self, number: int, dataset: Any) -> None:
        """Begins a pass. The one before gets no more blocks, where rank 0 has left it early; its thread ends at the
        next one that comes, for which nothing waits."""
        with self._changed:
            for earlier, one in self._passes.items():
                if earlier not in self._errors:
                    one.end()
            self._passes[number] = dealing = Dealing(*self._given)
            self._changed.notify_all()
        threading.Thread(target=self._run, args=(number, dealing, dataset), name="pass", daemon=True).start()

    def batch(self, number: int, rank: int, index: int) -> Portion | Over | str | None:
        """The batch with this index of a rank's share; the text of what the user's code raised; None where the rank has
        to ask again. Raises NotReady for a pass that is gone."""
        end_s = SYSTEM.monotonic() + ANSWER_S
        with self._changed:
            self._stands(rank, number)
            while (left_s := end_s - SYSTEM.monotonic()) > 0:
                if number < min(self._at):
                    raise NotReady(f"pass {number} of the data set is gone: every rank has begun a later one")
                dealing = self._passes.get(number)
                if dealing is not None:
                    found = dealing.answer(rank, index)
                    if found is not None:
                        self._changed.notify_all()
                        return found
                    if number in self._errors:
                        return self._errors[number]
                self._changed.wait(left_s)
        return None

    def _stands(self, rank: int, number: int) -> None:
        """Notes which pass a rank reads, and drops those that no rank reads any more."""
        if number <= self._at[rank]:
            return
        self._at[rank] = number
        for gone in [each for each in self._passes if each < min(self._at)]:
            self._passes.pop(gone).end()
            self._errors.pop(gone, None)
        self._changed.notify_all()

    def _run(self, number: int, dealing: Dealing, dataset: Any) -> None:
        try:
            for block, first, rows in private.blocks(dataset):
                with self._changed:
                    while dealing.waiting >= self._most and not dealing.is_over:
                        self._changed.wait()
                    if dealing.is_over:
                        return
                    dealing.add(block, rows, first)
                    self._changed.notify_all()
                del block
        except BaseException as error:  # noqa: BLE001  the user's code may raise anything; the ranks raise it, too
            with self._changed:
                if dealing.is_over:  # it was left early, or is gone
                    return
                self._errors[number] = private.of_the_user("".join(traceback.format_exception_only(type(error), error)))
                self._changed.notify_all()
            return
        with self._changed:
            dealing.end()
            self._changed.notify_all()
