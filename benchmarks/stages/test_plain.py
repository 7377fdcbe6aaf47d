"""The chain as AWS's example writes it does the same work as tfhet's chain."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")
pytest.importorskip("tensorflow_addons")

from benchmarks.job_scripts import plain
from tfhet import stages as stage_room
from tfhet.pipeline import Pipeline
from tfhet.source import TFRecordSource, digits as digit_data

EXAMPLES = 37
SHAPE = (32, 32, 3)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> TFRecordSource:
    folder = tmp_path_factory.mktemp("records")
    return digit_data.repeated(folder, EXAMPLES, tmp_path_factory.mktemp("cache"))


def written(digits: TFRecordSource, chain: str) -> tuple[np.ndarray, np.ndarray]:
    made = plain.dataset(digits.files, SHAPE, stage_room.parse(chain), 16)
    images, labels = zip(*made.as_numpy_iterator(), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def test_example_and_tfhet_make_same_images(digits: TFRecordSource) -> None:
    chain = "dilate(3); gaussian_blur(11, 0.8)"
    batches = list(Pipeline(digits, chain, 16).dataset().as_numpy_iterator())
    in_file_order = np.argsort(np.concatenate([batch["id"] for batch in batches]))
    ours = np.concatenate([batch["image"] for batch in batches])[in_file_order]
    theirs, labels = written(digits, chain)
    assert ours.dtype == theirs.dtype == np.uint8
    assert (np.concatenate([batch["label"] for batch in batches])[in_file_order] == labels).all()
    apart = np.abs(ours.astype(int) - theirs)
    assert apart.max() <= 1 and (apart > 0).mean() < 0.002  # the add-on rounds down in flat areas
    assert (written(digits, "")[0] != theirs).mean() > 0.3


def test_example_augments_every_image(digits: TFRecordSource) -> None:
    images, labels = written(digits, "aws-cifar")
    still, still_labels = written(digits, "dilate(3); gaussian_blur(11, 0.8); rescale(1/255)")
    assert images.shape == (EXAMPLES, *SHAPE) and images.dtype == np.float32
    assert images.min() >= 0.0 and images.max() <= 1.0
    assert (labels == still_labels).all()
    assert sum(not np.array_equal(a, b) for a, b in zip(images, still, strict=True)) > EXAMPLES * 0.9
