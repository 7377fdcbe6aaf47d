from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfhet.errors import UsageError
from tfhet.source import SyntheticSource

FINGERPRINT = "2cfc163b8d80c426ef6251a4f1cc2ea0"
PIXELS = [188, 43, 252, 105, 15, 132, 174, 192, 102, 214, 210, 69]


@pytest.mark.parametrize(("examples", "splits"), [(100, 7), (1000, 256), (3, 5), (1, 1)])
def test_splits_are_nearly_equal(examples, splits):
    sizes = SyntheticSource(examples, splits).split_sizes()
    assert (len(sizes), sum(sizes)) == (splits, examples)
    assert max(sizes) - min(sizes) <= 1


def test_uneven_splits_grow():
    sizes = SyntheticSource(1000, 8, uneven=True).split_sizes()
    assert sum(sizes) == 1000
    assert sorted(sizes) == list(sizes)
    assert sizes[-1] > 7 * sizes[0]


def test_pixels_and_labels_are_uniform():
    parsed = SyntheticSource(1, 1, (8, 8, 3), classes=7).parse(tf.range(500, dtype=tf.int64))
    assert stats.chisquare(np.bincount(parsed["image"].numpy().ravel(), minlength=256)).pvalue > 0.01
    assert stats.chisquare(np.bincount(parsed["label"].numpy(), minlength=7)).pvalue > 0.01


def test_images_are_unique():
    ids = tf.concat([tf.range(200, dtype=tf.int64), tf.range(1, 200, dtype=tf.int64) * 2**32], 0)
    images = [SyntheticSource(1, 1, (4, 4, 3), seed=seed).parse(ids)["image"].numpy() for seed in (0, 1)]
    together = np.concatenate(images).reshape(2 * len(ids), -1)
    assert len(np.unique(together, axis=0)) == len(together)


def test_odd_numbers_of_bytes_are_filled():
    image = SyntheticSource(1, 1, (3, 5, 1)).parse(tf.range(100, dtype=tf.int64))["image"].numpy()
    assert image.shape == (100, 3, 5, 1)
    assert (image.std(axis=0) > 40).all()


@pytest.mark.parametrize(
    "changed", [{"examples": 99}, {"splits": 3}, {"shape": (8, 8, 1)}, {"classes": 9}, {"seed": 1}, {"uneven": True}]
)
def test_fingerprint_depends_on_every_argument(changed):
    given = {"examples": 100, "splits": 4, "shape": (8, 8, 3), "classes": 10, "seed": 0, "uneven": False}
    assert SyntheticSource(**given).fingerprint() == SyntheticSource(**given).fingerprint()
    assert SyntheticSource(**{**given, **changed}).fingerprint() != SyntheticSource(**given).fingerprint()


@pytest.mark.parametrize("run", [lambda parse: parse, tf.function], ids=["eager", "graph"])
def test_fingerprint_and_content_are_stable(run):
    source = SyntheticSource(100, 4, (2, 2, 3), seed=5)
    assert source.fingerprint() == FINGERPRINT
    assert run(source.parse)(tf.constant([3 << 32 | 7], tf.int64))["image"].numpy().ravel().tolist() == PIXELS


@pytest.mark.parametrize("bad", [{"examples": 0}, {"splits": 0}, {"classes": 0}, {"shape": (8, 8)}])
def test_bad_counts_are_refused(bad):
    with pytest.raises(UsageError, match="1 example, split"):
        SyntheticSource(**{"examples": 1, "splits": 1, **bad})
