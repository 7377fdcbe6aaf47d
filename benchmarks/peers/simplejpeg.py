"""simplejpeg with the fast DCT, a quick decoder of whole JPEG files; then OpenCV as in the peer `opencv`.

The fast DCT rounds coarsely: the image differs by less than a level from the exact one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.peers.opencv import photos
from benchmarks.peers.peer import LINEAR, PHOTO_CHAINS, Job, Peer, Run


def _build(job: Job) -> Run:
    import simplejpeg

    def decode(file: str) -> np.ndarray:
        image: np.ndarray = simplejpeg.decode_jpeg(Path(file).read_bytes(), "RGB", fastdct=True)
        return image

    return photos(job, decode)


PEER = Peer(
    name="simplejpeg",
    words="simplejpeg with OpenCV",
    imports=("simplejpeg", "cv2"),
    requires=("simplejpeg==1.9.0", "opencv-python-headless==5.0.0.93"),
    does=dict.fromkeys(PHOTO_CHAINS, (LINEAR,)),
    build=_build,
)
