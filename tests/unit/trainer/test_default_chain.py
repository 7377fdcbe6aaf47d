from __future__ import annotations

import pytest

from tfhet.stages import ImageSpec, parse
from tfhet.trainer.build import default_chain


def images(height: int, width: int, channels: int = 3) -> ImageSpec:
    return ImageSpec(height, width, channels, "uint8", 0.0, 255.0)


@pytest.mark.parametrize(
    ("given", "chain", "reason"),
    [
        (ImageSpec(None, None, 0, "encoded", 0.0, 255.0), "imagenet-train", "the data are image files"),
        (images(32, 32), "aws-cifar", "the images are small, 32x32"),
        (images(64, 8, 1), "aws-cifar", "the images are small, 64x8"),
        (images(65, 8), "random_resized_crop(65, 8); random_flip(); rescale()", "the images are 65x8"),
        (images(224, 224, 1), "random_resized_crop(224, 224); random_flip(); rescale()", "the images are 224x224"),
    ],
)
def test_chain_is_chosen_for_the_images(given, chain, reason):
    assert default_chain(given) == (chain, reason)
    spec = given
    for stage in parse(chain):
        stage.admit(spec)
        spec = stage.spec(spec)
    assert spec.height and spec.width and spec.dtype == "float32" and not spec.ragged
