"""libjpeg-turbo, by simplejpeg, with OpenCV for the rest, as its experts write it.

`reduced` takes what libjpeg sells for a worse picture: 1/2, 1/4 or 1/8 of an image whose part is shrunk by as much, by
smaller inverse transforms; the fast transform; colours that are repeated where they are not sampled. Neither simplejpeg
nor PyTurboJPEG decodes a part of an image alone. PyTurboJPEG can cut it out of the compressed file first, but that
writes a file anew: on the photographs of this suite it took 1870 us for the crops of `imagenet-train`, decoding all of
each image 1190.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.job import LINEAR, REDUCED, Job, from_files
from benchmarks.peers.opencv import finished, framed
from benchmarks.peers.peer import Peer

FACTORS = (8, 4, 2)
"""1 / the scales of libjpeg that take less time than decoding all: it has others, such as 3/8 and 7/8."""


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import cv2
    import simplejpeg

    cv2.setNumThreads(1)  # batches run side by side
    finish = finished(cv2, job)
    fast = job.way == REDUCED

    def work(file: str, out: np.ndarray, draw: random.Random) -> None:
        content = Path(file).read_bytes()
        size = simplejpeg.decode_jpeg_header(content)[:2]

        def decode(shrunk: float) -> np.ndarray:
            by = next((factor for factor in FACTORS if factor <= shrunk), 1) if fast else 1
            return decoded(simplejpeg, content, size, by, fast)

        finish(framed(cv2, job, draw, size, decode), out, draw)

    return from_files(job, work)


def decoded(simplejpeg: Any, content: bytes, size: tuple[int, int], by: int, fast: bool) -> np.ndarray:
    """uint8 [rows, columns, 3], 1 / `by` of the image in the file. size: rows and columns of the image."""
    rows, columns = (-(-side // by) for side in size)
    smallest = {"min_height": rows, "min_width": columns, "min_factor": by} if by > 1 else {}
    image: np.ndarray = simplejpeg.decode_jpeg(content, "RGB", fastdct=fast, fastupsample=fast, **smallest)
    return image


PEER = Peer(
    name="turbojpeg",
    words="libjpeg-turbo with OpenCV",
    imports=("simplejpeg", "cv2"),
    requires=("simplejpeg==1.9.0", "opencv-python-headless==4.11.0.86", "numpy<2"),
    does={
        "imagenet-train": (LINEAR, REDUCED),
        "imagenet-jitter": (LINEAR, REDUCED),
        "imagenet-eval": (LINEAR, REDUCED),
    },
    build=_build,
    differs="`reduced` decodes images that are shrunk by 2 or more at a fraction, and colours coarsely",
)
