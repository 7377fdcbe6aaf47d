"""NVIDIA DALI on the CPU: it decodes only the crop. Its jitter changes contrast about the middle level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers.peer import ANTIALIAS, LINEAR, MEAN, PHOTO_CHAINS, STD, Job, Peer, Run


def _build(job: Job) -> Run:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.auto_aug import rand_augment

    spread: dict[str, Any] = {"dtype": types.UINT8, "mean": [0.0], "std": [1.0]}
    if job.dtype == "float32":
        spread = {"dtype": types.FLOAT, "mean": [255.0 * m for m in MEAN], "std": [255.0 * s for s in STD]}
    linear = {"interp_type": types.INTERP_LINEAR, "antialias": job.way == ANTIALIAS}
    decoded = {"device": "cpu", "output_type": types.RGB}
    size, around = (job.size, job.size), [1.0 - job.jitter, 1.0 + job.jitter + 1e-6]  # never empty

    def images() -> Any:
        contents, _ = fn.readers.file(files=list(job.files), pad_last_batch=True)
        mirror: Any = 0
        if job.chain == "imagenet-eval":
            images = fn.resize(fn.decoders.image(contents, **decoded), resize_shorter=job.shorter, **linear)
        else:
            drawn = {"random_area": list(job.scale), "random_aspect_ratio": list(job.ratio), "num_attempts": 10}
            images = fn.resize(fn.decoders.image_random_crop(contents, **drawn, **decoded), size=size, **linear)
            mirror = fn.random.coin_flip(probability=job.flip)
        if job.chain == "randaugment-224":
            images, mirror = rand_augment.rand_augment(fn.flip(images, horizontal=mirror), n=2, m=9, shape=size), 0
        if job.chain == "imagenet-jitter":
            names = ("brightness", "contrast", "saturation")
            images = fn.color_twist(images, **{name: fn.random.uniform(range=around) for name in names})
        layout = {"output_layout": "HWC", "rounding": "truncate"}
        return fn.crop_mirror_normalize(images, crop=size, mirror=mirror, **layout, **spread)

    # No pass prepares batches of the next one.
    synchronous = {"exec_async": False, "exec_pipelined": False, "prefetch_queue_depth": 1}
    counts = {"batch_size": job.batch_size, "num_threads": job.threads, "seed": job.seed}
    pipeline = pipeline_def(images, device_id=None, enable_conditionals=True, **counts, **synchronous)()
    pipeline.build()

    def run() -> Iterator[np.ndarray]:
        for begin in range(0, len(job.files), job.batch_size):
            yield pipeline.run()[0].as_array()[: len(job.files) - begin]

    return run


PEER = Peer(
    name="dali",
    words="DALI on the CPU",
    imports=("nvidia.dali",),
    requires=("nvidia-dali-cuda120==2.4.0",),
    does={**dict.fromkeys(PHOTO_CHAINS, (LINEAR, ANTIALIAS)), "randaugment-224": (LINEAR,)},
    build=_build,
)
