"""Checkpoints: whole or not there, the newest few kept, in a folder that belongs to one training at a time."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.errors import DataError, TfhetError, UsageError
from tfhet.record import read_json, write_json
from tfhet.schema import from_json
from tfhet.trainer.manifest import Ledger, Manifest, Owner, Progress, sync_folder

log = logging.getLogger("tfhet")
_PREFIX = "checkpoint-"
_NAME = re.compile(r"checkpoint-(\d{4,})-(\d{10,})")
_LEDGER = "ledger.npz"
_OWNER = "owner.json"
_LOCKED_S = 10.0
"""Longest wait for another process of this machine that changes the directory."""


class Superseded(TfhetError):
    """Another training has taken over the folder of the checkpoints."""


class Checkpoints:
    """The checkpoints of one training in one directory. Rank 0 alone writes and reads them. A checkpoint is a folder
    `checkpoint-TERM-STEP`. The term tells trainings that used the directory one after the other apart: what a former
    owner still writes never counts as newer, and is refused on the same file system."""

    def __init__(self, directory: Path, keep: int = 3, job_id: str = "", **objects: Any):
        self.directory, self._keep, self._owner = directory, keep, Owner(job_id)
        self._broken: set[Path] = set()
        self._checkpoint = tf.train.Checkpoint(**objects)

    def claim(self) -> None:
        """Makes this training the owner of the directory; removes leftovers. Raises UsageError if not writable."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with self._locked():
                terms = [int(found[1]) for path in self.all() if (found := _NAME.fullmatch(path.name))]
                self._owner = Owner(self._owner.job_id, 1 + max([self._written_owner().term, *terms]))
                write_json(self.directory / _OWNER, asdict(self._owner))
                for leftover in self.directory.glob(f".{_PREFIX}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
        except OSError as error:
            raise UsageError(f"checkpoints cannot be written to {self.directory}: {error.strerror}") from None

    def save(self, progress: Progress, ledger: Ledger | None = None) -> Path:
        """Writes a checkpoint; it gets its name once it is on the disk. ledger: what was seen of the unfinished pass.
        Raises DataError when it cannot be written, and Superseded when the directory has another owner."""
        final = self.directory / f"{_PREFIX}{self._owner.term:04d}-{progress.step:010d}"
        temporary = self.directory / f".{final.name}.{os.getpid()}"
        try:
            temporary.mkdir(parents=True, exist_ok=True)
            self._checkpoint.write(str(temporary / "state"))
            if ledger is not None:
                ledger.write(temporary / _LEDGER)
            Manifest.seal(temporary, progress, self._owner)
            with self._locked():
                self._check_owner()
                shutil.rmtree(final, ignore_errors=True)
                temporary.rename(final)
                sync_folder(self.directory)
                self._prune()
        except (OSError, tf.errors.OpError) as error:
            reason = str(error).strip().split("\n")[0]
            failed = f"the checkpoint of step {progress.step} cannot be written to {self.directory}: {reason}"
            raise DataError(failed, str(final)) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return final

    def set_aside(self) -> None:
        """Renames the checkpoints, so that no training resumes from them; checkpoints set aside before are removed."""
        for path in self.directory.glob(f"before-*-{_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.all():
            path.rename(path.with_name(f"before-{int(SYSTEM.wall())}-{path.name}"))

    def all(self) -> list[Path]:
        """The checkpoints, oldest first, whether or not they are whole."""
        return sorted(self.directory.glob(f"{_PREFIX}*"))

    def restore(self) -> tuple[Progress, Ledger | None] | None:
        """Loads the newest whole checkpoint, and returns its ledger too if it was written within a pass. Returns None
        if there is no checkpoint. Logs which ones are not whole and were passed over. Raises DataError if there are
        some and none is whole, or if the newest whole one does not fit this training."""
        for path in reversed(found := self.all()):
            try:
                manifest = Manifest.verified(path)
            except DataError as error:
                self._broken.add(path)
                log.warning("a checkpoint is passed over: %s", error)
                continue
            return manifest.progress, self._load(path, manifest)
        if found:
            none_is = f"none of the {len(found)} checkpoints in {self.directory} is whole"
            cure = "remove them, or say --resume False to train from the start"
            raise DataError(f"{none_is}: {cure}", str(self.directory))
        return None

    def _load(self, path: Path, manifest: Manifest) -> Ledger | None:
        try:
            ledger = Ledger.read(path / _LEDGER) if _LEDGER in manifest.files else None
            self._checkpoint.read(str(path / "state")).assert_existing_objects_matched()
        except (AssertionError, ValueError, TypeError, IndexError, tf.errors.OpError) as error:
            reason = str(error).strip().split("\n")[0]
            misfit = f"the checkpoint {path} does not fit this model ({reason})"
            raise DataError(f"{misfit}; remove it, or say --resume False", str(path)) from None
        return ledger

    def _prune(self) -> None:
        """Removes all but the `keep` newest whole checkpoints."""
        whole = [path for path in self.all() if path not in self._broken]
        for old in [*self._broken, *whole[: -self._keep]]:
            shutil.rmtree(old, ignore_errors=True)
        self._broken.clear()

    def _check_owner(self) -> None:
        found, own = self._written_owner(), self._owner
        if found.term > own.term or (found.term == own.term and found != own):
            other = f"{self.directory} belongs to the training of job {found.job_id!r} since this one wrote there last"
            terms = f"term {found.term}; this one has term {own.term}"
            raise Superseded(f"{other} ({terms}): the checkpoint is not kept")

    def _written_owner(self) -> Owner:
        """The owner that the directory names; one of term 0 if it names none."""
        try:
            return from_json(Owner, read_json(self.directory / _OWNER, "owner of checkpoints"), "the owner")
        except TfhetError:
            return Owner()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps other processes of this machine from changing owner or checkpoints meanwhile. Does nothing on a file
        system without locks. Raises DataError when another process does not come to an end."""
        descriptor, until_s = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY), SYSTEM.monotonic() + _LOCKED_S
        try:
            while not _lock(descriptor):
                if SYSTEM.monotonic() > until_s:
                    raise DataError(f"another process has held {self.directory} for {_LOCKED_S:.0f} s")
                SYSTEM.sleep(0.02)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


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
