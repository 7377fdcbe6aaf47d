"""The loaders: each one turns a folder of photos, folder/CLASS/*.jpg, into batches of random resized crops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.loader import builds
from benchmarks.peers.peer import ANTIALIAS, LINEAR, Job

TORCH, NUMPY = "torch", "numpy"
"""Kinds of batches."""
PYTORCH = ("torch==2.14.1", "torchvision==0.29.1")
"""Without a pin of NumPy: tfhet runs on them with the packages of its own environment."""
WORKERS = (0, 1, 2, 3)
"""Numbers of worker processes that are tried."""
BOTH = (LINEAR, ANTIALIAS)


@dataclass(frozen=True)
class Loader:
    """One loader. Its packages are imported only in its own process."""

    name: str
    words: str
    imports: tuple[str, ...]
    """Modules whose import is timed."""
    requires: tuple[str, ...]
    """Packages that `--peers install` installs; () for a part of tfhet's own environment."""
    build: Callable[[Job], builds.Batches]
    kind: str = NUMPY
    """Kind of its batches."""
    other_image: Mapping[str, str] = field(default_factory=dict)
    """Why its image is another one than tfhet's, by way of resizing."""
    workers: tuple[int, ...] = ()
    """Numbers of worker processes to try (`Job.threads`); () if it works on threads."""
    prepare: Callable[[Job], object] | None = None
    """Converts the photos to the loader's own format, untimed."""
    dtype: str = "uint8"
    is_tfhet: bool = False


TORCHVISION = ("torch", "torchvision.transforms.v2")
OPENCV = "opencv-python-headless==5.0.0.93"
SPDL = ("spdl==0.8.0", OPENCV)
SOFT = {ANTIALIAS: "OpenCV resizes without antialias"}
REDUCED = "it decodes at a reduced scale, and returns float32 from 0 to 1"
SCALED = "libswscale resizes with antialias, and colour apart from brightness"
# fmt: off
LOADERS = {loader.name: loader for loader in (
    Loader("tfhet", "tfhet, NumPy arrays", ("tfhet",), (),
           lambda job: builds.tfhet(job, as_tensors=False), is_tfhet=True),
    Loader("tfhet-torch", "tfhet, PyTorch tensors", ("tfhet.torch",), PYTORCH,
           lambda job: builds.tfhet(job, as_tensors=True), TORCH, is_tfhet=True),
    Loader("tfhet-dataset", "tfhet.torch.stages in a DataLoader", ("tfhet.torch",), PYTORCH,
           builds.tfhet_dataset, TORCH, workers=WORKERS, is_tfhet=True),
    Loader("dataloader", "DataLoader, torchvision v2 on decode_jpeg", TORCHVISION, PYTORCH,
           lambda job: builds.dataloader(job, with_pillow=False), TORCH, workers=WORKERS),
    Loader("dataloader-pillow", "DataLoader, torchvision v2 on Pillow", TORCHVISION, PYTORCH,
           lambda job: builds.dataloader(job, with_pillow=True), TORCH,
           {LINEAR: "Pillow always resizes with antialias"}, WORKERS),
    Loader("spdl", "SPDL with OpenCV", ("spdl.pipeline", "cv2"), SPDL, lambda job: builds.spdl(job, with_ffmpeg=False),
           other_image=SOFT),
    Loader("spdl-ffmpeg", "SPDL with FFmpeg", ("spdl.pipeline", "spdl.io"), SPDL,
           lambda job: builds.spdl(job, with_ffmpeg=True), other_image=dict.fromkeys(BOTH, SCALED)),
    Loader("dali", "DALI on the CPU", ("nvidia.dali",), ("nvidia-dali-cuda120==2.4.0",), builds.dali),
    Loader("grain", "Grain with OpenCV", ("grain", "cv2"), ("grain==0.2.18", OPENCV), builds.grain, other_image=SOFT),
    Loader("turboloader", "TurboLoader", ("turboloader",), ("turboloader==2.39.0",), builds.turboloader,
           other_image=dict.fromkeys(BOTH, REDUCED), prepare=builds.write_tar, dtype="float32"),
    Loader("streaming", "MosaicML streaming, torchvision v2", ("streaming", *TORCHVISION),
           ("mosaicml-streaming==0.13.0", *PYTORCH),
           builds.streaming, TORCH, workers=WORKERS, prepare=builds.write_shards),
    Loader("tf-data", "tf.data with tf.image", ("tensorflow",), (), builds.tf_data),
)}
# fmt: on
"""Every loader by its name, in the order of a round."""
