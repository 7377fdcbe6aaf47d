"""Deliveries of a feed to its reader: a batch, or the error that the user's code raised in place of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfhet.errors import DataError
from tfhet.planes.feed.share import Key


class SourceError(DataError):
    """The user's code raised on a host that serves; the text holds its traceback."""


@dataclass(frozen=True)
class Received:
    """One batch, as it came."""

    batch: Any
    """Arrays are views of memory that is used again once nothing refers to them."""
    ids: np.ndarray | None
    """int64 [batch]: numbers of its examples in a map-style dataset; None for others."""
    examples: int | None
    """Number of examples in a whole epoch of a map-style dataset; None for others."""
    key: Key
    server: int
