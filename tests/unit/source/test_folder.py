from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import DataError, UsageError
from tfhet.source import Sidecar, TFRecordSource, from_image_folder

COLOURS = {"blue": (0, 0, 250), "green": (0, 250, 0), "red": (250, 0, 0)}


@pytest.fixture
def folder(tmp_path):
    """Three classes of plain images: png and jpeg, of two sizes, one of them in a folder below."""
    place = tmp_path / "images"
    for name, colour in COLOURS.items():
        (place / name / "more").mkdir(parents=True)
        for index in range(3):
            image = np.full((20 + 10 * (index % 2), 24, 3), colour, np.uint8)
            encoded = tf.io.encode_png(image) if index else tf.io.encode_jpeg(image, quality=100)
            where = place / name / ("more" if index == 2 else ".")
            (where / f"{index}.{'png' if index else 'JPG'}").write_bytes(encoded.numpy())
    (place / "green" / "notes.txt").write_text("not an image")
    (place / "readme.md").write_text("not a class")
    return place


def read(directory, size=None) -> tuple[np.ndarray, np.ndarray]:
    source = TFRecordSource.from_directory(directory, size=size)
    source.check()
    parsed = [
        source.parse(tf.stack([record for _, record in source.read(tf.constant(split, tf.int64))]))
        for split in range(source.split_count())
    ]
    return tuple(np.concatenate([part[name].numpy() for part in parsed]) for name in ("image", "label"))


@pytest.mark.parametrize("size", [None, (16, 16)], ids=["encoded", "raw"])
def test_every_image_arrives_with_the_label_of_its_folder(folder, tmp_path, size):
    target = from_image_folder(folder, tmp_path / "set", shards=2, size=size)
    images, labels = read(target, size=None if size else (16, 16))
    assert images.shape == (9, 16, 16, 3)
    assert np.bincount(labels).tolist() == [3, 3, 3]
    colours = np.array([COLOURS[name] for name in sorted(COLOURS)])
    assert np.abs(images - colours[labels][:, None, None, :]).max() <= 8
    sidecar = Sidecar.read(target)
    assert sidecar is not None
    assert sidecar.classes == ("blue", "green", "red")


def test_encoded_images_are_stored_byte_for_byte(folder, tmp_path):
    target = from_image_folder(folder, tmp_path / "set", shards=1)
    stored = set()
    for record in tf.data.TFRecordDataset([str(file) for file in target.glob("*.tfrecord")]):
        stored.add(tf.train.Example.FromString(record.numpy()).features.feature["image"].bytes_list.value[0])
    assert stored == {file.read_bytes() for file in folder.rglob("*") if file.suffix in (".png", ".JPG")}


def test_classes_are_mixed_in_an_order_that_the_seed_decides(folder, tmp_path):
    labels = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        labels[name] = read(from_image_folder(folder, tmp_path / name, 1, (8, 8), seed))[1].tolist()
    assert labels["a"] == labels["b"] != labels["c"]
    assert labels["a"] != sorted(labels["a"])


def test_progress_is_told_from_the_first_image_to_the_last(folder, tmp_path):
    told = []
    from_image_folder(folder, tmp_path / "set", 1, progressed=lambda *counts: told.append(counts))
    assert told == [(0, 9), (9, 9)]


def test_a_folder_without_classes_or_images_is_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="no image folder"):
        from_image_folder(tmp_path / "absent", tmp_path / "set", 1)
    with pytest.raises(UsageError, match="has no sub-folders"):
        from_image_folder(folder / "blue" / "more", tmp_path / "set", 1)
    (folder / "empty").mkdir()
    with pytest.raises(UsageError, match=r"class empty has no images .*\.jpg"):
        from_image_folder(folder, tmp_path / "set", 1)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("content", "size"), [(b"hello", None), (b"hello", (8, 8)), (b"\xff\xd8\xff broken", (8, 8))])
def test_a_file_that_is_no_image_is_named(folder, tmp_path, content, size):
    (folder / "red" / "holiday.jpg").write_bytes(content)
    with pytest.raises(DataError, match=r"holiday\.jpg .*remove or replace") as caught:
        from_image_folder(folder, tmp_path / "set", 1, size)
    assert caught.value.path == str(folder / "red" / "holiday.jpg")
    assert not (tmp_path / "set").exists()
