from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source import Fixed, Scalar, Sidecar, TFRecordSource, write_tfrecords
from tfhet.source.writing import appearing

FEATURES = {"x": Scalar()}


def numbers(count: int):
    return ({"x": index} for index in range(count))


def shards_of(directory) -> list[list[int]]:
    source = TFRecordSource.from_directory(directory)
    return [
        [int(source.parse(record[tf.newaxis])["x"][0]) for record in tf.data.TFRecordDataset(file)]
        for file in source.files
    ]


def test_examples_are_dealt_out_evenly_in_a_seeded_order(tmp_path):
    shards = shards_of(write_tfrecords(tmp_path / "a", numbers(23), 5, FEATURES))
    assert sorted(sum(shards, [])) == list(range(23))
    assert {len(shard) for shard in shards} == {4, 5}
    assert all(shard == sorted(shard) for shard in shards)
    assert shards == shards_of(write_tfrecords(tmp_path / "b", numbers(23), 5, FEATURES))
    assert shards != shards_of(write_tfrecords(tmp_path / "c", numbers(23), 5, FEATURES, seed=1))


def test_the_files_are_byte_for_byte_the_same_every_time(tmp_path):
    features = {"b": Scalar(), "a": Fixed((2,))}
    examples = [{"a": np.arange(2) + i, "b": i} for i in range(6)]
    first, second = (write_tfrecords(tmp_path / name, examples, 2, features, classes=["u"]) for name in "ab")
    assert {f.name: f.read_bytes() for f in first.iterdir()} == {f.name: f.read_bytes() for f in second.iterdir()}


def test_every_shard_is_a_file_even_one_without_examples(tmp_path):
    shards = shards_of(write_tfrecords(tmp_path / "a", numbers(2), 4, FEATURES))
    assert sorted(map(len, shards)) == [0, 0, 1, 1]


def test_the_sidecar_says_what_was_written(tmp_path):
    target = write_tfrecords(tmp_path / "a", numbers(5), 2, FEATURES, 7, ["no", "yes"], {"origin": "here"})
    sidecar = Sidecar.read(target)
    assert sidecar is not None
    assert sidecar.features == FEATURES
    assert sorted(sidecar.files.values()) == [2, 3]
    assert sidecar.classes == ("no", "yes")
    assert sidecar.details == {"shards": 2, "seed": 7, "origin": "here"}


def test_examples_that_fail_half_way_leave_nothing_behind(tmp_path):
    def failing():
        yield from numbers(3)
        raise RuntimeError("the camera is gone")

    with pytest.raises(RuntimeError, match="camera"):
        write_tfrecords(tmp_path / "a", failing(), 2, FEATURES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("examples", "shards", "complaint"),
    [
        ([{"x": 1}], 0, "at least 1 shard, not 0"),
        ([], 2, "no examples to write"),
        ([{"y": 1}], 2, "an example lacks x; it holds y"),
        ([{"x": 0.5}], 2, "do not fit a feature of int64"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing_behind(tmp_path, examples, shards, complaint):
    with pytest.raises(UsageError, match=complaint):
        write_tfrecords(tmp_path / "a", examples, shards, FEATURES)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_holds_something_is_refused_and_an_empty_one_is_filled(tmp_path):
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "mine.txt").write_text("keep")
    assert len(shards_of(write_tfrecords(empty, numbers(3), 2, FEATURES))) == 2
    with pytest.raises(UsageError, match="exists and is not empty"):
        write_tfrecords(full, numbers(3), 2, FEATURES)
    assert [file.name for file in full.iterdir()] == ["mine.txt"]


def test_whoever_comes_second_leaves_the_first_result_as_it_is(tmp_path):
    with pytest.raises(FileExistsError), appearing(tmp_path / "a") as second:
        (second / "by").write_text("second")
        with appearing(tmp_path / "a") as first:
            (first / "by").write_text("first")
    assert (tmp_path / "a" / "by").read_text() == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
