"""The chain of a training that was given none."""

from __future__ import annotations

from tfhet.stages import ImageSpec

AUTO = "auto"
SMALL = 64
"""Maximum height and width of small images, such as CIFAR's."""


def default_chain(images: ImageSpec) -> tuple[str, str]:
    """Returns a chain for images of this kind, and the reason for it."""
    if images.dtype == "encoded":
        return "imagenet-train", "the data are image files"
    height, width = images.height, images.width
    if max(height or 0, width or 0) <= SMALL:
        return "aws-cifar", f"the images are small, {height}x{width}"
    return f"random_resized_crop({height}, {width}); random_flip(); rescale()", f"the images are {height}x{width}"
