"""What `tfhet convert --store yuv420` would change: CPU time and bytes of a sample of a pipeline's images."""

from __future__ import annotations

import numpy as np

from tfhet import kernels
from tfhet.clock import SYSTEM
from tfhet.errors import DataError
from tfhet.pipeline import IMAGE, BatchMaker, Pipeline, runs_natively
from tfhet.profile.native import Chain
from tfhet.profile.result import Stored
from tfhet.profile.spans import spans_of
from tfhet.record import median
from tfhet.stages import Decode

SAMPLE = 64
"""Number of images of the sample."""
ROUNDS = 5
KIND = "yuv420"


def measure_stored(pipeline: Pipeline) -> Stored | None:
    """Returns the costs of a sample of images, as their files and stored as YUV 4:2:0, in the part of the pipeline that
    decodes them; None if no part decodes, only tf.data runs it, or the images are stored already."""
    placed = pipeline.placed()
    if not placed or not isinstance(decode := placed[0].stage, Decode) or not runs_natively(pipeline):
        return None
    maker, files, stored = BatchMaker(pipeline), list[bytes](), list[bytes]()
    places = maker.order(0)[:SAMPLE] if pipeline.shuffle else np.linspace(0, len(maker) - 1, SAMPLE).astype(int)
    for file in maker.source.load(maker.ids(np.unique(places)))[IMAGE]:
        try:
            stored.append(kernels.store_image(file, KIND, accurate=decode.accurate))
            files.append(file)
        except DataError:  # a bad example
            continue
    if not files or any(map(kernels.is_stored, files)):
        return None
    chain = Chain(pipeline, 0, spans_of(pipeline)[0].end, len(files))
    ids, epoch, rounds = np.arange(len(files)), np.array(0), list[tuple[float, float]]()
    for _ in range(1 + ROUNDS):  # the first one warms up
        times = []
        for images in (files, stored):
            began_s = SYSTEM.cpu()
            chain(kernels.Contents.of(images), None, ids, epoch)
            times.append(1e6 * (SYSTEM.cpu() - began_s) / len(files))
        rounds.append((times[0], times[1]))
    file_us, stored_us = (median(each) for each in zip(*rounds[1:], strict=True))
    sizes = [round(sum(map(len, images)) / len(files)) for images in (files, stored)]
    return Stored(len(files), file_us, stored_us, *sizes)
