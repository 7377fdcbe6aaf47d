"""SPDL, whose decoding, cutting and resizing is one filter of FFmpeg, in its own pipeline of threads."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.peers.job import ANTIALIAS, Job
from benchmarks.peers.peer import Peer

FLAGS = "bilinear+full_chroma_int+full_chroma_inp+accurate_rnd"
"""Without the last three, which took no time that could be seen, colours are repeated instead of interpolated."""


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    numbered = [(file, random.Random(f"{job.seed}/{index}")) for index, file in enumerate(job.files)]

    def decode(item: tuple[str, random.Random]) -> Any:
        file, draw = item
        packets = spdl.io.demux_image(file)
        return spdl.io.decode_packets(packets, filter_desc=_filter(job, draw, packets.height, packets.width))

    def gather(frames: list[Any]) -> np.ndarray:
        return np.asarray(spdl.io.to_numpy(spdl.io.convert_frames(frames)))

    def go() -> Iterator[np.ndarray]:  # nothing is done before the first batch is asked for
        stages = PipelineBuilder().add_source(numbered).pipe(decode, concurrency=job.threads, output_order="input")
        built = stages.aggregate(job.batch_size).pipe(gather).add_sink(2).build(num_threads=job.threads)
        with built.auto_stop():
            yield from built

    return go


def _filter(job: Job, draw: random.Random, height: int, width: int) -> str:
    """FFmpeg's description of what the chain does to an image. Its bilinear scaling averages where it shrinks."""
    if job.chain == "imagenet-eval":
        rows, columns = job.middle(height, width)
        steps = [f"scale=w={columns}:h={rows}:flags={FLAGS}", f"crop=w={job.size}:h={job.size}"]
    else:
        top, left, rows, columns = job.box(draw, height, width)
        steps = [
            f"crop=w={columns}:h={rows}:x={left}:y={top}:exact=1",
            f"scale=w={job.size}:h={job.size}:flags={FLAGS}",
        ]
        if draw.random() < job.flip:
            steps.append("hflip")
    return ",".join([*steps, "format=pix_fmts=rgb24"])


PEER = Peer(
    name="spdl",
    words="SPDL (FFmpeg)",
    imports=("spdl.io", "spdl.pipeline"),
    requires=("spdl==0.8.0", "spdl-io==0.8.0", "spdl-core==0.8.0", "numpy<2"),
    does={"imagenet-train": (ANTIALIAS,), "imagenet-eval": (ANTIALIAS,)},
    build=_build,
    dtypes=("uint8",),
    differs="colours are resized as they lie in the file, at half the size",
)
