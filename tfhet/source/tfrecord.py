"""TFRecord files as a source: a split is one file.

    from tfhet import Pipeline, TFRecordSource
    from tfhet.source import Encoded, Scalar

    source = TFRecordSource("train/*.tfrecord", {"image": Encoded(), "label": Scalar("int64")})
    batches = Pipeline(source, "decode(); random_resized_crop(224, 224); rescale()", batch_size=64).dataset()

Files are local, or where `object_store` or tf.io.gfile can read; local ones of numbers alone are read in blocks.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from tfhet.errors import DataError, UsageError, check_known, some
from tfhet.extras import tensorflow as tf
from tfhet.source import examples
from tfhet.source.array_spec import ArraySpec
from tfhet.source.feature import Encoded, Feature, Native, from_json
from tfhet.source.files import READERS, all_records, files_of, identities, record_at, records_from
from tfhet.source.framing import compression, fault, reach
from tfhet.source.record_loading import RecordLoading
from tfhet.source.source import BadRecord, checked_ids, example_id, position_of, split_of
from tfhet.source.writing import Sidecar, class_numbers

log = logging.getLogger("tfhet")

ON_BAD_RECORD = ("fail", "skip")
_GROUP = 64
"""Number of files that a thread checks at a time."""
_TRIED = 64
"""Number of records among which `check` looks for one that fits, where bad ones are skipped."""


class TFRecordSource(RecordLoading):
    """TFRecord files of `tf.train.Example`, plain or all compressed alike. Splits are the files, ordered by name."""

    name = "tfrecord"

    def __init__(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        features: Mapping[str, Any],
        counts: Mapping[str, int] | None = None,
        on_bad_record: str = "fail",
        numbers: Sequence[int] = (),
    ):
        """files: a list of paths, a directory, or a glob pattern; local, in an object store, or of tf.io.gfile.

        features: `Raw`, `Scalar`, `Fixed`, `Encoded` or a feature of tf.io, by name in the Example. counts: number of
        examples by path, where known. on_bad_record: whether `check` fails for a broken file ("fail") or omits the
        records that cannot be reached in it ("skip"). numbers: those as which the feature `label`, 0, 1, ... in the
        files, is read; none for as it is. Raises UsageError when no file is found or one is named twice.
        """
        check_known("on_bad_record", on_bad_record, ON_BAD_RECORD)
        self.files = files_of(files)
        self.features: dict[str, Feature] = {
            name: feature if isinstance(feature, Feature) else Native(feature) for name, feature in features.items()
        }
        if not self.features:
            raise UsageError("a TFRecord source needs at least one feature, like {'label': Scalar('int64')}")
        self.on_bad_record = on_bad_record
        self.numbers = tuple(numbers)
        if self.numbers and ("label" not in self.features or not ArraySpec.of(self.spec["label"]).is_integer):
            raise UsageError(f"only integer labels can be renumbered, not the label {self.features.get('label')}")
        self._listed = dict(counts or {})
        self._reached: dict[str, int] = {}
        self._damages: tuple[BadRecord, ...] = ()

    @classmethod
    def from_directory(
        cls,
        directory: str | os.PathLike[str],
        features: Mapping[str, Any] | None = None,
        size: tuple[int, int] | None = None,
        on_bad_record: str = "fail",
        classes: Sequence[str] = (),
    ) -> TFRecordSource:
        """Returns the source of a directory's TFRecord files.

        `tfhet.json` lists the files, with their counts, and the features by default; other files are no data, and the
        log counts them. Without it the files are `*.tfrecord*`, except hidden ones.

        size: height and width to which encoded images are resized. classes: the training data's, for a validation set:
        a label gets the number that its class has there, if `tfhet.json` names the classes. Raises UsageError when the
        directory is missing or holds no such file, when a file is missing that `tfhet.json` lists, when nothing names
        the features, or for a class that is not among `classes`.
        """
        files = files_of(directory)
        sidecar = Sidecar.read(directory)
        if features is None:
            if sidecar is None:
                raise UsageError(f"{directory} has no {Sidecar.NAME} that names its features: give features=")
            features = sidecar.features
        if size is not None:
            height, width = size
            encoded = ((name, feature) for name, feature in features.items() if isinstance(feature, Encoded))
            features = {**features, **{name: replace(each, height=height, width=width) for name, each in encoded}}
        listed = sidecar.files if sidecar is not None else {}
        if lost := sorted(set(listed) - {os.path.basename(file) for file in files}):
            raise UsageError(f"{directory} lacks {len(lost)} files that its {Sidecar.NAME} lists, the first {lost[0]}")
        if listed and (others := [file for file in files if os.path.basename(file) not in listed]):
            log.warning("%s lists no %s, so they are no data", Sidecar.NAME, some(others, 5))
            files = tuple(file for file in files if os.path.basename(file) in listed)
        counts = {file: listed[name] for file in files if (name := os.path.basename(file)) in listed}
        numbers = class_numbers(sidecar.classes, classes, directory) if sidecar is not None and classes else ()
        is_same = "label" not in features or numbers == tuple(range(len(numbers)))
        return cls(files, features, counts, on_bad_record, () if is_same else numbers)

    def with_files(self, splits: Sequence[int]) -> TFRecordSource:
        """Returns the source of some of the files, by their numbers."""
        files = [self.files[split] for split in splits]
        return TFRecordSource(files, self.features, self._listed, self.on_bad_record, self.numbers)

    def split_count(self) -> int:
        return len(self.files)

    def example_count(self) -> int | None:
        return None if (sizes := self.split_sizes()) is None else sum(sizes)

    def split_sizes(self) -> tuple[int, ...] | None:
        """Known after `check`; before, from the directory's `tfhet.json`, unless bad records are skipped."""
        known = self._reached or ({} if self._skips else self._listed)
        return tuple(known[file] for file in self.files) if known.keys() >= set(self.files) else None

    def read(self, split: tf.Tensor) -> tf.data.Dataset:
        """Returns (position, serialised Example) of one file; without bad records, those that `check` could reach."""
        records = all_records(tf.gather(tf.constant(self.files), split), self.compression, self._skips)
        sizes = self.split_sizes() if self._skips else None
        if sizes is not None:
            records = records.take(tf.gather(tf.constant(sizes, tf.int64), split))
        return records.enumerate()

    @functools.cached_property
    def compression(self) -> str:
        """Compression of the files, by the first of them: "GZIP", "ZLIB", or "" for none."""
        return compression(self.files[0])

    def starts(self, positions: np.ndarray) -> np.ndarray:
        if self.compression:  # `read_from` goes by the position
            return np.zeros_like(positions)
        places = zip(self.files, positions.tolist(), strict=True)
        return np.array([reach([file], position)[0][1] if position else 0 for file, position in places], np.int64)

    def read_from(self, split: tf.Tensor, position: tf.Tensor, offset: tf.Tensor) -> tf.data.Dataset:
        file = tf.gather(tf.constant(self.files), split)
        return records_from(file, self.compression, position, offset).enumerate(position)

    def read_at(self, ids: Sequence[int] | np.ndarray) -> tf.data.Dataset:
        numbers = checked_ids(ids, self.split_count())
        places = np.array([offset for _, offset in self.places(numbers)], np.int64)
        files, compressed = tf.constant(self.files), self.compression

        def one(split: tf.Tensor, position: tf.Tensor, offset: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            return split, position, record_at(tf.gather(files, split), compressed, position, offset)

        records = tf.data.Dataset.from_tensor_slices((split_of(numbers), position_of(numbers), places))
        work = tf.autograph.experimental.do_not_convert(one)
        return records.map(work, num_parallel_calls=READERS, deterministic=True)

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        """Finds records by walking their files' framing; one that cannot be reached lies where its file breaks off."""
        numbers = checked_ids(ids, self.split_count())
        splits, positions = split_of(numbers), position_of(numbers)
        most = {split: int(positions[splits == split].max()) for split in np.unique(splits).tolist()}
        starts = {split: self._offsets(split, last) for split, last in most.items()}
        places = zip(splits.tolist(), positions.tolist(), strict=True)
        return [(self.files[split], starts[split][min(at, len(starts[split]) - 1)]) for split, at in places]

    def parse(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        values = examples.parse(records, self.features)
        if self.numbers:
            labels, numbers = tf.cast(values["label"], tf.int64), tf.constant(self.numbers, values["label"].dtype)
            fits = tf.reduce_all((labels >= 0) & (labels < len(self.numbers)))
            message = f"a label is not from 0 to {len(self.numbers) - 1}"
            with tf.control_dependencies([tf.debugging.Assert(fits, [message, labels], summarize=16)]):
                values["label"] = tf.gather(numbers, labels)
        return values

    def as_json(self) -> dict[str, Any]:
        features = {name: feature.as_json() for name, feature in self.features.items()}
        values = {"counts": self._listed, "on_bad_record": self.on_bad_record, "numbers": list(self.numbers)}
        return {"files": list(self.files), "features": features, **values}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TFRecordSource:
        return cls(**{**document, "features": {name: from_json(one) for name, one in document["features"].items()}})

    def reads_blocks(self) -> bool:
        return not self.numbers and examples.blocks_readable(self.files, self.features) and not self.compression

    def read_blocks(self, split: tf.Tensor, epoch: tf.Tensor) -> tf.data.Dataset:
        """Returns blocks of one file; where bad records are skipped, blocks of all good records, without errors."""
        file, first = tf.gather(tf.constant(self.files), split), example_id(split, tf.constant(0, tf.int64))
        return examples.read_blocks(file, first, epoch, self.features, self._skips)

    @property
    def spec(self) -> dict[str, Any]:
        return {name: feature.spec for name, feature in self.features.items()}

    def fingerprint(self) -> str:
        """Returns a hex digest of the features and of the files' names, sizes and ends, which are read once."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        features = {name: feature.as_json() for name, feature in self.features.items()}
        numbers = [self.numbers] if self.numbers else []
        document = json.dumps([self.name, identities(self.files), features, *numbers], sort_keys=True)
        return hashlib.blake2b(document.encode(), digest_size=16).hexdigest()

    def check(
        self, share: tuple[int, int] = (0, 1), gather: Callable[[np.ndarray], np.ndarray] = lambda counts: counts
    ) -> None:
        """Walks every file's framing (lengths and their checksums, not the data) and parses the first record.

        Compressed files are unpacked for that. Raises UsageError for a missing file, files that are compressed in
        several ways, no records at all, or features that the records lack; DataError with path and byte offset for a
        broken file and for one with fewer records than `tfhet.json` lists. Where bad records are skipped, such files
        are listed in `damages`, and one record among the first that fits the features is enough.
        share: (index, count) walks only the files index, index + count, ...; `gather` takes their ids, `split << 32 |
        records`, int64 [files of the share], and returns the ids of all files.
        """
        if not self.can_stream or (share == (0, 1) and self.is_remote and self.can_load()):
            self._reached = self.checked_sizes()
            return
        index, ranks = share
        mine, files = range(index, len(self.files), ranks), self.files[index::ranks]
        groups = [files[at : at + _GROUP] for at in range(0, len(files), _GROUP)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # the walk is compiled, or waits for the disk
            reached = itertools.chain(*pool.map(functools.partial(reach, compressed=self.compression), groups))
        walked = [self._judged(split, *one) for split, one in zip(mine, reached, strict=True)]
        damages = [damage for _, damage in walked if damage is not None]
        found = [example_id(split, count) for split, (count, _) in zip(mine, walked, strict=True)]
        ids = gather(np.array(found, np.int64))
        self._reached = {self.files[split_of(number)]: position_of(number) for number in ids.tolist()}
        self._damages = tuple(damages)
        if not self.example_count():
            lost = f"; {damages[0]}" if damages else ""
            raise UsageError(f"no records in {len(self.files)} files, the first of them {self.files[0]}{lost}")
        self._check_features()

    def damages(self) -> tuple[BadRecord, ...]:
        return self._damages

    @property
    def _skips(self) -> bool:
        return self.on_bad_record == "skip"

    def _judged(self, split: int, count: int, end: int, is_whole: bool) -> tuple[int, BadRecord | None]:
        """Returns how many records of a split can be reached, and where its file breaks off, if it does."""
        file = self.files[split]
        broken = None if is_whole else fault(file, end)
        listed = self._listed.get(file)
        lost = None if listed is None else max(0, listed - count)
        if broken is None and not lost:
            return count, None
        reason = broken or f"the file ends after {count} records, and {Sidecar.NAME} lists {listed}"
        if not self._skips:
            raise DataError(f"{file} is broken at byte {end}: {reason}", path=file, offset=end)
        if broken is not None:
            reason += f"; {'an unknown number of' if lost is None else lost} records after it cannot be reached"
        return count, BadRecord(file, end, split, count, reason, lost)

    def _check_features(self) -> None:
        from tfhet.source.damage import SOUND, examine  # loads TensorFlow

        sizes = self.split_sizes() or ()
        ordered = (
            example_id(split, position)
            for position in range(max(sizes))
            for split, size in enumerate(sizes)
            if position < size
        )
        ids = list(itertools.islice(ordered, _TRIED if self._skips else 1))
        first = None
        for bad in examine(self, np.array(ids, np.int64)):
            if bad.reason == SOUND:
                return
            first = first or bad
        assert first is not None
        if (broken := fault(first.file, first.offset)) is not None:
            raise DataError(f"{first.file} is broken at byte {first.offset}: {broken}", first.file, first.offset)
        wanted = ", ".join(f"{name}: {feature}" for name, feature in self.features.items())
        raise UsageError(
            f"the records of {first.file} do not fit the features ({wanted}); the one at byte {first.offset}:"
            f" {first.reason}"
        )
