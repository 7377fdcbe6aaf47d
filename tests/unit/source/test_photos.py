from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source import Sidecar, TFRecordSource
from tfhet.source.photos import photos

pytest.importorskip("sklearn.datasets")
COUNT = 48


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    return photos(tmp_path_factory.mktemp("photos") / "set", COUNT, seed=5, shards=4)


def read(directory: Path) -> tuple[list[bytes], list[int]]:
    source = TFRecordSource.from_directory(directory)
    source.check()
    parsed = source.parse(tf.stack(list(tf.data.TFRecordDataset(source.files))))
    return parsed["image"].numpy().tolist(), parsed["label"].numpy().tolist()


def test_count_shards_classes_and_format(written):
    source = TFRecordSource.from_directory(written)
    assert (source.example_count(), source.split_count()) == (COUNT, 4)
    assert source.spec["image"] == tf.TensorSpec([None], tf.string)
    sidecar = Sidecar.read(written)
    assert sidecar is not None and tuple(sidecar.classes) == ("china.jpg", "flower.jpg")
    images, labels = read(written)
    assert all(image.startswith(b"\xff\xd8\xff") for image in images) and len(set(images)) == COUNT
    assert sorted(labels) == [0] * (COUNT // 2) + [1] * (COUNT // 2)


def test_sizes_are_those_of_training_photos(written):
    images, _ = read(written)
    shapes = np.array([tf.io.extract_jpeg_shape(image).numpy() for image in images])
    assert sorted(np.median(np.sort(shapes[:, :2], axis=1), axis=0)) == [375, 500]
    assert shapes[:, :2].min() >= 300 and shapes[:, :2].max() <= 1000
    assert 0.1 < (shapes[:, 0] > shapes[:, 1]).mean() < 0.4
    assert 80e3 < np.mean([len(image) for image in images]) < 130e3


def test_seed_decides_the_photos(written, tmp_path):
    first = [read(photos(tmp_path / name, 2, seed, 1))[0] for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert first[0] == first[1] != first[2]


def test_cached_photos_are_named_by_their_arguments(tmp_path):
    assert photos(count=2, shards=1, cache=tmp_path) == tmp_path / "tfhet" / "photos" / "2-photos-1-shards-seed-0"
    with pytest.raises(UsageError, match="1 photo and 1 shard"):
        photos(tmp_path / "none", 0)
