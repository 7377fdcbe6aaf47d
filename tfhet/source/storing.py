"""How images are stored in TFRecords: as their files, or decoded once for all epochs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from tfhet import kernels
from tfhet.errors import UsageError
from tfhet.source.image_file import check

STORES = ("jpeg", "yuv420", "rgb")
QUALITY = 95
"""Quality of the JPEG files that are written."""


@dataclass(frozen=True)
class Store:
    """How `from_image_folder` stores images."""

    kind: str = "jpeg"
    """"jpeg": the image files, unchanged; "yuv420": decoded, 1.5 bytes a pixel; "rgb": decoded, 3 bytes a pixel. The
    stage `decode` reads all three."""
    max_side: int | None = None
    """Images whose longer side has more pixels are reduced to it, antialiased, in their shape. As "jpeg" they are
    written as JPEG of quality 95 and 4:2:0."""
    accurate: bool = False
    """Whether JPEG is decoded by the accurate transform, as by `decode(accurate=True)`."""

    def __post_init__(self) -> None:
        if self.kind not in STORES:
            raise UsageError(f"images are stored as {', '.join(STORES)}, not {self.kind}")
        if self.max_side is not None and self.max_side < 1:
            raise UsageError(f"the longer side of an image has at least 1 pixel, not {self.max_side}")

    @property
    def is_plain(self) -> bool:
        """Whether all image files are stored unchanged."""
        return self.kind == "jpeg" and self.max_side is None

    def details(self) -> Mapping[str, Any]:
        """Returns the entries of `tfhet.json`."""
        if self.is_plain:
            return {}
        return {"store": self.kind, "max_side": self.max_side, "accurate": self.accurate}

    def content(self, file: bytes) -> bytes:
        """Returns an image file as it is stored. Raises DataError if it cannot be decoded."""
        if self.kind != "jpeg":
            return kernels.store_image(file, self.kind, self.max_side, accurate=self.accurate)
        size = check(file)
        if self.max_side is None or max(size) <= self.max_side:
            return file
        stored = np.frombuffer(kernels.store_image(file, "rgb", self.max_side, accurate=self.accurate), np.uint8)
        height, width = stored[8:16].view("<u4").tolist()
        image, result = Image.fromarray(stored[16:].reshape(height, width, 3)), io.BytesIO()
        image.save(result, "JPEG", quality=QUALITY, subsampling="4:2:0")
        return result.getvalue()
