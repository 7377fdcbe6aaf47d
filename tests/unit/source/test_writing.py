from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source import Fixed, Raw, Scalar, Sidecar, TFRecordSource, write_tfrecords
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


def test_examples_are_distributed_evenly_by_seed(tmp_path):
    shards = shards_of(write_tfrecords(tmp_path / "a", numbers(23), 5, FEATURES))
    assert sorted(sum(shards, [])) == list(range(23))
    assert {len(shard) for shard in shards} == {4, 5}
    assert all(shard == sorted(shard) for shard in shards)
    assert shards == shards_of(write_tfrecords(tmp_path / "b", numbers(23), 5, FEATURES))
    assert shards != shards_of(write_tfrecords(tmp_path / "c", numbers(23), 5, FEATURES, seed=1))


def test_files_are_reproducible(tmp_path):
    features = {"b": Scalar(), "a": Fixed((2,))}
    examples = [{"a": np.arange(2) + i, "b": i} for i in range(6)]
    first, second = (write_tfrecords(tmp_path / name, examples, 2, features, classes=["u"]) for name in "ab")
    assert {f.name: f.read_bytes() for f in first.iterdir()} == {f.name: f.read_bytes() for f in second.iterdir()}


def test_shard_without_examples_is_a_file(tmp_path):
    shards = shards_of(write_tfrecords(tmp_path / "a", numbers(2), 4, FEATURES))
    assert sorted(map(len, shards)) == [0, 0, 1, 1]


def test_sidecar_describes_what_was_written(tmp_path):
    target = write_tfrecords(tmp_path / "a", numbers(5), 2, FEATURES, 7, ["no", "yes"], {"origin": "here"})
    sidecar = Sidecar.read(target)
    assert sidecar is not None
    assert sidecar.features == FEATURES
    assert sorted(sidecar.files.values()) == [2, 3]
    assert sidecar.classes == ("no", "yes")
    assert sidecar.details == {"shards": 2, "seed": 7, "origin": "here"}


def test_failing_examples_leave_nothing(tmp_path):
    def failing():
        yield from numbers(3)
        raise RuntimeError("the camera is gone")

    with pytest.raises(RuntimeError, match="camera"):
        write_tfrecords(tmp_path / "a", failing(), 2, FEATURES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("examples", "shards", "complaint"),
    [
        ([{"x": 1}], 0, "1 shard, not 0"),
        ([], 2, "no examples"),
        ([{"y": 1}], 2, "lacks x.* y"),
        ([{"x": 0.5}], 2, "int64"),
    ],
)
def test_bad_examples_are_refused_and_leave_nothing(tmp_path, examples, shards, complaint):
    with pytest.raises(UsageError, match=complaint):
        write_tfrecords(tmp_path / "a", examples, shards, FEATURES)
    assert list(tmp_path.iterdir()) == []


def test_only_an_empty_directory_is_filled(tmp_path):
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "mine.txt").write_text("keep")
    assert len(shards_of(write_tfrecords(empty, numbers(3), 2, FEATURES))) == 2
    with pytest.raises(UsageError, match="not empty"):
        write_tfrecords(full, numbers(3), 2, FEATURES)
    assert [file.name for file in full.iterdir()] == ["mine.txt"]


def test_second_writer_keeps_the_first_result(tmp_path):
    with pytest.raises(FileExistsError), appearing(tmp_path / "a") as second:
        (second / "by").write_text("second")
        with appearing(tmp_path / "a") as first:
            (first / "by").write_text("first")
    assert (tmp_path / "a" / "by").read_text() == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


# The description

SOUND = {"schema": 1, "features": {"image": Raw((4,)).as_json()}, "files": {"a.tfrecord": 3}, "classes": ["cat"]}


def test_sidecar_is_read_as_written(tmp_path):
    sidecar = Sidecar({"image": Raw((4,))}, {"a.tfrecord": 3}, ("cat",), {"seed": 1})
    assert Sidecar.read(tmp_path) is None
    sidecar.write(tmp_path)
    assert Sidecar.read(tmp_path) == sidecar
    assert json.loads((tmp_path / Sidecar.NAME).read_text())["schema"] == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"schema": 2},
        {"features": {"image": {"kind": "hologram"}}},
        {"features": []},
        {"features": {"image": {"kind": "raw", "shape": ["x"]}}},
        {"features": {"image": {"kind": "raw", "shape": [4], "dtype": "no such"}}},
        {"files": {"a.tfrecord": "3"}},
        {"files": {"a.tfrecord": -1}},
        {"files": {"a.tfrecord": float("inf")}},
        {"classes": "cat"},
        {"classes": [1]},
        {"details": [1]},
    ],
    ids=str,
)
def test_wrong_parts_are_refused(tmp_path, broken):
    (tmp_path / Sidecar.NAME).write_text(json.dumps({**SOUND, **broken}))
    with pytest.raises(UsageError, match=r"tfhet\.json"):
        Sidecar.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80", b"[" * 100_000, b"9" * 5000], ids=["empty", "bytes", "deep", "long"])
def test_file_that_is_no_json_is_refused(tmp_path, content):
    (tmp_path / Sidecar.NAME).write_bytes(content)
    with pytest.raises(UsageError, match=r"tfhet\.json"):
        Sidecar.read(tmp_path)


def test_folder_in_its_place_is_refused(tmp_path):
    (tmp_path / Sidecar.NAME).mkdir()
    with pytest.raises(UsageError, match=r"tfhet\.json"):
        Sidecar.read(tmp_path)
