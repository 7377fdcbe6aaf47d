"""TFRecord files as a source: a split is one file."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfhet.errors import DataError, UsageError
from tfhet.source import examples
from tfhet.source.feature import Encoded, Feature, Native
from tfhet.source.framing import walk
from tfhet.source.sidecar import Sidecar
from tfhet.source.source import example_id

PATTERN = "*.tfrecord*"
_EDGE_BYTES = 4096


class TFRecordSource:
    """Uncompressed TFRecord files of `tf.train.Example`; splits are the files in the order of their names."""

    name = "tfrecord"

    def __init__(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        features: Mapping[str, Any],
        counts: Mapping[str, int] | None = None,
    ):
        """files: a list of paths, a directory, or a glob pattern; local, or what tf.io.gfile can open.

        features: by their name in the Example; `Raw`, `Scalar`, `Fixed`, `Encoded`, or any of tf.io. counts: examples
        by path, where known. Raises UsageError when no file is found or one is named twice.
        """
        self.files = _found(files)
        self.features: dict[str, Feature] = {
            name: feature if isinstance(feature, Feature) else Native(feature) for name, feature in features.items()
        }
        if not self.features:
            raise UsageError("a TFRecord source needs at least one feature, like {'label': Scalar('int64')}")
        self._counts = dict(counts or {})

    @classmethod
    def from_directory(
        cls,
        directory: str | os.PathLike[str],
        features: Mapping[str, Any] | None = None,
        size: tuple[int, int] | None = None,
    ) -> TFRecordSource:
        """The `*.tfrecord*` files of a directory, with the features and counts of its `tfhet.json` where not given.

        size: height and width to which encoded images are brought. Raises UsageError when the directory is missing,
        holds no such file or lacks one that `tfhet.json` lists, or when neither that nor the caller names the features.
        """
        files = _found(directory)
        sidecar = Sidecar.read(directory)
        if features is None:
            if sidecar is None:
                raise UsageError(f"{directory} has no {Sidecar.NAME} that names its features: give features=")
            features = sidecar.features
        if size is not None:
            features = {name: _sized(feature, size) for name, feature in features.items()}
        listed = sidecar.files if sidecar is not None else {}
        lost = sorted(set(listed) - {os.path.basename(file) for file in files})
        if lost:
            raise UsageError(f"{directory} lacks {len(lost)} files that its {Sidecar.NAME} lists, the first {lost[0]}")
        counts = {file: listed[name] for file in files if (name := os.path.basename(file)) in listed}
        return cls(files, features, counts)

    def split_count(self) -> int:
        return len(self.files)

    def example_count(self) -> int | None:
        """Known from the directory's `tfhet.json`, or after `check`."""
        known = [self._counts[file] for file in self.files if file in self._counts]
        return sum(known) if len(known) == len(self.files) else None

    def read(self, split: tf.Tensor) -> tf.data.Dataset:
        """Yields (position, serialised Example)."""
        return tf.data.TFRecordDataset(tf.gather(tf.constant(self.files), split)).enumerate()

    def parse(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        """records: string [batch] -> each feature as its spec says."""
        return examples.parse(records, self.features)

    def reads_blocks(self) -> bool:
        return examples.blocks_readable(self.files, self.features)

    def read_blocks(self, split: tf.Tensor, epoch: tf.Tensor) -> tf.data.Dataset:
        file = tf.gather(tf.constant(self.files), split)
        return examples.read_blocks(file, example_id(split, tf.constant(0, tf.int64)), epoch, self.features)

    @property
    def spec(self) -> dict[str, tf.TensorSpec]:
        return {name: feature.spec for name, feature in self.features.items()}

    def fingerprint(self) -> str:
        """Of the files' names and sizes and the features; not of their common directory, which may differ by host."""
        shared = os.path.commonprefix(self.files).rfind("/") + 1
        files = [[file[shared:], _size(file), _edges(file)] for file in self.files]
        features = {name: feature.as_json() for name, feature in self.features.items()}
        document = json.dumps([self.name, files, features], sort_keys=True)
        return hashlib.blake2b(document.encode(), digest_size=16).hexdigest()

    def check(self) -> None:
        """Walks every file's framing (lengths and their checksums, not the data) and parses the first record.

        Raises UsageError for a missing file, no records at all, or features that the records lack; DataError with path
        and byte offset for a broken file.
        """
        for file in self.files:
            self._counts[file] = sum(1 for _ in walk(file))
        if not self.example_count():
            raise UsageError(f"no records in {len(self.files)} files, the first of them {self.files[0]}")
        self._check_features()

    def _check_features(self) -> None:
        file = next(file for file in self.files if self._counts[file])
        record = next(iter(tf.data.TFRecordDataset(file).take(1)))
        try:
            self.parse(record[tf.newaxis])
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            wanted = ", ".join(f"{name}: {feature}" for name, feature in self.features.items())
            raise UsageError(
                f"the records of {file} do not fit the features ({wanted}); they hold {_held(record)}:"
                f" {_first_line(error)}"
            ) from None


def _found(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(files, (str, os.PathLike)):
        place = os.fspath(files)
        if tf.io.gfile.isdir(place):
            found = tf.io.gfile.glob(os.path.join(place, PATTERN))
            wanted = f"{PATTERN} in {place}"
        elif any(mark in place for mark in "*?["):
            found, wanted = tf.io.gfile.glob(place), place
        else:
            found, wanted = [place] if tf.io.gfile.exists(place) else [], place
        if not found:
            raise UsageError(f"no TFRecord files: {wanted} does not exist; check the path or the channel's name")
    else:
        found = [os.fspath(file) for file in files]
        if not found:
            raise UsageError("no TFRecord files: the list of files is empty")
    ordered = tuple(sorted(found))
    twice = {a for a, b in itertools.pairwise(ordered) if a == b}
    if twice:
        raise UsageError(f"files named twice: {', '.join(sorted(twice))}")
    return ordered


def _sized(feature: Any, size: tuple[int, int]) -> Any:
    return dataclasses.replace(feature, height=size[0], width=size[1]) if isinstance(feature, Encoded) else feature


def _size(file: str) -> int:
    try:
        return int(tf.io.gfile.stat(file).length)
    except tf.errors.OpError as error:
        raise DataError(f"cannot look at {file}: {_first_line(error)}", path=file) from None


def _edges(file: str) -> str:
    """A digest of a local file's beginning and end, which hold the first and the last record or their checksums: data
    that were written anew differ there, under the same names and often of the same size. "" for a remote file."""
    try:
        with open(file, "rb") as content:
            head = content.read(_EDGE_BYTES)
            content.seek(max(0, os.fstat(content.fileno()).st_size - _EDGE_BYTES))
            return hashlib.blake2b(head + content.read(), digest_size=8).hexdigest()
    except OSError:
        return ""


def _held(record: tf.Tensor) -> str:
    try:
        example = tf.train.Example.FromString(record.numpy())
    except Exception:  # noqa: BLE001  protobuf's DecodeError lives at another place in each of its versions
        return "no tf.train.Example"
    held = sorted((name, value.WhichOneof("kind") or "empty") for name, value in example.features.feature.items())
    return ", ".join(f"{name} ({kind.removesuffix('_list')})" for name, kind in held) or "no features"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
