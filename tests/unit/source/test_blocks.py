"""Bad records are left out of blocks of neighbouring examples, and their ids with them."""

from __future__ import annotations

import struct
from pathlib import Path

import damaged
import numpy as np
import pytest
import tensorflow as tf

from tfhet import native
from tfhet.source import Raw, Scalar, TFRecordSource, example_id, examples, position_of, split_of, write_tfrecords
from tfhet.source.encoding import checksum
from tfhet.source.framing import FOOTER_BYTES, HEADER_BYTES

pytestmark = pytest.mark.skipif(not native.available("records"), reason="needs the compiled op")

FEATURES = {"image": Raw((4, 4, 3)), "label": Scalar()}
EACH = 6


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    made = ({"image": np.full((4, 4, 3), index, np.uint8), "label": index} for index in range(3 * EACH))
    return write_tfrecords(tmp_path_factory.mktemp("sound") / "set", made, 3, FEATURES)


def framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    sums = (struct.pack("<I", checksum(part)) for part in (length, content))
    return length + next(sums) + content + next(sums)


def outcomes(folder: Path, contents: list[bytes]) -> list[dict[int, int]]:
    """The labels by position, of each of these contents of a file."""
    files = [folder / str(index) for index in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    numbered = tf.data.Dataset.from_tensor_slices([str(file) for file in files]).enumerate()
    dataset = numbered.flat_map(
        lambda index, file: examples.read_blocks(file, example_id(index, 0), index, FEATURES, skip_bad=True)
    )
    found: list[dict[int, int]] = [{} for _ in files]
    for ids, epochs, made in dataset.as_numpy_iterator():
        for number, index, label in zip(ids.tolist(), epochs.tolist(), made["label"].tolist(), strict=True):
            assert split_of(number) == index
            found[index][position_of(number)] = label
    return found


@pytest.mark.parametrize("block_bytes", [16, 200, 1 << 20])
def test_blocks_of_any_size_skip_bad_records_only(sound, tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(examples, "BLOCK_BYTES", block_bytes)
    copies = [Path(damaged.copy(sound, tmp_path / kind, kind).file) for kind in damaged.KINDS]
    hopeless = Path(damaged.copy(sound, tmp_path / "hopeless", "no example", record=0).file)
    for record in range(1, EACH):
        damaged.damage(hopeless, "data", record)
    contents = [(sound / hopeless.name).read_bytes(), hopeless.read_bytes(), b"no TFRecord file at all"]
    (whole, *without_records) = outcomes(tmp_path, [*contents, b""])
    assert list(whole) == list(range(EACH)) and without_records == [{}] * 3
    for kind, found in zip(damaged.KINDS, outcomes(tmp_path, [copy.read_bytes() for copy in copies]), strict=True):
        lost = {"emptied": range(EACH)}.get(kind, range(3, EACH) if kind in damaged.UNREACHABLE else range(3, 4))
        assert found == {position: label for position, label in whole.items() if position not in lost}, kind


def test_missing_file_has_no_blocks(tmp_path):
    zero = tf.constant(0, tf.int64)
    assert list(examples.read_blocks(tf.constant(str(tmp_path / "absent")), zero, zero, FEATURES, True)) == []


def test_wrong_bit_or_cut_costs_what_it_hits(sound, tmp_path):
    whole = next(sound.glob("*.tfrecord")).read_bytes()
    frame = len(whole) // EACH
    whole = whole[: 3 * frame]
    (labels,) = outcomes(tmp_path, [whole])
    places = range(0, 3 * frame, 3)
    flipped = outcomes(tmp_path, [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in places])
    cut = outcomes(tmp_path, [whole[:at] for at in places])
    for at, after_flip, after_cut in zip(places, flipped, cut, strict=True):
        hit, inside = divmod(at, frame)
        lost = range(hit, 3) if inside < HEADER_BYTES else range(hit, hit + 1)
        assert after_flip == {index: label for index, label in labels.items() if index not in lost}
        assert after_cut == {index: label for index, label in labels.items() if index < hit}


def test_broken_examples_do_not_shift_others(sound, tmp_path):
    whole, draw = next(sound.glob("*.tfrecord")).read_bytes(), np.random.default_rng(5)
    content = whole[HEADER_BYTES : len(whole) // EACH - FOOTER_BYTES]
    contents = []
    for _ in range(300):
        bad = bytearray(content)
        for at in draw.integers(0, len(bad), draw.integers(1, 4)):
            bad[at] = draw.integers(256)
        contents.append(framed(content) + framed(bytes(bad[: draw.integers(1, len(bad) + 1)])) + framed(content))
    found = outcomes(tmp_path, [framed(content), *contents])
    label = found[0][0]
    for labels in found[1:]:
        assert labels.keys() | {1} == {0, 1, 2}
        assert labels[0] == labels[2] == label
    assert 1 <= sum(1 in labels for labels in found) < 150


@pytest.mark.parametrize("kind", ["length", "data", "no label"])
def test_blocks_equal_reading_one_by_one(sound, tmp_path, kind):
    broken = damaged.copy(sound, tmp_path / "set", kind)
    source = TFRecordSource.from_directory(broken.directory, on_bad_record="skip")
    source.check()
    assert source.reads_blocks()
    sizes = source.split_sizes()
    assert sizes is not None
    ids = [example_id(split, position) for split, size in enumerate(sizes) for position in range(size)]

    def one(split: tf.Tensor, position: tf.Tensor, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return example_id(split, position), source.parse(record[tf.newaxis])["label"][0]

    alone = {int(number): int(label) for number, label in source.read_at(ids).map(one).ignore_errors()}
    together = {}
    for split in range(len(sizes)):
        for numbers, _, made in source.read_blocks(tf.constant(split, tf.int64), tf.constant(0, tf.int64)):
            together.update(zip(numbers.numpy().tolist(), made["label"].numpy().tolist(), strict=True))
    assert together == alone
