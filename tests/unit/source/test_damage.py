"""Bad records are skipped or named, whatever is wrong with them."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path

import damaged
import numpy as np
import pytest
import tensorflow as tf
from fake_clock import FakeClock

from tfhet.errors import DataError, UsageError
from tfhet.pipeline import Pipeline
from tfhet.source import (
    BadRecord,
    Encoded,
    Raw,
    Scalar,
    Sidecar,
    SyntheticSource,
    TFRecordSource,
    diagnose,
    example_id,
    find,
    position_of,
    split_of,
    write_tfrecords,
)
from tfhet.source.damage import SOUND

SPLITS, EACH = 3, 6
AT = example_id(1, 3)
"""The record that `damaged` damages."""
REASONS = {
    "cut": "the file ends inside a record, ",
    "cut in the header": "the file ends inside a record's header, 5 bytes",
    "cut between records": "the file ends before",
    "emptied": "the file ends before",
    "data": "the data's checksum is ",
    "length": "the length's checksum",
    "no example": "not a tf.train.Example",
    "no label": "feature label is missing",
    "half image": "feature image has 24 bytes, not 48",
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Raw images."""
    examples = ({"image": np.full((4, 4, 3), index, np.uint8), "label": index} for index in range(SPLITS * EACH))
    features = {"image": Raw((4, 4, 3)), "label": Scalar()}
    return write_tfrecords(tmp_path_factory.mktemp("sound") / "set", examples, SPLITS, features)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """JPEG images."""
    noise = np.random.default_rng(0).integers(0, 256, (SPLITS * EACH, 24, 32, 3), np.uint8)
    examples = ({"image": tf.io.encode_jpeg(image).numpy(), "label": index} for index, image in enumerate(noise))
    features = {"image": Encoded(), "label": Scalar()}
    return write_tfrecords(tmp_path_factory.mktemp("photos") / "set", examples, SPLITS, features)


def all_ids() -> list[int]:
    return [example_id(split, position) for split in range(SPLITS) for position in range(EACH)]


def elements(dataset: tf.data.Dataset, most: int = 1000) -> list:
    """All of them; fails when there is no end of them."""
    found = list(dataset.take(most))
    assert len(found) < most
    return found


def ids_at(source: TFRecordSource, ids: list[int]) -> list[int]:
    """Ids that can be read and parsed; the others are skipped."""

    def one(split: tf.Tensor, position: tf.Tensor, record: tf.Tensor) -> tf.Tensor:
        made = source.parse(record[tf.newaxis])
        with tf.control_dependencies(list(made.values())):
            return example_id(split, position)

    return [int(number) for number in elements(source.read_at(ids).map(one).ignore_errors())]


def ids_read(source: TFRecordSource) -> list[int]:
    """Ids in the order in which the lowering reads splits, without batches that have an error."""
    dataset = tf.data.Dataset.range(source.split_count()).interleave(
        lambda split: source.read(split).map(lambda position, _: example_id(split, position)), cycle_length=1
    )
    return [int(number) for number in elements(dataset.batch(1).ignore_errors().unbatch())]


