"""Indexes of files, which are made once: next to the file, or in the user's cache if that folder is read-only.

The index of an object is in the cache, and next to the object if `write_index` wrote it there. An index is used only
if it was made for this version of the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfhet.cluster import cache_dir, environment
from tfhet.errors import DataError
from tfhet.source import object_store
from tfhet.source.files import INDEX_SUFFIX, absolute, is_local

log = logging.getLogger("tfhet")
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Errors for an index that is missing, damaged or no index."""
_UNVERSIONED = "the server states no ETag and no Last-Modified"


class IndexRequest(NamedTuple):
    """The index of a file, and how it is made."""

    file: str
    names: tuple[str, ...]
    """Names of the columns."""
    details: list[str | int]
    """Version of the format, and everything in addition to the file that decides the index."""
    make: Callable[[], list[np.ndarray]]
    """Makes the columns."""


def indexed(request: IndexRequest) -> tuple[list[np.ndarray], str]:
    """Returns the index of a file, stored or new, and the version of its object (`Facts.tag`; "" for a local file).

    Raises:
        DataError: The file cannot be read, or was replaced while it was indexed.
    """
    version, tag = _version(request.file)
    facts = _facts(version, request.details)
    columns = _stored_here(request, facts)
    if columns is None and not is_local(request.file):
        columns = _stored_next_to(request, facts)
    return _made(request, version) if columns is None else columns, tag


def write_index(request: IndexRequest) -> bool:
    """Writes the index of a file next to it, for all hosts. Returns False if it was there.

    Raises:
        UsageError: The file is on an HTTP server.
        DataError: The file cannot be read, has no version, or the index cannot be written.
    """
    version, _ = _version(request.file)
    facts, place = _facts(version, request.details), f"{request.file}{INDEX_SUFFIX}"
    if version[1] == "":
        raise DataError(f"{request.file}: an index could be stale: {_UNVERSIONED}", request.file)
    is_file = is_local(request.file)
    if (_stored(Path(place), request.names, facts) if is_file else _stored_next_to(request, facts)) is not None:
        return False
    columns = _stored_here(request, facts)
    content = _content(_made(request, version) if columns is None else columns, request.names, facts)
    if not is_file:
        object_store.write(place, content)
        return True
    try:
        _write(Path(place), content)
    except OSError as error:
        raise DataError(f"{place} cannot be written: {error.strerror}", place) from None
    return True


def _made(request: IndexRequest, version: tuple[int, int | str]) -> list[np.ndarray]:
    """Makes the index of a version of a file, and stores it."""
    columns = request.make()
    if _version(request.file)[0] != version:
        raise DataError(f"{request.file} was replaced while it was indexed: start again", request.file)
    if version[1] == "":
        log.info("%s: its index is made at each start: %s", request.file, _UNVERSIONED)
        return columns
    content = _content(columns, request.names, _facts(version, request.details))
    for path in _paths(request.file):
        try:
            _write(path, content)
            break
        except OSError:
            continue  # a read-only folder
    return columns


def _version(file: str) -> tuple[tuple[int, int | str], str]:
    """Returns the size of a file and its time or version ("" if unknown), and the tag of its object."""
    if not is_local(file):
        found = object_store.facts([file])[0]
        return (found.size, found.version), found.tag
    try:
        status = os.stat(file)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}", file) from None
    return (status.st_size, status.st_mtime_ns), ""


def _facts(version: tuple[int, int | str], details: list[str | int]) -> str:
    return json.dumps([*details[:1], *version, *details[1:]])


def _stored(place: Path | io.BytesIO, names: tuple[str, ...], facts: str) -> list[np.ndarray] | None:
    """Returns the columns of a stored index if it was made for these facts."""
    with contextlib.suppress(*_UNREADABLE), np.load(place) as stored:
        if str(stored["facts"]) == facts:
            return [stored[name] for name in names]
    return None


def _stored_here(request: IndexRequest, facts: str) -> list[np.ndarray] | None:
    """Returns the columns of the index that this host has stored."""
    found = (_stored(path, request.names, facts) for path in _paths(request.file))
    return next((columns for columns in found if columns is not None), None)


def _stored_next_to(request: IndexRequest, facts: str) -> list[np.ndarray] | None:
    """Returns the columns of the index next to an object."""
    place = f"{request.file}{INDEX_SUFFIX}"
    try:
        content = bytes(object_store.read([place])[0])
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            log.info("an index next to the object is not used: %s", error)
        return None
    if (columns := _stored(io.BytesIO(content), request.names, facts)) is None:
        log.warning(
            "%s is not used: it is damaged, or was made for another version of the file or other arguments; "
            "`tfhet index` replaces it",
            place,
        )
    return columns


def _content(columns: list[np.ndarray], names: tuple[str, ...], facts: str) -> bytes:
    """Returns the bytes of an index."""
    with io.BytesIO() as file:
        stored = {"facts": np.array(facts), **dict(zip(names, columns, strict=True))}
        np.savez(file, **stored)  # type: ignore[arg-type]
        return file.getvalue()


def _paths(file: str) -> Iterator[Path]:
    if is_local(file):
        yield Path(f"{file}{INDEX_SUFFIX}")
    name = hashlib.blake2b(os.fsencode(absolute(file)), digest_size=16).hexdigest()
    yield cache_dir(environment()) / "indexes" / f"{name}{INDEX_SUFFIX}"


def _write(path: Path, content: bytes) -> None:
    """Writes an index, whole or not at all. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".tfhet-index-", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
