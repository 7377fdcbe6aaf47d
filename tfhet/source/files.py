"""The files of a data set: their paths, digests that tell them from other files, and the records of TFRecord files."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from tfhet import extras, kernels
from tfhet.errors import DataError, UsageError
from tfhet.extras import tensorflow as tf
from tfhet.source import object_store

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
"""Paths, a directory, or a glob pattern."""
PATTERN = "*.tfrecord*"
INDEX_SUFFIX = ".tfhet-index.npz"
"""End of the name of the index of a file; it is no data."""
READERS = 4
"""Number of local files that are read at the same time: a file system on the network answers each after a while."""
REMOTE_READERS = 16
"""Number of objects that are indexed at the same time."""
_BLOCK_BYTES = 4 << 20
"""Bytes of an object that are read at a time to index it."""
_EDGE_BYTES = 4096
_READ_BYTES, _BUFFER_BYTES = 64 << 10, 256 << 10
"""Sizes of the read buffers for one record, and for a file as in TFRecordDataset."""


def files_of(files: Files, pattern: str = PATTERN, kind: str = "TFRecord") -> tuple[str, ...]:
    """Returns the paths, sorted, of a list of paths, a directory, or a glob pattern.

    A path that exists is no pattern, whatever characters it has. Hidden files and indexes are no data.

    Args:
        pattern: Pattern of the names of a directory's files.
        kind: Name of the format, for errors.

    Raises:
        UsageError: There is no file, or one is named twice.
    """
    if not isinstance(files, (str, os.PathLike)):
        paths, wanted = [os.fspath(file) for file in files], "the list of files is empty"
    else:
        place = os.fspath(files)
        wanted = f"{place} does not exist; check the path or the channel's name"
        if place.startswith("http"):
            wanted = f"{place} does not exist, or is a folder, which HTTP does not list: pass the URLs of its files"
        if object_store.is_url(place) and _is_pattern(place):
            paths = _matching(place)
        elif _is_directory(place):
            names = fnmatch.filter(_names(place), pattern)
            paths = [os.path.join(place, name) for name in names if _is_data(name)]
            wanted = f"no file of the directory {place} is called {pattern}"
        elif exists(place):
            paths = [place]
        else:
            paths = _matching(place) if _is_pattern(place) else []
    if not paths:
        raise UsageError(f"no {kind} files: {wanted}")
    ordered = tuple(sorted(paths))
    if twice := {a for a, b in itertools.pairwise(ordered) if a == b}:
        raise UsageError(f"files named twice: {', '.join(sorted(twice))}")
    return ordered


def readable_files_of(files: Files, pattern: str, kind: str) -> tuple[str, ...]:
    """Does the same for files that are read without TensorFlow. Raises UsageError for others, too."""
    for place in [os.fspath(file) for file in ([files] if isinstance(files, str | os.PathLike) else files)]:
        check_readable(place, kind)
    return files_of(files, pattern, kind)


def check_readable(path: str, kind: str) -> None:
    """Raises UsageError for a path that cannot be read without TensorFlow, MissingPackage if obstore is missing."""
    if is_local(path) or object_store.is_url(path):
        return
    if path.partition("://")[0] in object_store.SCHEMES:
        extras.check(["obstore"], path)
    known = ", ".join(f"{scheme}://" for scheme in object_store.SCHEMES)
    raise UsageError(
        f"{path} is not on this host: copy the {kind} files to it, mount them, or name them by a URL of {known}"
    )


def is_local(path: str) -> bool:
    """Whether a path is one of this host's file system."""
    return "://" not in path


def is_remote(paths: Sequence[str]) -> bool:
    """Whether there are paths that `object_store` reads."""
    return any(map(object_store.is_url, paths))


def exists(path: str) -> bool:
    if object_store.is_url(path):
        return object_store.exists(path)
    return os.path.exists(path) if is_local(path) else bool(tf.io.gfile.exists(path))


def absolute(path: str) -> str:
    return os.path.abspath(path) if is_local(path) else path


def opened(path: str) -> BinaryIO:
    """Opens a file to read it from its beginning on. Raises OSError; DataError for an object."""
    if object_store.is_url(path):
        return object_store.opened(path, _BLOCK_BYTES)
    return open(path, "rb")


def readers(paths: Sequence[str]) -> ThreadPoolExecutor:
    """Returns threads that open and read these files."""
    return ThreadPoolExecutor(REMOTE_READERS if is_remote(paths) else READERS)


def read_files(
    paths: Sequence[str], offsets: Any = None, lengths: Any = None, *, threads: int = 1, tags: Any = None
) -> Sequence[bytes]:
    """Does what `kernels.read_files` does, also for objects. Their lengths are known if their offsets are.

    Args:
        tags: See `object_store.read`.
    """
    if not is_remote(paths):
        return kernels.read_files(paths, offsets, lengths, threads=threads)
    if len({object_store.is_url(path) for path in paths}) == 1:
        return object_store.read(paths, offsets, lengths, tags)
    found: list[bytes] = [b""] * len(paths)
    for is_url in (True, False):
        at = [item for item, path in enumerate(paths) if object_store.is_url(path) is is_url]
        some = (None if each is None else np.asarray(each)[at] for each in (offsets, lengths))
        part = read_files([paths[item] for item in at], *some, threads=threads)
        for item, content in zip(at, part, strict=True):
            found[item] = content
    return found


