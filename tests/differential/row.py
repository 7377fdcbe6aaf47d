"""A row of the differential table: one small input pipeline, and how it may end when it is distributed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BATCH = 4
"""Examples in a batch of the table."""
TRAINING, VALIDATION = ROLES = ("training", "validation")


@dataclass(frozen=True)
class Row:
    """One pipeline."""

    make: Callable[[Path], Any]
    """Returns, of the folder of `files.py`, what a script passes to `distribute`; or a pair for training and
    validation."""
    recipe: str = ""
    """Name of the row to use instead if this one is refused; "": it must not be refused."""
    advice: str = ""
    """A word that the refusal must contain."""
    batch: int = BATCH
    """Examples in a batch; 0: the elements are not batches."""
    key: Callable[[tuple[Any, ...]], Any] | None = None
    """What identifies an example, by its flat components; None: all of them."""
    holds: int = 0
    """Examples that each worker may hold back: buffers of shuffle and prefetch."""
    own_batches: bool = False
    """Whether each worker ends a pass with a partial batch of its own: the source is files, or elements are lost."""
    draws: bool = False
    """Whether each pass has other examples, drawn at random."""
    plane: str = ""
    """Data plane that the row needs; "": tf.data service."""
    steps: int = 0
    """Batches that a script takes in a pass of endless data, over all ranks."""
    wrong: str = ""
    """Why the row is known to fail."""

    @property
    def name(self) -> str:
        return self.make.__name__

    def data(self, files: Path) -> dict[str, Any]:
        """What is distributed, by role."""
        made = self.make(files)
        return dict(zip(ROLES, made, strict=True)) if isinstance(made, tuple) else dict.fromkeys(ROLES, made)


ROWS: dict[str, Row] = {}
"""The table, by name; the modules of `rows` fill it."""


def row(**how: Any) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    """Decorates the function of a row."""

    def add(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
        assert make.__name__ not in ROWS and make.__doc__, make.__name__
        ROWS[make.__name__] = Row(make, **how)
        return make

    return add
