"""`tfhet.torch.loader` of a declared pipeline: tensors equal to the arrays of `tfhet.batches`."""

from __future__ import annotations

import numpy as np
import pytest

import tfhet
from tfhet.strategies import JobContext

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

ALONE = JobContext("alone", "local")


@pytest.mark.parametrize("stages", ["random_flip()", "rescale(); one_hot(10); mixup()"])
def test_tensors_equal_arrays(stages):
    pipeline = tfhet.Pipeline(tfhet.SyntheticSource(50, 2), stages, batch_size=16, shuffle=True, seed=2)
    loader = tfhet.torch.loader(pipeline, job=ALONE)
    assert len(loader) == 4
    for (images, labels), (array, given) in zip(loader, tfhet.batches(pipeline, job=ALONE), strict=True):
        assert images.shape[1:] == (3, 32, 32) and images.is_contiguous(memory_format=torch.channels_last)
        np.testing.assert_array_equal(images.numpy().transpose(0, 2, 3, 1), array)
        np.testing.assert_array_equal(labels.numpy(), given)
        images.add_(1)  # the memory of a batch is the user's


def test_kept_batches_keep_their_content():
    pipeline = tfhet.Pipeline(tfhet.SyntheticSource(96, 2), "random_flip()", batch_size=8, shuffle=True, seed=2)
    kept = list(tfhet.torch.loader(pipeline, job=ALONE))
    for images, (array, _) in zip((images for images, _ in kept), tfhet.batches(pipeline, job=ALONE), strict=True):
        np.testing.assert_array_equal(images.numpy().transpose(0, 2, 3, 1), array)
