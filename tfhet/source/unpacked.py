"""Copies of compressed TFRecord files without their compression, so that records can be read in any order.

Each file is unpacked once per host, into the user's cache; a copy that no process has opened for KEPT_DAYS is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.cluster import cache_dir, environment
from tfhet.errors import DataError, NotReady, UsageError
from tfhet.file_lock import locked
from tfhet.source import object_store
from tfhet.source.files import absolute, is_local
from tfhet.source.framing import compression, opened_content

KEPT_DAYS = 30
"""Days after which a copy that was not opened is removed."""
LIMIT_S = 1800.0
"""Seconds that a process waits for another one that unpacks the same file."""
_PIECE_BYTES = 1 << 20
log = logging.getLogger("tfhet")


def unpacked(files: Sequence[str], compressed: str) -> tuple[str, ...]:
    """Returns the copies of compressed files, which are made if they are missing.

    Args:
        compressed: Compression of all files, "GZIP" or "ZLIB".

    Raises:
        DataError: A file is missing, cut or broken, or the disk of the cache is full.
        NotReady: Another process unpacks a file for more than LIMIT_S.
        UsageError: A file is not compressed, or in another way.
    """
    folder = cache_dir(environment()) / "unpacked"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_old(folder)
    copies = tuple(str(folder / _name(file)) for file in files)
    missing = [(file, copy) for file, copy in zip(files, copies, strict=True) if not _is_used(copy)]
    if missing:
        log.info("%d %s files are unpacked into %s (XDG_CACHE_HOME)", len(missing), compressed, folder)
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib releases Python's lock
            list(pool.map(lambda each: _unpack(each[0], each[1], compressed), missing))
        size = sum(os.path.getsize(copy) for _, copy in missing)
        log.info("%.2f GB were unpacked; they are removed if unused for %d days", size / 1e9, KEPT_DAYS)
    return copies


def _name(file: str) -> str:
    """Returns the name of a file's copy, which another content of the file does not have."""
    if is_local(file):
        try:
            found = os.stat(file)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}", file) from None
        version = str((found.st_size, found.st_mtime_ns))
    else:
        version = str(object_store.facts([file])[0])
    return f"{hashlib.blake2b(os.fsencode(f'{absolute(file)} {version}'), digest_size=16).hexdigest()}.tfrecord"


def _unpack(file: str, copy: str, compressed: str) -> None:
    try:
        with locked(Path(f"{copy}.lock"), LIMIT_S):
            if _is_used(copy):  # by the process that had the lock before
                return
            if (found := compression(file)) != compressed:
                words = f"{found or 'not compressed'}, and files before it are {compressed}"
                raise UsageError(f"{file} is {words}: compress all files of a data set alike, or none")
            with tempfile.NamedTemporaryFile(dir=os.path.dirname(copy), prefix=".part-", delete=False) as made:
                try:
                    with opened_content(file) as content:
                        while part := content.read(_PIECE_BYTES):
                            made.write(part)
                        if content.fault:
                            raise DataError(f"{file} is broken: {content.fault}", file)
                    made.flush()
                    os.replace(made.name, copy)
                except BaseException:
                    os.unlink(made.name)
                    raise
    except OSError as error:
        folder = os.path.dirname(copy)
        raise DataError(
            f"{file} cannot be unpacked into {folder}: {error.strerror}: set XDG_CACHE_HOME to a folder with more "
            "room, or write the files without compression",
            file,
        ) from None
    except NotReady as error:
        raise NotReady(f"{file} is unpacked by another process: {error}") from None


def _is_used(copy: str) -> bool:
    """Notes that a copy is used now; returns whether it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(copy)
        return True
    return False


def _remove_old(folder: Path) -> None:
    oldest_s = SYSTEM.wall() - KEPT_DAYS * 86400
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest_s:
                path.unlink()