def _names(folder: str) -> list[str]:
    """Returns the names in a directory; of objects those without a further `/`."""
    if object_store.is_url(folder):
        size = len(folder.rstrip("/")) + 1
        return [name for url in object_store.listed(folder) if "/" not in (name := url[size:])]
    return os.listdir(folder) if is_local(folder) else list(tf.io.gfile.listdir(folder))


def _matching(pattern: str) -> list[str]:
    """Returns the paths of a glob pattern, without hidden files and indexes."""
    if not object_store.is_url(pattern):
        found = (glob.glob if is_local(pattern) else tf.io.gfile.glob)(pattern)
    else:
        parts = pattern.split("/")
        urls = object_store.listed("/".join(itertools.takewhile(lambda part: not _is_pattern(part), parts)))
        split = ((url, url.split("/")) for url in urls)
        found = [url for url, names in split if len(names) == len(parts) and all(map(fnmatch.fnmatch, names, parts))]
    return [path for path in found if _is_data(os.path.basename(path))]


def _is_data(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(INDEX_SUFFIX)


def _is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def _is_directory(path: str) -> bool:
    if object_store.is_url(path):
        return not path.startswith("http") and bool(object_store.listed(path))
    return os.path.isdir(path) if is_local(path) else bool(tf.io.gfile.isdir(path))


def identities(files: Sequence[str]) -> list[list[str | int]]:
    """Returns for each file its path below the files' common directory, in which hosts may differ, its size in bytes,
    and a digest of its ends. Raises DataError for a file that cannot be opened."""
    shared = os.path.commonprefix(files).rfind("/") + 1
    with readers(files) as pool:
        return list(pool.map(lambda file: [file[shared:], size := _size(file), _edges(file, size)], files))


def _size(file: str) -> int:
    if object_store.is_url(file):
        return object_store.facts([file])[0].size
    try:
        return os.path.getsize(file) if is_local(file) else int(tf.io.gfile.stat(file).length)
    except OSError as error:
        raise DataError(f"cannot look at {file}: {error.strerror}", path=file) from None
    except tf.errors.OpError as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"cannot look at {file}: {reason}", path=file) from None


def _edges(file: str, size: int) -> str:
    """Returns a digest of a file's ends, which differ when other data were written; "" if they cannot be read."""
    if object_store.is_url(file):
        edge = min(size, _EDGE_BYTES)
        ends = object_store.read([file] * 2, [0, max(0, size - _EDGE_BYTES)], [edge] * 2)
        return hashlib.blake2b(b"".join(ends), digest_size=8).hexdigest()
    try:
        with open(file, "rb") if is_local(file) else tf.io.gfile.GFile(file, "rb") as content:
            head = content.read(_EDGE_BYTES)
            content.seek(max(0, size - _EDGE_BYTES))
            return hashlib.blake2b(head + content.read(), digest_size=8).hexdigest()
    except OSError:
        return ""
    except tf.errors.OpError:
        return ""


def all_records(file: tf.Tensor, compression: str, skips: bool = False) -> tf.data.Dataset:
    """Returns the records, string [], of a file, string []. compression: TensorFlow's name, "" for none."""
    if not skips:
        return tf.data.TFRecordDataset(file, compression)

    # TFRecordDataset reports a file that it cannot open again and again: ignored, that would have no end.
    def opening(name: tf.Tensor) -> tf.Tensor:
        first = tf.data.TFRecordDataset(name, compression).take(1)
        with tf.control_dependencies([first.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1)]):
            return tf.identity(name)

    opened = tf.data.Dataset.from_tensors(file).map(tf.autograph.experimental.do_not_convert(opening))
    return opened.flat_map(lambda name: tf.data.TFRecordDataset(name, compression))


def records_from(
    file: tf.Tensor, compression: str, position: tf.Tensor, offset: tf.Tensor, buffer_bytes: int = _BUFFER_BYTES
) -> tf.data.Dataset:
    """Returns the records from the one at `position` on, which starts at byte `offset`, int64 []."""
    if compression:  # unpacked from its beginning, because no other byte of it can be found
        return tf.data.TFRecordDataset(file, compression).skip(position)
    variant = tf.raw_ops.TFRecordDatasetV2(  # the public TFRecordDataset begins at the first record
        filenames=file[tf.newaxis], compression_type="", buffer_size=buffer_bytes, byte_offsets=offset[tf.newaxis]
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def record_at(file: tf.Tensor, compression: str, position: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Returns one record, string []; raises InvalidArgumentError at the end of the file."""
    return records_from(file, compression, position, offset, _READ_BYTES).take(1).get_single_element()
