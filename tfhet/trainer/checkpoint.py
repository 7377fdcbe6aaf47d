"""Checkpoints: written whole or not at all, the newest few kept."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.errors import DataError
from tfhet.trainer.ledger import Ledger

_PREFIX = "checkpoint-"
_LEDGER = "ledger.npz"


@dataclass(frozen=True)
class Progress:
    """How far a training has come."""

    epoch: int = 0
    """Epochs finished."""
    step: int = 0
    """Steps taken in all."""
    begun: int = 0
    """Steps of these that belong to the epoch that is not finished."""
    number: int = 0
    """Of the pass over the data that the ledger belongs to."""


class Checkpoints:
    """The checkpoints of one training in one directory; rank 0 writes, rank 0 reads, the others are given."""

    def __init__(self, directory: Path, keep: int = 3, **objects: Any):
        self.directory = directory
        self._keep = keep
        self._checkpoint = tf.train.Checkpoint(**objects)

    def save(self, progress: Progress, ledger: Ledger | None = None) -> Path:
        """Writes a checkpoint beside the others, then names it: a reader never sees half of one. `ledger`: of the pass
        that is not finished."""
        final = self.directory / f"{_PREFIX}{progress.step:010d}"
        temporary = self.directory / f".{final.name}.{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        self._checkpoint.write(str(temporary / "state"))
        if ledger is not None:
            ledger.write(temporary / _LEDGER)
        (temporary / "progress.json").write_text(json.dumps(asdict(progress)))
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        for old in self.all()[: -self._keep]:
            shutil.rmtree(old, ignore_errors=True)
        return final

    def set_aside(self) -> None:
        """Gives the checkpoints that are there another name, by which nobody goes on from them."""
        for path in self.all():
            path.rename(path.with_name(f"before-{int(SYSTEM.wall())}-{path.name}"))

    def all(self) -> list[Path]:
        """The complete checkpoints, oldest first."""
        return sorted(path.parent for path in self.directory.glob(f"{_PREFIX}*/progress.json"))

    def restore(self) -> tuple[Progress, Ledger | None] | None:
        """Loads the newest one, and gives its ledger too where it was written within a pass; None when there is none.
        Raises DataError when it does not fit this training."""
        found = self.all()
        if not found:
            return None
        try:
            progress = Progress(**json.loads((found[-1] / "progress.json").read_text()))
            ledger = Ledger.read(found[-1] / _LEDGER)
            self._checkpoint.read(str(found[-1] / "state")).assert_existing_objects_matched()
        except (AssertionError, ValueError, TypeError, tf.errors.OpError) as error:
            reason = str(error).strip().split("\n")[0]
            raise DataError(
                f"the checkpoint {found[-1]} does not fit this model ({reason}); take it away, or say --resume False",
                str(found[-1]),
            ) from None
        return progress, ledger


def export(model: tf.keras.Model, directory: Path) -> Path:
    """Writes the SavedModel to `directory`/1, where TensorFlow Serving and SageMaker look; whole or not at all."""
    final = directory / "1"
    temporary = directory / f".1.{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    tf.saved_model.save(model, str(temporary))
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    return final
