"""Checkpoints: written whole or not at all, the newest few kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Those of these steps that belong to the unfinished epoch."""
    number: int = 0
    """Number of the pass over the data that the ledger belongs to."""


class Checkpoints:
    """The checkpoints of one training in one directory; only rank 0 writes and reads them."""

    def __init__(self, directory: Path, keep: int = 3, **objects: Any):
        self.directory = directory
        self._keep = keep
        self._checkpoint = tf.train.Checkpoint(**objects)

    def save(self, progress: Progress, ledger: Ledger | None = None) -> Path:
        """Writes a checkpoint, whole or not at all, and removes old ones. ledger: that of the unfinished pass."""
        final = self.directory / f"{_PREFIX}{progress.step:010d}"
        with _folder(final) as temporary:
            temporary.mkdir(parents=True)
            self._checkpoint.write(str(temporary / "state"))
            if ledger is not None:
                ledger.write(temporary / _LEDGER)
            (temporary / "progress.json").write_text(json.dumps(asdict(progress)))
        for old in self.all()[: -self._keep]:
            shutil.rmtree(old, ignore_errors=True)
        return final

    def set_aside(self) -> None:
        """Renames all checkpoints, so that no training resumes from them."""
        for path in self.all():
            path.rename(path.with_name(f"before-{int(SYSTEM.wall())}-{path.name}"))

    def all(self) -> list[Path]:
        """The complete checkpoints, oldest first."""
        return sorted(path.parent for path in self.directory.glob(f"{_PREFIX}*/progress.json"))

    def restore(self) -> tuple[Progress, Ledger | None] | None:
        """Loads the newest checkpoint; returns its progress, and its ledger if it was written within a pass.

        Returns None when there is no checkpoint. Raises DataError when it does not fit this training.
        """
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
                f"the checkpoint {found[-1]} does not fit this model ({reason}); remove it, or say --resume False",
                str(found[-1]),
            ) from None
        return progress, ledger


def export(model: tf.keras.Model, directory: Path) -> Path:
    """Writes the SavedModel to `directory`/1, where TensorFlow Serving and SageMaker look; whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    with _folder(directory / "1") as temporary:
        tf.saved_model.save(model, str(temporary))
    return directory / "1"


@contextmanager
def _folder(final: Path) -> Iterator[Path]:
    """Gives the path for a new folder, which takes the place of `final` after the `with` block."""
    temporary = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    yield temporary
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
