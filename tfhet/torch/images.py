"""Images of PyTorch programs as the compiled core reads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tfhet import kernels
from tfhet.errors import UsageError, shown
from tfhet.extras import needed

with needed("tfhet.torch"):
    import torch

Batch: TypeAlias = "list[bytes] | kernels.Contents | list[np.ndarray] | np.ndarray"
"""Image files, images of several sizes [height, width, channels], or [batch, height, width, channels]."""
_ACCEPTED = (
    "the bytes of an image file, a PIL image, a tensor [channels, height, width], an array [height, width, channels], "
    "a list of one of these, a tensor [batch, channels, height, width] or an array [batch, height, width, channels]"
)


def batch_of(images: Any) -> tuple[Batch, bool]:
    """Returns images as the core reads them, and whether it is one image and no batch. Memory is shared if possible.

    Raises:
        UsageError: They are no images, have another dtype than uint8 and float32, or are on another device.
    """
    if isinstance(images, kernels.Contents):
        return images, False
    if isinstance(images, (list, tuple)):
        return _joined([_one(image, f"image {at} of the list") for at, image in enumerate(images)]), False
    if isinstance(images, torch.Tensor) and images.dim() == 4:
        return _array(images, "the tensor").transpose(0, 2, 3, 1), False
    if isinstance(images, np.ndarray):
        if images.ndim == 4:
            return _checked(images, "the array"), False
        if images.ndim == 1 and images.dtype.kind in "OS":
            return batch_of(images.tolist())
    one = _one(images, "the image")
    return [one] if isinstance(one, bytes) else one[np.newaxis], True


def sizes(images: Sequence[np.ndarray]) -> str:
    """Returns two of the sizes of images, for an error message."""
    first, other = list(dict.fromkeys(f"{image.shape[0]} x {image.shape[1]}" for image in images))[:2]
    return f"sizes such as {first} and {other}"


def _joined(images: list[bytes | np.ndarray]) -> Batch:
    files = [image for image in images if isinstance(image, bytes)]
    if len(files) == len(images):
        return files
    if files:
        raise UsageError(f"the list has {len(files)} files and {len(images) - len(files)} images: pass one kind")
    arrays = [image for image in images if isinstance(image, np.ndarray)]
    kinds = sorted({f"{array.dtype} with {array.shape[2]} channels" for array in arrays})
    if len(kinds) > 1:
        raise UsageError(f"the images of the list are {' and '.join(kinds)}: convert them to one kind")
    return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else arrays


def _one(image: Any, where: str) -> bytes | np.ndarray:
    """Returns the content of an image file, or an image [height, width, channels]."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, torch.Tensor):
        if image.dim() == 3:
            return _array(image, where).transpose(1, 2, 0)
        if image.dim() == 1 and image.dtype == torch.uint8:  # a file, as torchvision.io.read_file returns it
            return _array(image, where).tobytes()
    pil = sys.modules.get("PIL.Image")
    if pil is not None and isinstance(image, pil.Image):
        if image.mode not in ("RGB", "L"):
            raise UsageError(f'{where} has the PIL mode {image.mode}: convert it by image.convert("RGB")')
        array = np.asarray(image)
        return array if array.ndim == 3 else array[:, :, np.newaxis]
    if isinstance(image, np.ndarray) and image.ndim == 3:
        return _checked(image, where)
    what = f"{type(image).__name__} {list(image.shape)}" if hasattr(image, "shape") else shown(image)
    raise UsageError(f"{where} is {what}: pass {_ACCEPTED}")


def _array(tensor: torch.Tensor, where: str) -> np.ndarray:
    """Returns a tensor as an array in the same memory."""
    if tensor.device.type != "cpu":
        raise UsageError(
            f"{where} is on device {tensor.device}, and stages run on the CPU: run them before .to(device)"
        )
    if tensor.dtype not in (torch.uint8, torch.float32):
        raise UsageError(f"{where} is {tensor.dtype}, not uint8 or float32: convert it by .float()")
    array: np.ndarray = (tensor.detach() if tensor.requires_grad else tensor).numpy()
    return array


def _checked(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype not in (np.uint8, np.float32):
        raise UsageError(f"{where} is {array.dtype}, not uint8 or float32: convert it by .astype(numpy.float32)")
    return array
