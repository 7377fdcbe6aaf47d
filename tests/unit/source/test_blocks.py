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
from tfhet.source.framing import FOOTER_BYTES, HEADER_BYTES, crc32c, masked

pytestmark = pytest.mark.skipif(not native.available("records"), reason="needs the compiled op")

FEATURES = {"image": Raw((4, 4, 3)), "label": Scalar()}
EACH = 6
FIRST = 40
"""The id that is counted from."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    made = ({"image": np.full((4, 4, 3), index, np.uint8), "label": index} for index in range(3 * EACH))
    return write_tfrecords(tmp_path_factory.mktemp("sound") / "set", made, 3, FEATURES)


def blocks(file: Path, skip_bad: bool = True, most: int = 100) -> dict[int, int]:
    """The labels by id; fails when there is no end of blocks, or one has several epochs or none of its own."""
    found: dict[int, int] = {}
    first, epoch = tf.constant(FIRST, tf.int64), tf.constant(9, tf.int64)
    dataset = examples.read_blocks(tf.constant(str(file)), first, epoch, FEATURES, skip_bad)
    for count, (ids, epochs, made) in enumerate(dataset.take(most)):
        assert count < most - 1
        assert set(epochs.numpy().tolist()) == {9}
        assert len(ids) == len(made["label"]) == len(made["image"]) > 0
        assert (made["image"].numpy()[:, 0, 0, 0] == made["label"].numpy()).all()
        found.update(zip(ids.numpy().tolist(), made["label"].numpy().tolist(), strict=True))
    return found


@pytest.mark.parametrize("block_bytes", [16, 200, 1 << 20])
@pytest.mark.parametrize("kind", damaged.KINDS)
def test_blocks_of_any_size_are_without_the_bad_and_all_others_keep_their_ids(
    sound, tmp_path, monkeypatch, kind, block_bytes
):
    monkeypatch.setattr(examples, "BLOCK_BYTES", block_bytes)
    broken = Path(damaged.copy(sound, tmp_path / "set", kind).file)
    expected = blocks(sound / broken.name, skip_bad=False)
    assert list(expected) == list(range(FIRST, FIRST + EACH))
    behind = {"emptied": range(EACH)}.get(kind, range(3, EACH) if kind in damaged.UNREACHABLE else range(3, 4))
    assert blocks(broken) == {number: label for number, label in expected.items() if number - FIRST not in behind}


def test_nothing_comes_of_files_without_a_good_record_and_of_none(sound, tmp_path):
    broken = Path(damaged.copy(sound, tmp_path / "set", "no example", record=0).file)
    for record in range(1, EACH):
        damaged.damage(broken, "data", record)
    assert blocks(broken) == {}
    broken.write_bytes(b"what is this, which is no TFRecord file")
    assert blocks(broken) == {}
    broken.unlink()
    assert blocks(broken) == {}


def framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    sums = (struct.pack("<I", masked(crc32c(part))) for part in (length, content))
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


def test_one_wrong_bit_or_cut_anywhere_costs_what_it_hits(sound, tmp_path):
    whole = next(sound.glob("*.tfrecord")).read_bytes()
    frame = len(whole) // EACH
    whole = whole[: 3 * frame]
    (labels,) = outcomes(tmp_path, [whole])
    places = range(0, 3 * frame, 2)
    flipped = outcomes(tmp_path, [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in places])
    cut = outcomes(tmp_path, [whole[:at] for at in places])
    for at, after_flip, after_cut in zip(places, flipped, cut, strict=True):
        hit, inside = divmod(at, frame)
        lost = range(hit, 3) if inside < HEADER_BYTES else range(hit, hit + 1)
        assert after_flip == {index: label for index, label in labels.items() if index not in lost}
        assert after_cut == {index: label for index, label in labels.items() if index < hit}


def test_broken_examples_with_right_checksums_neither_crash_nor_shift_the_others(sound, tmp_path):
    whole, draw = next(sound.glob("*.tfrecord")).read_bytes(), np.random.default_rng(5)
    content = whole[HEADER_BYTES : len(whole) // EACH - FOOTER_BYTES]
    contents = []
    for _ in range(500):
        bad = bytearray(content)
        for at in draw.integers(0, len(bad), draw.integers(1, 4)):
            bad[at] = draw.integers(256)
        contents.append(framed(content) + framed(bytes(bad[: draw.integers(1, len(bad) + 1)])) + framed(content))
    found = outcomes(tmp_path, [framed(content), *contents])
    label = found[0][0]
    for labels in found[1:]:
        assert labels.keys() | {1} == {0, 1, 2}
        assert labels[0] == labels[2] == label
    assert 1 <= sum(1 in labels for labels in found) < 250


@pytest.mark.parametrize("kind", damaged.KINDS)
def test_blocks_are_what_is_read_one_by_one(sound, tmp_path, kind):
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
