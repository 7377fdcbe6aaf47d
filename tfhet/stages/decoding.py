"""The stage `decode`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("decode")
class Decode(Stage):
    """Decodes JPEG, PNG, WebP, BMP or GIF (first frame) to uint8, each image in its own size.

    Values equal `tf.io.decode_image`, or Pillow and torchvision with `accurate`. The image is turned upright by the
    Exif orientation of its file.
    `random_resized_crop`, `resize` or `resized_center_crop` has to follow, which brings the images to one size.
    Together with it, and with a `random_flip()` after it, only the part of each image that is used is decoded.
    """

    channels: Annotated[int, (1, 3)] = 3
    """Channels of the result: 1 (grey) or 3 (RGB)."""
    upright: bool = True
    """Whether images are turned by the Exif orientation of their files, as photos of phones need."""
    accurate: bool = False
    """Whether JPEG is decoded by the accurate transform (JDCT_ISLOW), as by Pillow and torchvision, for 3 to 5 % more
    CPU time. The fast one differs from it by 1 level in the mean and by at most 6."""

    keeps_shape: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("encoded",)

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return ImageSpec(None, None, self.channels, "uint8", 0.0, 255.0, ragged=True)
