"""Indexes of files, which are made once: next to the file, or in the user's cache if that folder is read-only.

A file in an object store has its index in the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tfhet.cluster import cache_dir, environment
from tfhet.errors import DataError
from tfhet.source import object_store
from tfhet.source.files import absolute, is_local

SUFFIX = ".tfhet-index.npz"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
"""Errors for an index that is missing, damaged or no index."""


def indexed(
    file: str, names: tuple[str, ...], details: list[str | int], make: Callable[[], list[np.ndarray]]
) -> tuple[list[np.ndarray], str]:
    """Returns the index of a file, stored or new, and the version of its object (`Facts.tag`; "" for a local file).

    Args:
        names: Names of the columns.
        details: Everything else that decides the index.
        make: Makes the columns.

    Raises:
        DataError: The file cannot be read.
    """
    if is_local(file):
        try:
            found = os.stat(file)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}", file) from None
        version, tag = (found.st_size, found.st_mtime_ns), ""
    else:
        size, tag = object_store.facts([file])[0]
        version = (size, 0)
    facts = json.dumps([*details[:1], *version, *details[1:], *filter(None, [tag])])
    for path in _paths(file):
        with contextlib.suppress(*_UNREADABLE), np.load(path) as stored:
            if str(stored["facts"]) == facts:
                return [stored[name] for name in names], tag
    columns = make()
    for path in _paths(file):
        try:
            _write(path, {"facts": np.array(facts), **dict(zip(names, columns, strict=True))})
            break
        except OSError:
            continue  # a read-only folder
    return columns, tag


def _paths(file: str) -> Iterator[Path]:
    if is_local(file):
        yield Path(f"{file}{SUFFIX}")
    name = hashlib.blake2b(os.fsencode(absolute(file)), digest_size=16).hexdigest()
    yield cache_dir(environment()) / "indexes" / f"{name}{SUFFIX}"


def _write(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Writes an index, whole or not at all. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".tfhet-index-", delete=False) as file:
        try:
            np.savez(file, **columns)  # type: ignore[arg-type]
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
