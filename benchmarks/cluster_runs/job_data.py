"""The training channel of a measured job: a few records, in as many files as a run reads, all hard links to the same.

A child process writes it, because that needs TensorFlow, and the suite's own process should stay small.
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
"""So that each worker has a file."""
FILE_BATCHES = 4
"""Batches per file of digits. A worker requests each file from the dispatcher."""
LIMIT_S = 180.0


def write_channel(directory: Path, chain: str, batch_size: int, batches: int) -> None:
    """Writes records for `batches` batches of a chain's images into the new `directory`. Raises TfhetError."""
    request = {"directory": str(directory), "chain": chain, "batch_size": batch_size, "batches": batches}
    with AnsweringProcess.of_module("benchmarks.cluster_runs.job_data", env=child_environment()) as process:
        process.ask(request, LIMIT_S)


def _write(directory: Path, chain: str, batch_size: int, batches: int) -> None:
    from tfhet import stages
    from tfhet.source import Sidecar, TFRecordSource, digits, photos

    directory.mkdir(parents=True)
    parsed = stages.parse(chain)
    is_photos = bool(parsed) and parsed[0].name == "decode"
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        if is_photos:
            files = list(TFRecordSource.from_directory(photos.photos(count=PHOTOS)).files)
            per_file = PHOTOS // len(files)
        else:
            per_file = FILE_BATCHES * batch_size
            files = list(digits.repeated(Path(scratch), per_file * digits.REPEATED_SHARDS).files)
        count = max(LEAST_FILES, -(-batches * batch_size // per_file))
        names = [f"part-{index:05d}-of-{count:05d}.tfrecord" for index in range(count)]
        for index, name in enumerate(names):
            _link(files[index % len(files)], directory / name)
        classes = tuple(map(str, range(2 if is_photos else 10)))
        features = photos.FEATURES if is_photos else digits.FEATURES
        Sidecar(features, dict.fromkeys(names, per_file), classes).write(directory)


def _link(file: str, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # another file system
        name.symlink_to(file)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    _write(Path(request["directory"]), request["chain"], request["batch_size"], request["batches"])
    return {}


if __name__ == "__main__":
    answer_requests(_answer)
