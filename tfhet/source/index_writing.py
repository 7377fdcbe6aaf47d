"""Indexes next to their files, for all hosts: `tfhet index`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfhet.errors import UsageError
from tfhet.source.files import Files, is_remote, readable_files_of, readers
from tfhet.source.framing import compression
from tfhet.source.index_file import IndexRequest, write_index
from tfhet.source.record_loading import index_request
from tfhet.source.tar_source import TarSource


def write_tar_indexes(source: TarSource, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Writes the index of each tar next to it, `NAME.tar.tfhet-index.npz`, unless it is there and up to date.

    Args:
        source: The tars, with the extensions of images and labels that the training will use.
        progress: Called with the number of files that are done, and of all files.

    Returns:
        The number of indexes that were written.

    Raises:
        UsageError: The tars are on an HTTP server.
        DataError: A tar cannot be read, or its index cannot be written.
    """
    return _written([source.index_request(tar) for tar in source.tars], progress)


def write_record_indexes(files: Files, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Does the same for TFRecord files in an object store. Raises UsageError for local or compressed files, too."""
    paths = readable_files_of(files, "*.tfrecord*", "TFRecord")
    if not is_remote(paths):
        raise UsageError(f"{paths[0]}: local TFRecord files need no index")
    if (found := compression(paths[0])) != "":
        raise UsageError(f"{paths[0]} is compressed ({found}), so it is unpacked before it is indexed")
    return _written([index_request(path) for path in paths], progress)


def _written(requests: Sequence[IndexRequest], progress: Callable[[int, int], None]) -> int:
    written = 0
    with readers([request.file for request in requests]) as pool:
        for done, is_new in enumerate(pool.map(write_index, requests), 1):
            written += is_new
            progress(done, len(requests))
    return written
