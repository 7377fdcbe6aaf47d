"""The files of a data set: their paths, digests that tell them from other files, and the records of TFRecord files."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import itertools
import os
from collections.abc import Sequence
from typing import TypeAlias

from tfhet.errors import DataError, UsageError
from tfhet.extras import tensorflow as tf

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
"""Paths, a directory, or a glob pattern."""
PATTERN = "*.tfrecord*"
_EDGE_BYTES = 4096
_READ_BYTES, _BUFFER_BYTES = 64 << 10, 256 << 10
"""Sizes of the read buffers for one record, and for a file as in TFRecordDataset."""


def files_of(files: Files, pattern: str = PATTERN, kind: str = "TFRecord") -> tuple[str, ...]:
    """Returns the paths, sorted, of a list of paths, a directory, or a glob pattern.

    A path that exists is no pattern, whatever characters it has. Hidden files are no data.

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
        if _is_directory(place):
            names = fnmatch.filter(os.listdir(place) if is_local(place) else tf.io.gfile.listdir(place), pattern)
            paths = [os.path.join(place, name) for name in names if not name.startswith(".")]
            wanted = f"no file of the directory {place} is called {pattern}"
        elif exists(place):
            paths = [place]
        else:
            found = (glob.glob if is_local(place) else tf.io.gfile.glob)(place)
            paths = found if any(mark in place for mark in "*?[") else []
            paths = [path for path in paths if not os.path.basename(path).startswith(".")]
    if not paths:
        raise UsageError(f"no {kind} files: {wanted}")
    ordered = tuple(sorted(paths))
    if twice := {a for a, b in itertools.pairwise(ordered) if a == b}:
        raise UsageError(f"files named twice: {', '.join(sorted(twice))}")
    return ordered


def local_files_of(files: Files, pattern: str, kind: str) -> tuple[str, ...]:
    """Does the same for files of this host. Raises UsageError for others, too."""
    for place in [files] if isinstance(files, str | os.PathLike) else files:
        if not is_local(os.fspath(place)):
            raise UsageError(f"{place} is not on this host: copy the {kind} files to it, or mount them")
    return files_of(files, pattern, kind)


def is_local(path: str) -> bool:
    """Whether a path is one of this host's file system; TensorFlow opens others."""
    return "://" not in path


def exists(path: str) -> bool:
    return os.path.exists(path) if is_local(path) else bool(tf.io.gfile.exists(path))


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) if is_local(path) else bool(tf.io.gfile.isdir(path))


def identities(files: Sequence[str]) -> list[list[str | int]]:
    """Returns for each file its path below the files' common directory, in which hosts may differ, its size in bytes,
    and a digest of its ends. Raises DataError for a file that cannot be opened."""
    shared = os.path.commonprefix(files).rfind("/") + 1
    return [[file[shared:], size := _size(file), _edges(file, size)] for file in files]


def _size(file: str) -> int:
    try:
        return os.path.getsize(file) if is_local(file) else int(tf.io.gfile.stat(file).length)
    except OSError as error:
        raise DataError(f"cannot look at {file}: {error.strerror}", path=file) from None
    except tf.errors.OpError as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"cannot look at {file}: {reason}", path=file) from None


def _edges(file: str, size: int) -> str:
    """Returns a digest of a file's ends, which differ when other data were written; "" if they cannot be read."""
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
