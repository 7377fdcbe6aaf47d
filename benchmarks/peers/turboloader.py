"""TurboLoader's decoder at a reduced scale, only of the part that a crop needs; then OpenCV as in the peer `opencv`.

The scale is the smallest of n/8 at which the whole photo is at least as large as the result, so a small part of a photo
is enlarged from fewer pixels than the file has: another image, which is softer.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from benchmarks.peers.opencv import box, photos
from benchmarks.peers.peer import LINEAR, PHOTO_CHAINS, Job, Peer, Run


def _build(job: Job) -> Run:
    import simplejpeg
    import turboloader

    def decode(file: str) -> np.ndarray:
        content = Path(file).read_bytes()
        sides = simplejpeg.decode_jpeg_header(content)[:2]
        height, width = (side * job.shorter // min(sides) for side in sides)
        image: np.ndarray = turboloader.decode_jpeg_scaled(content, width, height)
        return image

    def window(file: str, draw: random.Random) -> np.ndarray:
        content = Path(file).read_bytes()
        height, width = scaled(simplejpeg.decode_jpeg_header(content)[:2], job.size)
        top, left, rows, columns = box(job, draw, height, width)
        part, first, *_ = turboloader.decode_jpeg_region(content, job.size, job.size, left, top, columns, rows)
        image: np.ndarray = part[:, left - first : left - first + columns]
        return image

    return photos(job, decode, window)


def scaled(sides: tuple[int, int], size: int) -> tuple[int, int]:
    """Returns rows and columns of a photo at the scale at which TurboLoader decodes it for a square result."""
    height, width = sides
    scales = ((-(-height * eighths // 8), -(-width * eighths // 8)) for eighths in range(1, 8))
    return next((found for found in scales if min(found) >= size), sides)


PEER = Peer(
    name="turboloader",
    words="TurboLoader with OpenCV",
    imports=("turboloader", "simplejpeg", "cv2"),
    requires=("turboloader==2.39.0", "simplejpeg==1.9.0", "opencv-python-headless==5.0.0.93"),
    does=dict.fromkeys(PHOTO_CHAINS, (LINEAR,)),
    build=_build,
    other_image="it decodes photos at a reduced scale",
)
