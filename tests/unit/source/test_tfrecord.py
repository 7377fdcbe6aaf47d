from __future__ import annotations

import shutil

import numpy as np
import pytest
import tensorflow as tf

import tfhet
from tfhet.errors import DataError, UsageError
from tfhet.source import (
    ArraySpec,
    Encoded,
    Fixed,
    Raw,
    Scalar,
    TFRecordSource,
    example_id,
    examples,
    find,
    write_tfrecords,
)
from tfhet.source.framing import reach

FEATURES = {"image": Raw((2, 2, 1)), "label": Scalar()}


def example(index: int) -> dict:
    return {"image": np.full((2, 2, 1), index, np.uint8), "label": index}


@pytest.fixture
def directory(tmp_path):
    return write_tfrecords(tmp_path / "set", map(example, range(10)), 3, FEATURES)


def write_plain(path, values) -> None:
    """Without any of our code."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for value in values:
            record = tf.train.Example()
            record.features.feature["x"].int64_list.value.append(value)
            writer.write(record.SerializeToString())


def read_all(source: TFRecordSource, name: str) -> list[list]:
    found = []
    for split in range(source.split_count()):
        records = [record for _, record in source.read(tf.constant(split, tf.int64))]
        found.append(source.parse(tf.stack(records))[name].numpy().tolist())
    return found


def test_files_are_read_in_order_of_names(tmp_path):
    write_plain(tmp_path / "b.tfrecord", [3, 4])
    write_plain(tmp_path / "a.tfrecords", [1, 2])
    (tmp_path / "notes.txt").write_text("no records")
    features = {"x": Scalar()}
    expected = [[1, 2], [3, 4]]
    assert read_all(TFRecordSource(tmp_path, features), "x") == expected
    assert read_all(TFRecordSource(str(tmp_path / "*.tfrecord*"), features), "x") == expected
    assert read_all(TFRecordSource([tmp_path / "b.tfrecord", tmp_path / "a.tfrecords"], features), "x") == expected
    assert read_all(TFRecordSource.from_directory(tmp_path, features), "x") == expected
    assert read_all(TFRecordSource(tmp_path / "b.tfrecord", features), "x") == [[3, 4]]
    assert read_all(TFRecordSource(tmp_path, {"x": tf.io.FixedLenFeature([], tf.int64)}), "x") == expected


def test_sidecar_gives_features_and_counts(directory):
    source = TFRecordSource.from_directory(directory)
    assert source.features == FEATURES
    assert source.example_count() == 10
    assert sorted(sum(read_all(source, "label"), [])) == list(range(10))
    only_label = TFRecordSource.from_directory(directory, {"label": Scalar("float32")})
    assert set(only_label.spec) == {"label"}
    assert only_label.example_count() == 10


def test_images_without_a_size_stay_encoded(tmp_path):
    png = tf.io.encode_png(np.zeros((6, 6, 3), np.uint8)).numpy()
    target = write_tfrecords(tmp_path / "set", [{"image": png, "label": 0}], 1, {"image": Encoded(), "label": Scalar()})
    assert TFRecordSource.from_directory(target, size=(8, 4)).spec["image"].shape == (None, 8, 4, 3)
    source = TFRecordSource.from_directory(target)
    source.check()
    assert source.spec["image"] == ArraySpec((None,), "string")
    assert sum(read_all(source, "image"), []) == [png]


def test_missing_files_are_refused(tmp_path):
    for files in (tmp_path / "absent", str(tmp_path / "*.tfrecord"), tmp_path, []):
        with pytest.raises(UsageError, match="no TFRecord files"):
            TFRecordSource(files, FEATURES)
    with pytest.raises(UsageError, match="named twice"):
        TFRecordSource([tmp_path / "a", tmp_path / "a"], FEATURES)
    with pytest.raises(UsageError, match="at least one feature"):
        TFRecordSource([tmp_path / "a"], {})


def test_existing_path_is_no_pattern(tmp_path):
    for name, value in (("run[1]", 1), ("run1", 2), ("x?", 3), ("xy", 4)):
        (tmp_path / name).mkdir()
        write_plain(tmp_path / name / "a[0].tfrecord", [value])
        write_plain(tmp_path / name / ".b.tfrecord", [9])
        for place in (tmp_path / name, tmp_path / name / "a[0].tfrecord"):
            assert TFRecordSource(place, FEATURES).files == (str(tmp_path / name / "a[0].tfrecord"),)
    assert len(TFRecordSource(str(tmp_path / "*" / "*.tfrecord"), FEATURES).files) == 4


def test_files_that_the_sidecar_does_not_list_are_no_data(directory, caplog):
    write_plain(directory / "part-00001-of-00003.tfrecord.bak", [1])
    source = TFRecordSource.from_directory(directory)
    assert source.split_count() == 3 and source.example_count() == 10
    assert "tfrecord.bak" in caplog.text


def test_directory_without_features_is_refused(tmp_path):
    write_plain(tmp_path / "a.tfrecord", [1])
    with pytest.raises(UsageError, match=r"tfhet\.json.*features="):
        TFRecordSource.from_directory(tmp_path)


def test_vanished_file_is_named(directory):
    (directory / "part-00001-of-00003.tfrecord").unlink()
    with pytest.raises(UsageError, match="lacks 1 files .* part-00001-of-00003"):
        TFRecordSource.from_directory(directory)
    with pytest.raises(UsageError, match=r"no such TFRecord file: .*absent"):
        TFRecordSource([directory / "absent"], FEATURES).check()


def test_broken_file_fails_the_check(directory):
    victim = directory / "part-00002-of-00003.tfrecord"
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(DataError, match="part-00002-of-00003.tfrecord .* byte") as caught:
        TFRecordSource.from_directory(directory).check()
    assert caught.value.path == str(victim)
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    "features",
    [
        {"picture": Raw((2, 2, 1))},
        {"label": Scalar("float32")},
        {"image": Raw((2, 2, 3))},
        {"label": Fixed([2], "int64")},
    ],
)
def test_features_that_do_not_fit_fail_the_check(directory, features):
    with pytest.raises(UsageError, match=r"image \(bytes\), label \(int64\)"):
        TFRecordSource.from_directory(directory, features).check()


def test_files_without_examples_fail_the_check(tmp_path):
    write_plain(tmp_path / "a.tfrecord", [])
    with pytest.raises(UsageError, match="no records in 1 files"):
        TFRecordSource(tmp_path, FEATURES).check()
    with tf.io.TFRecordWriter(str(tmp_path / "b.tfrecord")) as writer:
        writer.write(b"\xff\xff not a message")
    with pytest.raises(UsageError, match=r"byte 0: .*tf\.train\.Example"):
        TFRecordSource(tmp_path, FEATURES).check()


def test_fingerprint_is_of_names_sizes_and_features(directory, tmp_path):
    here = TFRecordSource.from_directory(directory)
    copy = shutil.copytree(directory, tmp_path / "other" / "place")
    assert TFRecordSource.from_directory(copy).fingerprint() == here.fingerprint()
    assert TFRecordSource(directory, {"label": Scalar()}).fingerprint() != here.fingerprint()
    assert TFRecordSource(here.files[:2], FEATURES).fingerprint() != here.fingerprint()
    with open(copy / "part-00000-of-00003.tfrecord", "ab") as stream:
        stream.write(b"more")
    assert TFRecordSource.from_directory(copy).fingerprint() != here.fingerprint()


def test_files_of_one_name_are_counted_separately(tmp_path):
    for name, values in (("a", [1]), ("b", [2, 3])):
        (tmp_path / name).mkdir()
        write_plain(tmp_path / name / "part.tfrecord", values)
    source = TFRecordSource([tmp_path / "b/part.tfrecord", tmp_path / "a/part.tfrecord"], {"x": Scalar()})
    source.check()
    assert source.example_count() == 3
    assert read_all(source, "x") == [[1], [2, 3]]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_rewritten_data_have_another_fingerprint(tmp_path, scheme):
    prints = []
    for label in (1, 3):
        examples = [{"image": np.full((2, 2, 3), label, np.uint8), "label": label} for _ in range(4)]
        place = tmp_path / str(label) / "data"
        write_tfrecords(place, examples, 2, {"image": Raw((2, 2, 3)), "label": Scalar()})
        prints.append(TFRecordSource(f"{scheme}{place}", {"label": Scalar()}).fingerprint())
    assert prints[0] != prints[1]


def test_rank_checks_its_share_of_files(directory, monkeypatch):
    whole, shared = (TFRecordSource.from_directory(directory) for _ in range(2))
    whole.check()
    sizes, walked = whole.split_sizes(), []
    assert sizes is not None
    monkeypatch.setattr("tfhet.source.tfrecord.reach", lambda files, **how: walked.extend(files) or reach(files))

    def gather(own: np.ndarray) -> np.ndarray:
        assert own.tolist() == [example_id(1, sizes[1])]
        return np.array([example_id(2, sizes[2]), *own, example_id(0, sizes[0])])

    shared.check((1, 3), gather)
    assert shared.split_sizes() == sizes
    assert walked == [shared.files[1]]


# Classes that other data number


def classified(place, names: tuple[str, ...], labels: list[int], feature=None) -> str:
    features = {"image": Raw((2, 2, 1)), "label": feature or Scalar()}
    examples = [{"image": np.full((2, 2, 1), label, np.uint8), "label": label} for label in labels]
    return str(write_tfrecords(place, examples, 1, features, classes=names))


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_labels_are_renumbered_as_in_other_data(tmp_path, dtype):
    place = classified(tmp_path / "set", ("cat", "dog"), [0, 1, 1], Scalar(dtype))
    source = TFRecordSource.from_directory(place, classes=("ant", "cat", "cow", "dog"))
    source.check()
    assert read_all(source, "label") == [[1, 3, 3]]
    assert read_all(source, "image")[0] == np.repeat([0, 1, 1], 4).reshape(3, 2, 2, 1).tolist()
    assert not source.reads_blocks()  # which would deliver the labels as they are stored
    assert source.fingerprint() != TFRecordSource.from_directory(place).fingerprint()
    pipeline = tfhet.Pipeline(source, "rescale()", batch_size=3)
    assert next(iter(pipeline.dataset()))["label"].numpy().tolist() == [1, 3, 3]


@pytest.mark.parametrize("names", [(), ("cat", "dog"), ("cat", "dog", "emu")])
def test_labels_of_equal_or_unknown_classes_stay(tmp_path, names):
    place = classified(tmp_path / "set", ("cat", "dog"), [0, 1])
    source, plain = TFRecordSource.from_directory(place, classes=names), TFRecordSource.from_directory(place)
    assert read_all(source, "label") == [[0, 1]]
    assert source.fingerprint() == plain.fingerprint()
    nameless = TFRecordSource.from_directory(classified(tmp_path / "nameless", (), [1, 0]), classes=("ant", "cat"))
    assert read_all(nameless, "label") == [[1, 0]]


def test_class_missing_from_other_data_is_named(tmp_path):
    place = classified(tmp_path / "set", ("cat", "dog", "emu"), [0, 1])
    with pytest.raises(UsageError, match="set .*: dog, emu; .* ant, cat;"):
        TFRecordSource.from_directory(place, classes=("ant", "cat"))


def test_label_without_a_class_is_a_bad_record(tmp_path):
    source = TFRecordSource.from_directory(
        classified(tmp_path / "set", ("cat", "dog"), [0, 2]), classes=("ant", "cat", "dog")
    )
    source.check()
    bad = find(source)
    assert bad is not None and bad.position == 1 and "0 to 1" in bad.reason


def test_only_class_numbers_can_be_renumbered(tmp_path):
    shares = write_tfrecords(
        tmp_path / "set", [{"label": np.float32([1, 0])}], 1, {"label": Fixed((2,))}, classes=("cat", "dog")
    )
    with pytest.raises(UsageError, match="label Fixed"):
        TFRecordSource.from_directory(shares, classes=("ant", "cat", "dog"))


@pytest.mark.parametrize("block", [1 << 20, 16], ids=["one block", "a block each"])
def test_skipping_keeps_the_neighbours_of_a_value_that_does_not_fit(tmp_path, monkeypatch, block):
    monkeypatch.setattr(examples, "BLOCK_BYTES", block)
    write_plain(tmp_path / "a.tfrecord", [300, 1, -1, 2, 300, 300, 3, 300])
    for on_bad_record in ("skip", "fail"):
        source = TFRecordSource(tmp_path / "a.tfrecord", {"x": Scalar("uint8")}, on_bad_record=on_bad_record)
        assert source.reads_blocks()
        blocks = source.read_blocks(tf.constant(0, tf.int64), tf.constant(0, tf.int64))
        if on_bad_record == "fail":
            with pytest.raises(tf.errors.InvalidArgumentError, match="uint8"):
                list(blocks)
        else:
            pairs = [zip(ids.numpy(), made["x"].numpy(), strict=True) for ids, _, made in blocks]
            found = [(int(at), int(label)) for each in pairs for at, label in each]
            assert found == [(1, 1), (3, 2), (6, 3)]
