"""`tfhet.torch.from_torchvision(transform)`: tfhet's stages in the place of a transform of torchvision."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

from tfhet import stages as image_stages
from tfhet.errors import UsageError
from tfhet.extras import needed
from tfhet.torch.transform import stages

with needed("tfhet.torch"):
    import torch

IDS = 1 << 62
"""Example ids are drawn below this number."""


def from_torchvision(transform: Any) -> TranslatedTransform:
    """Returns stages that replace a transform of torchvision in a `Dataset`, without another change to the script.

    The object takes one image and returns a tensor, as a transform that ends with `ToTensor` does. Its random numbers
    derive from PyTorch's generator, as those of torchvision do: `torch.manual_seed` and the seeds of a `DataLoader`'s
    workers set them. An image file costs less than a PIL image, because only the part that a crop shows is decoded:

        ImageFolder(folder, tfhet.torch.from_torchvision(transform), loader=tfhet.torch.read_file)

    Args:
        transform: As for `tfhet.stages.from_torchvision`.

    Raises:
        UsageError: Transforms have no equal stages. The message lists all of them.
    """
    return TranslatedTransform(transform)


class TranslatedTransform:
    """The stages of a torchvision transform as a function of one image. It can be pickled.

    Attributes:
        translation: The stages for image files, and how they differ from the transform.
    """

    def __init__(self, transform: Any) -> None:
        self.translation = image_stages.from_torchvision(transform, decode=True)
        self._of_files = stages(self.translation.stages)
        self._of_images = stages(self.translation.stages[1:])

    def __repr__(self) -> str:
        return f"tfhet.torch.from_torchvision({self.translation.text!r})"

    def __call__(self, image: Any) -> Any:
        """Runs the stages.

        Args:
            image: The content of an image file, a PIL image with the mode RGB or L, uint8 or float32 [channels, height,
                width], or an array [height, width, channels].

        Returns:
            uint8 or float32 [channels, height, width].

        Raises:
            UsageError: The image does not fit the stages.
            OSError: Pillow cannot read the file either.
        """
        id = int(torch.randint(IDS, ()))
        if not isinstance(image, (bytes, bytearray, memoryview)):
            return self._of_images(image, id=id)
        try:
            return self._of_files(image, id=id)
        except UsageError:  # such as a TIFF file, which torchvision reads by Pillow, too
            with Image.open(io.BytesIO(image)) as opened:
                return self._of_images(opened.convert("RGB"), id=id)


def read_file(path: str) -> bytes:
    """Returns the content of a file, for the argument `loader` of torchvision's `ImageFolder`. Raises OSError."""
    with open(path, "rb") as file:
        return file.read()
