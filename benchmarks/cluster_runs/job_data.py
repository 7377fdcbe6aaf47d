"""The data of jobs that are measured: few records in as many files as a run reads, all of them links to the same.

They are written by a process of its own: that needs TensorFlow, and the suite's own process is to stay small.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import child_environment
from tfhet.bench.child_process import AnsweringProcess, answer_requests

PHOTOS = 512
LEAST_FILES = 32
"""So that no worker lacks one."""
FILE_BATCHES = 4
"""A worker asks the dispatcher for each file."""
LIMIT_S = 180.0


def write_apart(directory: Path, chain: str, batch_size: int, batches: int) -> None:
    """`write`, in a process of its own. Raises TfhetError."""
    asked = {"directory": str(directory), "chain": chain, "batch_size": batch_size, "batches": batches}
    with AnsweringProcess.of_module("benchmarks.cluster_runs.job_data", env=child_environment()) as process:
        process.ask(asked, LIMIT_S)


def write(directory: Path, chain: str, batch_size: int, batches: int) -> None:
    """Makes `directory`: files of digits, FILE_BATCHES in each, or of photos, as they come; for so many batches."""
    from tfhet import stages
    from tfhet.source import Sidecar, TFRecordSource, digits, photos

    directory.mkdir(parents=True)
    parsed = stages.parse(chain)
    is_photos = bool(parsed) and parsed[0].name == "decode"
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        if is_photos:
            files = list(TFRecordSource.from_directory(photos.photos(count=PHOTOS)).files)
            each = PHOTOS // len(files)
        else:
            files = list(digits.repeated(Path(scratch), FILE_BATCHES * batch_size * digits.REPEATED_SHARDS).files)
            each = FILE_BATCHES * batch_size
        wanted = max(LEAST_FILES, -(-batches * batch_size // each))
        counts = {}
        for index in range(wanted):
            name = f"part-{index:05d}-of-{wanted:05d}.tfrecord"
            _link(files[index % len(files)], directory / name)
            counts[name] = each
        classes = tuple(map(str, range(2 if is_photos else 10)))
        Sidecar(photos.FEATURES if is_photos else digits.FEATURES, counts, classes).write(directory)


def _link(file: str, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # another file system
        name.symlink_to(file)


def _written(asked: dict[str, Any]) -> dict[str, Any]:
    write(Path(asked["directory"]), asked["chain"], asked["batch_size"], asked["batches"])
    return {}


if __name__ == "__main__":
    answer_requests(_written)
