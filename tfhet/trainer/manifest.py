"""Files of a checkpoint: the manifest, which is written last and lists the others, and the ledger of seen examples."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.errors import DataError, TfhetError, shown
from tfhet.pipeline import Rest
from tfhet.record import read_json, write_json
from tfhet.schema import Count, check_schema, from_json
from tfhet.source import IdSet

NAME = "manifest.json"
_SCHEMA = 1
_BROKEN = (OSError, ValueError, KeyError, EOFError, TypeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""Errors that numpy raises for a damaged file; TypeError for a file with one array, which is no context manager."""


@dataclass(frozen=True)
class Owner:
    """Who may write to a folder of checkpoints."""

    job_id: str = ""
    term: Count = 0
    """Which owner of the folder it is: 1 for the first, and one more for each that takes the folder over."""


@dataclass(frozen=True)
class Progress:
    epoch: Count = 0
    """Epochs finished."""
    step: Count = 0
    """Steps taken in all."""
    begun: Count = 0
    """Steps of these that belong to the epoch that is not finished."""
    number: Count = 0
    """The pass over the data that the ledger belongs to."""


@dataclass(frozen=True)
class Manifest:
    progress: Progress
    owner: Owner
    files: dict[str, dict[str, Any]]
    """By name: `size` in bytes, and `sha256`."""

    @classmethod
    def seal(cls, folder: Path, progress: Progress, owner: Owner) -> None:
        """Brings all files of `folder` to the disk, and then writes their manifest into it. Raises OSError."""
        made = cls(progress, owner, {path.name: _seen(path, sync=True) for path in sorted(folder.iterdir())})
        write_json(folder / NAME, {"schema": _SCHEMA, **asdict(made)})
        sync_folder(folder)

    @classmethod
    def verified(cls, folder: Path) -> Manifest:
        """The manifest in `folder`, each of whose files is as it was written. Raises DataError, which says what is
        missing or differs. Files that the manifest does not name do not matter."""
        try:
            found = read_json(folder / NAME, "manifest of a checkpoint")
            check_schema(found, "the manifest", _SCHEMA)
            made = from_json(cls, found, "the manifest")
            if odd := [name for name in made.files if name != os.path.basename(name) or name in ("", ".", "..")]:
                raise DataError(f"the manifest names {shown(odd[0])}, which is no file in it")
            wrong = [name for name, written in made.files.items() if _seen(folder / name) != written]
        except (TfhetError, OSError) as error:
            raise DataError(f"{folder.name} is not whole: {error}", str(folder)) from None
        if wrong:
            raise DataError(f"{folder.name} is not whole: {', '.join(wrong)} differ from the manifest", str(folder))
        return made


@dataclass(frozen=True, eq=False)
class Ledger:
    """The examples of an interrupted pass that a training had seen when its checkpoint was written. tf.data service
    cannot save where its readers are; the ids of what they delivered say the same. The file has a byte for each split,
    and for the examples of splits that were open a bit each."""

    fingerprint: str
    """Fingerprint of the source that the numbers belong to."""
    rest: Rest

    def write(self, path: Path) -> None:
        np.savez(path, fingerprint=np.array(self.fingerprint), splits=self.rest.splits, seen=self.rest.seen.table)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """The ledger in a file. Raises DataError for a file that is no ledger."""
        try:
            with np.load(path) as file:
                seen = IdSet(file["seen"].astype(np.int64, casting="safe").reshape(-1, 9))
                return cls(str(file["fingerprint"]), Rest(file["splits"].astype(bool, casting="safe"), seen))
        except _BROKEN as error:
            raise DataError(f"the ledger {path} cannot be read: {error}", str(path)) from None


def _seen(path: Path, sync: bool = False) -> dict[str, Any]:
    """Size and checksum of a file, which is on the disk afterwards if `sync`."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
        if sync:
            os.fsync(file.fileno())
    return {"size": size, "sha256": digest.hexdigest()}


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
