"""NVIDIA DALI on the CPU: the crop alone is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.peers.job import ANTIALIAS, LINEAR, MEAN, STD, Job
from benchmarks.peers.peer import Peer


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.auto_aug import rand_augment

    spread: dict[str, Any] = {"dtype": types.UINT8, "mean": [0.0], "std": [1.0]}
    if job.dtype == "float32":
        spread = {"dtype": types.FLOAT, "mean": [255.0 * m for m in MEAN], "std": [255.0 * s for s in STD]}
    around = [1.0 - job.jitter, 1.0 + job.jitter + 1e-6]  # the end is above the begin, also for none

    # Nothing runs ahead: what is prepared in one measured run is used in it.
    @pipeline_def(
        batch_size=job.batch_size,
        num_threads=job.threads,
        device_id=None,
        seed=job.seed,
        exec_async=False,
        exec_pipelined=False,
        prefetch_queue_depth=1,
        enable_conditionals=True,
    )
    def pipeline() -> Any:
        contents, _ = fn.readers.file(files=list(job.files), pad_last_batch=True, name="files")
        antialias = job.way == ANTIALIAS
        if job.chain == "imagenet-eval":
            images = fn.decoders.image(contents, device="cpu", output_type=types.RGB)
            images = fn.resize(images, resize_shorter=job.shorter, interp_type=types.INTERP_LINEAR, antialias=antialias)
            mirror = 0
        else:
            images = fn.decoders.image_random_crop(
                contents,
                device="cpu",
                output_type=types.RGB,
                random_area=list(job.scale),
                random_aspect_ratio=list(job.ratio),
                num_attempts=10,
            )
            images = fn.resize(images, size=[job.size, job.size], interp_type=types.INTERP_LINEAR, antialias=antialias)
            mirror = fn.random.coin_flip(probability=job.flip)
        if job.chain == "randaugment-224":
            images = fn.flip(images, horizontal=mirror)
            images = rand_augment.rand_augment(images, n=2, m=9, shape=[job.size, job.size])
            mirror = 0
        if job.chain == "imagenet-jitter":
            factors = [fn.random.uniform(range=around) for _ in range(3)]
            brightness, contrast, saturation = factors
            images = fn.color_twist(images, brightness=brightness, contrast=contrast, saturation=saturation)
        crop = {"crop": (job.size, job.size), "mirror": mirror, "output_layout": "HWC", "rounding": "truncate"}
        return fn.crop_mirror_normalize(images, **crop, **spread)

    made = pipeline()
    made.build()
    batches = -(-len(job.files) // job.batch_size)

    def go() -> Iterator[np.ndarray]:
        left = len(job.files)
        for _ in range(batches):
            (images,) = made.run()
            batch = images.as_array()
            yield batch[:left]
            left -= len(batch)

    return go


PEER = Peer(
    name="dali",
    words="DALI on the CPU",
    imports=("nvidia.dali",),
    requires=("nvidia-dali-cuda120==2.4.0",),
    does={
        "imagenet-train": (LINEAR, ANTIALIAS),
        "imagenet-jitter": (LINEAR, ANTIALIAS),
        "imagenet-eval": (LINEAR, ANTIALIAS),
        "randaugment-224": (LINEAR,),
    },
    build=_build,
    differs="its batches are views of memory that it uses again; jitter changes contrast about the middle level",
)