FIRST_BAD = {kind: 0 if kind == "emptied" else 3 for kind in damaged.KINDS}
"""Position of the first bad record, by the kind of damage."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> tuple[TFRecordSource, list[str], dict[str, int]]:
    """A source with one file for each kind of damage, the files, and the byte of the bad record in each."""
    examples = ({"image": np.full((4, 4, 3), index, np.uint8), "label": index} for index in range(10 * EACH))
    features = {"image": Raw((4, 4, 3)), "label": Scalar()}
    place = write_tfrecords(tmp_path_factory.mktemp("broken") / "set", examples, len(damaged.KINDS) + 1, features)
    files = sorted(place.glob("*.tfrecord"))[1:]
    offsets = {kind: damaged.damage(file, kind) for kind, file in zip(damaged.KINDS, files, strict=True)}
    source = TFRecordSource.from_directory(place, on_bad_record="skip")
    source.check()
    return source, list(map(str, files)), offsets


def test_skipping_leaves_out_bad_records_only(broken):
    source, files, offsets = broken
    found, read = ids_at(source, [example_id(split, at) for split in range(10) for at in range(EACH)]), ids_read(source)
    assert source.example_count() == sum(source.split_sizes())
    damages = {damage.file: damage for damage in source.damages()}
    assert damages.keys() == {file for kind, file in zip(FIRST_BAD, files, strict=True) if kind in damaged.UNREACHABLE}
    for split, (kind, first) in enumerate(FIRST_BAD.items(), start=1):
        of_split = [[position_of(number) for number in ids if split_of(number) == split] for ids in (found, read)]
        if kind in damaged.UNREACHABLE:
            assert of_split == [list(range(first))] * 2, kind
            assert source.split_sizes()[split] == first
            damage = damages[files[split - 1]]
            assert (damage.offset, damage.split) == (offsets[kind], split)
            assert (damage.position, damage.examples) == (first, EACH - first)
        else:
            assert source.split_sizes()[split] == EACH
            assert of_split[0] == [at for at in range(EACH) if at != first], kind
            # A wrong checksum ends the split when it is read; what only parsing sees does not.
            assert of_split[1] == list(range(first if kind == "data" else EACH)), kind


@pytest.mark.parametrize(
    ("size", "stages", "settings"),
    [
        ((8, 8), "", {}),
        ((), "decode(); resize(8, 8)", {}),
        ((), "decode(); resize(8, 8)", {"interleave": 2, "shuffle": 4}),
    ],
)
def test_bad_picture_leaves_out_itself_only(size, stages, settings, tmp_path):
    picture = tf.io.encode_jpeg(np.zeros((8, 8, 3), np.uint8)).numpy()
    good = [at for at in range(SPLITS * EACH) if at % 3 != 1]
    examples = ({"image": picture if at in good else b"?", "label": at} for at in range(SPLITS * EACH))
    place = write_tfrecords(tmp_path / "set", examples, SPLITS, {"image": Encoded(), "label": Scalar()})
    source = TFRecordSource.from_directory(place, {"image": Encoded(*size), "label": Scalar()}, on_bad_record="skip")
    batches = elements(Pipeline(source, stages, batch_size=3, **settings).dataset())
    assert sorted(int(label) for batch in batches for label in batch["label"]) == good


def test_diagnosis_names_reason_and_place(broken):
    source, files, offsets = broken
    ids = [example_id(split, first) for split, first in enumerate(FIRST_BAD.values(), start=1)]
    before, *found = diagnose(source, [0, *ids])
    assert before.reason == SOUND
    for number, file, (kind, offset), bad in zip(ids, files, offsets.items(), found, strict=True):
        assert (bad.file, bad.offset, bad.examples) == (file, offset, 1)
        assert (bad.split, bad.position) == (split_of(number), position_of(number))
        assert bad.reason.startswith(REASONS[kind]), kind
        assert str(bad) == f"{file} at byte {offset}: {bad.reason}"
        assert BadRecord(**asdict(bad)) == bad


@pytest.mark.parametrize("kind", ["cut", "data", "no example", "half image"])
def test_first_bad_record_is_found(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    damaged.damage(sorted(broken.directory.glob("*.tfrecord"))[2], "data", record=1)
    bad = find(TFRecordSource.from_directory(broken.directory))
    assert bad is not None
    assert (bad.file, bad.offset, bad.split, bad.position) == (broken.file, broken.offset, 1, 3)
    assert bad.reason.startswith(REASONS[kind])


@pytest.mark.parametrize("kind", damaged.UNREACHABLE)
def test_check_names_file_and_byte(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    with pytest.raises(DataError, match=f"{broken.file} .* byte {broken.offset}: ") as caught:
        TFRecordSource.from_directory(broken.directory).check()
    assert (caught.value.path, caught.value.offset) == (broken.file, broken.offset)


def test_bad_first_record_fails_or_is_skipped(sound, tmp_path):
    broken = damaged.copy(sound, tmp_path / "set", "data", split=0, record=0)
    with pytest.raises(DataError, match="byte 0: .*checksum"):
        TFRecordSource.from_directory(broken.directory).check()
    TFRecordSource.from_directory(broken.directory, on_bad_record="skip").check()


def test_skipping_does_not_hide_wrong_use(sound, tmp_path):
    with pytest.raises(UsageError, match="feature picture"):
        TFRecordSource.from_directory(sound, {"picture": Raw((4, 4, 3))}, on_bad_record="skip").check()
    with pytest.raises(UsageError, match="'ignore'; known: fail, skip"):
        TFRecordSource.from_directory(sound, on_bad_record="ignore")
    with pytest.raises(UsageError, match="no TFRecord files"):
        TFRecordSource.from_directory(tmp_path / "absent", on_bad_record="skip")
    target = shutil.copytree(sound, tmp_path / "set")
    for file in target.glob("*.tfrecord"):
        os.truncate(file, 5)
    with pytest.raises(UsageError, match="no records in 3 files, .* byte 0: "):
        TFRecordSource.from_directory(target, on_bad_record="skip").check()
    next(target.glob("*.tfrecord")).unlink()
    with pytest.raises(UsageError, match="lacks 1 files"):
        TFRecordSource.from_directory(target, on_bad_record="skip")


def test_lost_count_is_unknown_without_a_sidecar(sound, tmp_path):
    broken = damaged.copy(sound, tmp_path / "set", "length")
    features = Sidecar.read(sound).features
    (broken.directory / Sidecar.NAME).unlink()
    source = TFRecordSource(broken.directory, features, on_bad_record="skip")
    assert source.split_sizes() is None
    source.check()
    (damage,) = source.damages()
    assert damage.examples is None and "unknown number" in damage.reason


def test_skipping_changes_known_sizes_but_not_fingerprint(sound):
    failing, skipping = (TFRecordSource.from_directory(sound, on_bad_record=how) for how in ("fail", "skip"))
    assert failing.fingerprint() == skipping.fingerprint()
    assert failing.split_sizes() == (EACH,) * SPLITS and skipping.split_sizes() is None


@pytest.mark.parametrize("damage", ["gone", "cut", "emptied"])
def test_file_broken_after_check_ends_its_split(sound, tmp_path, damage):
    source = TFRecordSource.from_directory(shutil.copytree(sound, tmp_path / "set"), on_bad_record="skip")
    source.check()
    file = Path(source.files[1])
    if damage == "gone":
        file.unlink()
    else:
        damaged.damage(file, damage, record=0)
    others = [number for number in all_ids() if number >> 32 != 1]
    assert ids_read(source) == others
    assert ids_at(source, all_ids()) == others
    reasons = [bad.reason for bad in diagnose(source, [example_id(1, 4), 0])]
    expected = {"gone": "no such", "cut": "the file ends inside", "emptied": "the file ends before"}
    assert reasons[0].startswith(expected[damage])
    assert reasons[1] == SOUND


def decoded(ids: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
    """As a stage that decodes; of what `Encoded` without a size gives."""
    images = tf.io.parse_example(records, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
    return tf.map_fn(lambda content: tf.shape(tf.io.decode_jpeg(content)), images, fn_output_signature=tf.int32)


@pytest.mark.parametrize("size", [None, (8, 8)])
def test_undecodable_image_is_named(photos, tmp_path, size):
    broken = damaged.copy(photos, tmp_path / "set", "half image")
    source = TFRecordSource.from_directory(broken.directory, size=size)
    source.check()
    prepare = decoded if size is None else None
    ids = [AT - 1, AT]
    if prepare:
        assert [bad.reason for bad in diagnose(source, ids)] == [SOUND] * 2
        assert find(source) is None
    before, bad = diagnose(source, ids, prepare=prepare)
    assert before.reason == SOUND
    assert ("Invalid JPEG data" if size is None else "is no valid JPEG image: ") in bad.reason
    assert "{{" not in bad.reason
    assert "[Op:" not in bad.reason
    assert find(source, prepare) == bad
    assert (bad.file, bad.offset) == (broken.file, broken.offset)


def test_diagnosis_is_limited_and_stages_get_ids(sound):
    source, seen = TFRecordSource.from_directory(sound), []

    def prepare(ids: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
        seen.extend(ids.numpy().tolist())
        return records

    assert [bad.position for bad in diagnose(source, [AT, 2, 1], limit=2, prepare=prepare)] == [3, 2]
    assert seen == [AT, 2]


class Refusing(SyntheticSource):
    """Cannot make one of its examples."""

    def parse(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        fine = tf.debugging.assert_none_equal(records, tf.constant(AT, tf.int64), message="not this")
        with tf.control_dependencies([] if fine is None else [fine]):
            return super().parse(tf.identity(records))


def test_bad_example_without_file_is_named_by_place():
    source = Refusing(SPLITS * EACH, SPLITS, (2, 2, 1))
    bad = find(source)
    assert bad is not None
    assert (bad.file, bad.offset, bad.split, bad.position) == ("", 0, 1, 3)
    assert "not this" in bad.reason
    assert str(bad).startswith("split 1, position 3: ")
    assert diagnose(source, [AT]) == [bad]


def test_search_ends_at_its_deadline(sound, tmp_path):
    class Slow(FakeClock):
        def monotonic(self) -> float:
            self.sleep(1.0)
            return super().monotonic()

    broken = damaged.copy(sound, tmp_path / "set", "no label")
    source = TFRecordSource.from_directory(broken.directory)
    assert find(source, deadline_s=0.5, clock=Slow()) is None
    assert find(source, deadline_s=60, clock=Slow()) is not None


def test_records_of_ids_can_be_serialized(sound, tmp_path):
    """The data set survives being written down, as tf.data service does with it."""
    broken = damaged.copy(sound, tmp_path / "set", "data")
    source = TFRecordSource.from_directory(broken.directory, on_bad_record="skip")
    dataset = source.read_at([AT - 1, AT, AT + 1]).map(lambda split, position, _: position).ignore_errors()
    graph = dataset._as_serialized_graph()
    again = tf.data.experimental.from_variant(tf.raw_ops.DatasetFromGraph(graph_def=graph), dataset.element_spec)
    assert [int(position) for position in again] == [2, 4]
