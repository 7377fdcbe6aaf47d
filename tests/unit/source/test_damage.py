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
    write_tfrecords,
)
from tfhet.source.damage import SOUND

SPLITS, EACH = 3, 6
AT = example_id(1, 3)
"""The record that `damaged` damages."""
REASONS = {
    "cut": "the file ends inside a record, ",
    "cut in the header": "the file ends inside a record's header, 5 bytes into it",
    "cut between records": "the file ends before this record",
    "emptied": "the file ends before this record",
    "data": "the data's checksum is ",
    "length": "the length's checksum is wrong",
    "no example": "not a tf.train.Example",
    "no label": "feature label is missing; it holds image (bytes)",
    "half image": "feature image has 24 bytes, not 48; it holds image (bytes), label (int64)",
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
    """Those that can be read and parsed, by the way of who skips the others."""

    def one(split: tf.Tensor, position: tf.Tensor, record: tf.Tensor) -> tf.Tensor:
        made = source.parse(record[tf.newaxis])
        with tf.control_dependencies(list(made.values())):
            return example_id(split, position)

    return [int(number) for number in elements(source.read_at(ids).map(one).ignore_errors())]


def ids_read(source: TFRecordSource) -> list[int]:
    """Those that come when splits are read as the lowering does, a batch with an error left out."""
    dataset = tf.data.Dataset.range(source.split_count()).interleave(
        lambda split: source.read(split).map(lambda position, _: example_id(split, position)), cycle_length=1
    )
    return [int(number) for number in elements(dataset.batch(1).ignore_errors().unbatch())]


@pytest.mark.parametrize("kind", damaged.KINDS)
def test_skipping_leaves_out_what_is_bad_and_gives_all_else(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    source = TFRecordSource.from_directory(broken.directory, on_bad_record="skip")
    source.check()
    first_lost = {"emptied": example_id(1, 0)}.get(kind, AT)
    if kind in damaged.UNREACHABLE:
        kept = [number for number in all_ids() if not first_lost <= number < example_id(2, 0)]
        assert source.split_sizes() == (EACH, first_lost % 2**32, EACH)
        lost = EACH - first_lost % 2**32
        (damage,) = source.damages()
        assert (damage.file, damage.offset, damage.split) == (broken.file, broken.offset, 1)
        assert (damage.position, damage.examples) == (first_lost % 2**32, lost)
    else:
        kept = [number for number in all_ids() if number != AT]
        assert source.split_sizes() == (EACH,) * SPLITS
        assert source.damages() == ()
    assert source.example_count() == sum(source.split_sizes())
    assert ids_at(source, all_ids()) == kept
    # A checksum that is wrong ends the split, and what can only be seen by parsing does not stop the reading.
    behind = range(AT, example_id(2, 0)) if kind == "data" else range(0)
    in_reach = kept if kind in damaged.UNREACHABLE else all_ids()
    assert ids_read(source) == [number for number in in_reach if number not in behind]


@pytest.mark.parametrize("kind", damaged.KINDS)
def test_a_diagnosis_says_what_is_wrong_and_where(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    source = TFRecordSource.from_directory(broken.directory, on_bad_record="skip")
    number = example_id(1, 0) if kind == "emptied" else AT
    before, bad = diagnose(source, [0, number])
    assert before.reason == SOUND
    assert (bad.file, bad.offset) == (broken.file, broken.offset)
    assert (bad.split, bad.position, bad.examples) == (1, number % 2**32, 1)
    assert bad.reason.startswith(REASONS[kind])
    assert str(bad) == f"{broken.file} at byte {broken.offset}: {bad.reason}"
    assert BadRecord(**asdict(bad)) == bad


@pytest.mark.parametrize("kind", sorted(damaged.KINDS.keys() - {"cut between records", "emptied"}))
def test_the_first_bad_record_of_all_is_found(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    damaged.damage(sorted(broken.directory.glob("*.tfrecord"))[2], "data", record=1)
    bad = find(TFRecordSource.from_directory(broken.directory))
    assert bad is not None
    assert (bad.file, bad.offset, bad.split, bad.position) == (broken.file, broken.offset, 1, 3)
    assert bad.reason.startswith(REASONS[kind])


@pytest.mark.parametrize("kind", damaged.UNREACHABLE)
def test_failing_names_the_file_and_the_byte_in_the_check(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    with pytest.raises(DataError) as caught:
        TFRecordSource.from_directory(broken.directory).check()
    assert (caught.value.path, caught.value.offset) == (broken.file, broken.offset)
    assert str(caught.value).startswith(f"{broken.file} is broken at byte {broken.offset}: the ")


def test_a_first_record_with_a_wrong_checksum_is_named_when_failing_and_passed_over_when_skipping(sound, tmp_path):
    broken = damaged.copy(sound, tmp_path / "set", "data", split=0, record=0)
    with pytest.raises(DataError, match="at byte 0: the data's checksum is"):
        TFRecordSource.from_directory(broken.directory).check()
    TFRecordSource.from_directory(broken.directory, on_bad_record="skip").check()


def test_features_that_no_record_fits_are_an_error_when_skipping_too(sound):
    source = TFRecordSource.from_directory(sound, {"picture": Raw((4, 4, 3))}, on_bad_record="skip")
    with pytest.raises(UsageError, match="do not fit the features .*feature picture is missing"):
        source.check()


def test_what_is_no_bad_record_is_an_error_when_skipping_too(sound, tmp_path):
    with pytest.raises(UsageError, match="unknown on_bad_record 'ignore'; known: fail, skip"):
        TFRecordSource.from_directory(sound, on_bad_record="ignore")
    with pytest.raises(UsageError, match="no TFRecord files"):
        TFRecordSource.from_directory(tmp_path / "absent", on_bad_record="skip")
    target = shutil.copytree(sound, tmp_path / "set")
    for file in target.glob("*.tfrecord"):
        os.truncate(file, 5)
    with pytest.raises(UsageError, match="no records in 3 files, .*at byte 0: the file ends inside a record's header"):
        TFRecordSource.from_directory(target, on_bad_record="skip").check()
    next(target.glob("*.tfrecord")).unlink()
    with pytest.raises(UsageError, match="lacks 1 files"):
        TFRecordSource.from_directory(target, on_bad_record="skip")


def test_how_many_lie_behind_broken_framing_is_unknown_without_a_sidecar(sound, tmp_path):
    broken = damaged.copy(sound, tmp_path / "set", "length")
    features = Sidecar.read(sound).features
    (broken.directory / Sidecar.NAME).unlink()
    source = TFRecordSource(broken.directory, features, on_bad_record="skip")
    assert source.split_sizes() is None
    source.check()
    (damage,) = source.damages()
    assert damage.examples is None
    assert "an unknown number of records after it cannot be reached" in damage.reason


def test_the_sizes_of_broken_files_are_not_taken_from_the_sidecar_when_skipping(sound):
    assert TFRecordSource.from_directory(sound).split_sizes() == (EACH,) * SPLITS
    assert TFRecordSource.from_directory(sound, on_bad_record="skip").split_sizes() is None


def test_skipping_is_no_part_of_the_fingerprint(sound):
    failing, skipping = (TFRecordSource.from_directory(sound, on_bad_record=how) for how in ("fail", "skip"))
    assert failing.fingerprint() == skipping.fingerprint()


@pytest.mark.parametrize("damage", ["gone", "cut", "emptied"])
def test_a_file_that_breaks_after_the_check_ends_its_split_and_is_named(sound, tmp_path, damage):
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
    assert reasons[0].startswith(
        {"gone": "no such TFRecord file", "cut": "the file ends inside", "emptied": "the file ends before"}[damage]
    )
    assert reasons[1] == SOUND


def decoded(ids: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
    """As a stage that decodes; of what `Encoded` without a size gives."""
    images = tf.io.parse_example(records, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
    return tf.map_fn(lambda content: tf.shape(tf.io.decode_jpeg(content)), images, fn_output_signature=tf.int32)


@pytest.mark.parametrize("size", [None, (8, 8)])
def test_an_image_that_cannot_be_decoded_is_named_where_it_is_decoded(photos, tmp_path, size):
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
    assert "Invalid JPEG data" in bad.reason
    assert "{{" not in bad.reason
    assert "[Op:" not in bad.reason
    assert find(source, prepare) == bad
    assert (bad.file, bad.offset) == (broken.file, broken.offset)


def test_a_diagnosis_is_of_the_first_ids_up_to_the_limit(sound):
    source = TFRecordSource.from_directory(sound)
    assert [bad.position for bad in diagnose(source, [4, 2, 1], limit=2)] == [4, 2]


def test_the_stages_see_the_id_that_the_example_has(sound):
    source, seen = TFRecordSource.from_directory(sound), []

    def prepare(ids: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
        seen.extend(ids.numpy().tolist())
        return records

    diagnose(source, [AT, 2], prepare=prepare)
    assert seen == [AT, 2]


class Refusing(SyntheticSource):
    """Cannot make one of its examples."""

    def parse(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        fine = tf.debugging.assert_none_equal(records, tf.constant(AT, tf.int64), message="not this")
        with tf.control_dependencies([] if fine is None else [fine]):
            return super().parse(tf.identity(records))


def test_a_bad_example_of_a_source_without_files_is_named_by_its_place():
    source = Refusing(SPLITS * EACH, SPLITS, (2, 2, 1))
    bad = find(source)
    assert bad is not None
    assert (bad.file, bad.offset, bad.split, bad.position) == ("", 0, 1, 3)
    assert "not this" in bad.reason
    assert str(bad).startswith("split 1, position 3: ")
    assert diagnose(source, [AT]) == [bad]


def test_the_search_ends_when_its_time_is_over(sound, tmp_path):
    class Slow(FakeClock):
        def monotonic(self) -> float:
            self.sleep(1.0)
            return super().monotonic()

    broken = damaged.copy(sound, tmp_path / "set", "no label")
    source = TFRecordSource.from_directory(broken.directory)
    assert find(source, deadline_s=0.5, clock=Slow()) is None
    assert find(source, deadline_s=60, clock=Slow()) is not None


def test_records_of_ids_are_served_like_all_others(sound, tmp_path):
    """The data set survives being written down, as tf.data service does with it."""
    broken = damaged.copy(sound, tmp_path / "set", "data")
    source = TFRecordSource.from_directory(broken.directory, on_bad_record="skip")
    dataset = source.read_at([AT - 1, AT, AT + 1]).map(lambda split, position, _: position).ignore_errors()
    graph = dataset._as_serialized_graph()
    again = tf.data.experimental.from_variant(tf.raw_ops.DatasetFromGraph(graph_def=graph), dataset.element_spec)
    assert [int(position) for position in again] == [2, 4]
