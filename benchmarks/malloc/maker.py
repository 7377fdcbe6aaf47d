"""A process on one CPU that makes batches of one load, and says what they cost.

{"chain": name, "batch_size": n, "channel": path} -> {"cpu_s": s, "faults": n, "peak_bytes": n}: of a batch, as a worker
of tf.data service makes it; and the most memory of the process
{"chain": "pillow", "batch_size": n}              -> the same of a batch as a function of a feed makes it
"""

from __future__ import annotations

import io
import os
import resource
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.cluster_runs import batch_cpu
from tfhet.bench.child_process import answer_requests
from tfhet.clock import SYSTEM

PILLOW = "pillow"
"""Name of the load without TensorFlow."""
PHOTOS, PHOTO, SIZE = 8, (375, 500), 224
"""Number of photos, rows and columns of each, and of what is made of it."""
ROUND_CPU_S = 2.0


def photos() -> list[bytes]:
    """Parts of a photo that comes with scikit-learn, as JPEG."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    whole, found = load_sample_image("china.jpg"), []
    for at in range(PHOTOS):
        file = io.BytesIO()
        Image.fromarray(whole[at : at + PHOTO[0], at : at + PHOTO[1]]).save(file, "JPEG", quality=95)
        found.append(file.getvalue())
    return found


def by_pillow(batch_size: int) -> Iterator[np.ndarray]:
    """Batches without end, float32 [batch size, SIZE, SIZE, 3]: each photo decoded, made smaller and normalised."""
    from PIL import Image

    files = photos()

    def example(file: bytes) -> np.ndarray:
        image = Image.open(io.BytesIO(file)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return (np.asarray(image, np.float32) - 127.5) / 63.75

    while True:
        yield np.stack([example(files[index % PHOTOS]) for index in range(batch_size)])


def measured(asked: Mapping[str, Any]) -> dict[str, float]:
    """The cost of a batch, in the second of two rounds: the first one does not count."""
    is_pillow = asked["chain"] == PILLOW
    batches = by_pillow(asked["batch_size"]) if is_pillow else batch_cpu.whole(batch_cpu.pipeline_of(asked))
    for _ in range(batch_cpu.FIRST_BATCHES):
        next(batches)
    for _ in range(2):
        taken, begun_s, faults = 0, SYSTEM.cpu(), _faults()
        while SYSTEM.cpu() < begun_s + ROUND_CPU_S:
            next(batches)
            taken += 1
    return {
        "cpu_s": (SYSTEM.cpu() - begun_s) / taken,
        "faults": (_faults() - faults) / taken,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answer_requests(measured)
