from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source import ArraySpec, Sidecar, TFRecordSource
from tfhet.source.digits import digits, enlarged
from tfhet.source.photos import photos

sklearn_datasets = pytest.importorskip("sklearn.datasets")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    return digits(tmp_path_factory.mktemp("digits") / "set")


def read(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    source = TFRecordSource.from_directory(directory)
    source.check()
    records = list(tf.data.TFRecordDataset(source.files))
    parsed = source.parse(tf.stack(records))
    return parsed["image"].numpy(), parsed["label"].numpy()


def test_sizes_shards_and_classes(written):
    for name, examples, shards in (("train", 1437, 16), ("validation", 360, 4)):
        source = TFRecordSource.from_directory(written / name)
        assert (source.example_count(), source.split_count()) == (examples, shards)
        assert source.spec["image"] == ArraySpec((None, 32, 32, 3), "uint8")
        sidecar = Sidecar.read(written / name)
        assert sidecar is not None
        assert sidecar.classes == tuple("0123456789")


def test_both_parts_are_the_digits_of_scikit_learn(written):
    images, labels = sklearn_datasets.load_digits(return_X_y=True)
    pairs = zip(enlarged(images.reshape(-1, 8, 8)), labels, strict=True)
    original = sorted((image.tobytes(), label) for image, label in pairs)
    found = [pair for name in ("train", "validation") for pair in zip(*read(written / name), strict=True)]
    assert sorted((image.tobytes(), label) for image, label in found) == original


def test_split_is_stratified_and_shards_mixed(written):
    for name, examples in (("train", 1437), ("validation", 360)):
        counts = np.bincount(read(written / name)[1])
        assert np.abs(counts / examples - np.bincount(sklearn_datasets.load_digits().target) / 1797).max() < 0.002
    for file in TFRecordSource.from_directory(written / "train").files:
        labels = [
            tf.train.Example.FromString(r.numpy()).features.feature["label"] for r in tf.data.TFRecordDataset(file)
        ]
        assert len({label.int64_list.value[0] for label in labels}) == 10


def test_enlarging_keeps_levels_and_orientation():
    plain = enlarged(np.full((1, 8, 8), 16.0))
    assert (plain.shape, plain.dtype) == ((1, 32, 32, 3), np.uint8)
    assert (plain == 255).all()
    ramp = enlarged(np.tile(np.arange(8.0), (1, 8, 1)))[0, ..., 0]
    assert (ramp == ramp[0]).all()
    assert (np.diff(ramp[0].astype(int)) >= 0).all()
    resized = tf.image.resize(np.arange(64.0).reshape(1, 8, 8, 1) / 4 * 255 / 16, (32, 32))[0, ..., 0]
    assert np.abs(enlarged(np.arange(64.0).reshape(1, 8, 8) / 4)[0, ..., 0] - resized.numpy()).max() <= 0.501


def test_second_call_finds_what_exists(written):
    before = {file: file.stat().st_mtime_ns for file in written.rglob("*")}
    assert digits(written) == written
    assert {file: file.stat().st_mtime_ns for file in written.rglob("*")} == before
    with pytest.raises(UsageError, match="shards 16, not 8"):
        digits(written, shards=8)


def test_default_directory_is_in_the_cache(tmp_path):
    target = digits(shards=2, cache=tmp_path)
    assert target == tmp_path / "tfhet" / "digits" / "2-shards"
    assert [len(list((target / name).glob("*.tfrecord"))) for name in ("train", "validation")] == [2, 4]


def test_directory_of_something_else_is_kept(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="something else"):
        digits(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(UsageError, match="1 shard"):
        digits(tmp_path / "new", shards=0)


@pytest.mark.slow
def test_two_racing_processes_get_one_set(written, tmp_path):
    command = [sys.executable, "-m", "tfhet.source.digits", str(tmp_path / "set")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    root = Path(__file__).parents[3]
    racers = [subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [racer.communicate(timeout=120)[0].strip() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert said == [str(tmp_path / "set")] * 2
    assert [file.name for file in tmp_path.iterdir()] == ["set"]
    for name in ("train", "validation"):
        ours = TFRecordSource.from_directory(written / name)
        theirs = TFRecordSource.from_directory(tmp_path / "set" / name)
        assert ours.fingerprint() == theirs.fingerprint()  # computed in this process, of files from another
        assert [Path(f).read_bytes() for f in ours.files] == [Path(f).read_bytes() for f in theirs.files]


# Photos

COUNT = 48


@pytest.fixture(scope="module")
def snapped(tmp_path_factory) -> Path:
    return photos(tmp_path_factory.mktemp("photos") / "set", COUNT, seed=5, shards=4)


def test_count_shards_classes_and_format(snapped):
    source = TFRecordSource.from_directory(snapped)
    assert (source.example_count(), source.split_count()) == (COUNT, 4)
    assert source.spec["image"] == ArraySpec((None,), "string")
    sidecar = Sidecar.read(snapped)
    assert sidecar is not None and tuple(sidecar.classes) == ("china.jpg", "flower.jpg")
    images, labels = read(snapped)
    assert all(image.startswith(b"\xff\xd8\xff") for image in images) and len(set(images)) == COUNT
    assert sorted(labels) == [0] * (COUNT // 2) + [1] * (COUNT // 2)


def test_sizes_are_those_of_training_photos(snapped):
    images, _ = read(snapped)
    shapes = np.array([tf.io.extract_jpeg_shape(image).numpy() for image in images])
    assert sorted(np.median(np.sort(shapes[:, :2], axis=1), axis=0)) == [375, 500]
    assert shapes[:, :2].min() >= 300 and shapes[:, :2].max() <= 1000
    assert 0.1 < (shapes[:, 0] > shapes[:, 1]).mean() < 0.4
    assert 80e3 < np.mean([len(image) for image in images]) < 130e3


def test_seed_decides_the_photos(tmp_path):
    first = [read(photos(tmp_path / name, 2, seed, 1))[0] for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert (first[0] == first[1]).all() and (first[0] != first[2]).all()


def test_cached_photos_are_named_by_their_arguments(tmp_path):
    assert photos(count=2, shards=1, cache=tmp_path) == tmp_path / "tfhet" / "photos" / "2-photos-1-shards-seed-0"
    with pytest.raises(UsageError, match="1 photo and 1 shard"):
        photos(tmp_path / "none", 0)
