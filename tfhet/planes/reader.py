"""The reader of a rank: its batches of a declared pipeline, epoch by epoch, with the ids of their examples.

reader.offer(epoch)                      # on one rank
for delivery in reader.epoch(epoch):     # on every rank, after that
    train(delivery.images, delivery.labels)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import tensorflow as tf

from tfhet.placement import Cut, Pipeline, Rest
from tfhet.source import BadRecord


@dataclass(frozen=True)
class Delivery:
    """One batch and what is known about it."""

    images: tf.Tensor
    labels: tf.Tensor
    ids: np.ndarray
    """int64 [batch]: ids of the examples."""
    epoch: int
    """Pass over the data that the batch belongs to."""
    wait_s: float
    """Seconds that the step waited for it."""


class Reader(Protocol):
    """Batches of one pipeline for one rank. A plane that has been restarted remembers nothing of earlier reads."""

    pipeline: Pipeline
    cut: Cut
    first_batch_s: float | None
    """Seconds from the first request to the first batch; None before it."""
    was_cut_off: bool
    """Whether the last part of an epoch ended because the data plane was restarted."""
    failure: Exception | None
    """The last error of the data plane itself, for which the reader was cut off."""

    @property
    def is_served(self) -> bool:
        """Whether other processes prepare the batches."""

    def agree(self) -> None:
        """Marks the data plane, so that a later restart is noticed. All ranks call it, and read after all have."""

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        """Whether any host still serves, once all that are left are ready, or `is_given_up` returns True."""

    def go_local(self) -> None:
        """From now on this rank prepares its share of the data itself."""

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        """Registers an epoch, or the `rest` of one, with the plane. One rank calls it, and the others read after that:
        what is offered while others read could be handed out twice by a plane that was restarted."""

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        """This rank's share of one pass, or of the `rest` of it, which is its `part`-th part; offered before. Ends
        early, with `was_cut_off`, when the plane is restarted. Raises DataError, with file and offset, for a record
        that cannot be read."""

    def singly(self, epoch: int, ids: np.ndarray) -> Iterator[Delivery]:
        """This rank's share of the examples `ids`, int64 [n], each read and prepared by itself, so that a bad one takes
        no other with it; bad ones are left out."""

    def diagnose(self, epoch: int, ids: np.ndarray) -> list[BadRecord]:
        """The bad records among these examples, with what is wrong with each."""
