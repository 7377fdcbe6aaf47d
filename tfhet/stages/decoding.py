"""The stage `decode`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("decode")
class Decode(Stage):
    """Decodes JPEG, PNG, WebP, BMP, GIF (first frame) or TFI (`tfhet convert --store`) to uint8, each in its own size.

    Values equal `tf.io.decode_image`, or Pillow and torchvision with `accurate`. The image is turned upright by the
    Exif orientation of its file.
    `random_resized_crop`, `resize` or `resized_center_crop` has to follow, which brings the images to one size.
    Together with it, and with a `random_flip()` after it, only the part of each image that is used is decoded.

    `reduced=True` saves CPU time on large photos and gives another, smoother image. A JPEG whose resized part has at
    least 2, 4 or 8 times the rows and columns of the result is decoded at 1/2, 1/4 or 1/8 of its size: each of its
    pixels is the mean of a square of pixels. The drawn parts stay the same, and nothing is shifted; at the edge
    of a part, up to 7 pixels beyond it count. Everything else is decoded in full: smaller parts, other formats, and
    chains or pipelines with `fuse=False`. Measured at 224 x 224:

    - JPEGs of 4000 x 3000 pixels (`imagenet-train`, `imagenet-eval`): 1.5 and 1.7 times less CPU time, with `antialias`
      1.7 and 2. Levels differ by 4 in the mean, with `antialias` by 1. They are 0.9 higher in the mean, 0.1 with
      `accurate`: the fast transform darkens full images.
    - The same, turned by their Exif orientation: 9 times less, because only their part is decoded, too.
    - JPEGs of 500 x 375 pixels: the same image and CPU time.
    """

    channels: Annotated[int, (1, 3)] = 3
    """Channels of the result: 1 (grey) or 3 (RGB)."""
    upright: bool = True
    """Whether images are turned by the Exif orientation of their files, as photos of phones need."""
    accurate: bool = False
    """Whether JPEG is decoded by the accurate transform (JDCT_ISLOW), as by Pillow and torchvision, for 3 to 5 % more
    CPU time. The fast one differs from it by 1 level in the mean and by at most 6."""

    reduced: bool = False
    """Whether large parts of JPEGs are decoded at 1/2, 1/4 or 1/8 of their size: another image, for less CPU time."""

    keeps_shape: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("encoded",)

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return ImageSpec(None, None, self.channels, "uint8", 0.0, 255.0, ragged=True)
