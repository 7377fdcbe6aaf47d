"""Builds the loaders, each with the settings that its documentation recommends for two cores.

A loader yields (images, labels) without end, [batch, 3, size, size] or [batch, size, size, 3]. The comment or docstring
of each function says where its number of threads or workers is from.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.opencv import box
from benchmarks.peers.peer import ANTIALIAS, Job

Batches = Iterator[tuple[Any, Any]]


def folder_of(job: Job) -> Path:
    """Returns the folder of the classes."""
    return Path(job.files[0]).parents[1]


def labels_of(job: Job) -> list[int]:
    """Returns the label of each file: the place of its class in alphabetical order."""
    names = [Path(file).parent.name for file in job.files]
    return [sorted(set(names)).index(name) for name in names]


def _endless(batches: Iterable[Any]) -> Batches:
    while True:
        yield from batches


def _chain(job: Job) -> str:
    antialias = ", antialias=True" if job.way == ANTIALIAS else ""
    return f"decode(); random_resized_crop({job.size}, {job.size}{antialias}); random_flip()"


def tfhet(job: Job, *, as_tensors: bool) -> Batches:  # threads: tfhet's default, one per core
    import tfhet

    api: Any = tfhet  # the pipelines of image folders are newer than this suite
    flow = {"batch_size": job.batch_size, "shuffle": True, "seed": job.seed}
    pipeline = api.Pipeline(api.ImageFolder(folder_of(job)), _chain(job), **flow)
    return _endless(api.torch.loader(pipeline) if as_tensors else api.batches(pipeline))


def tfhet_dataset(job: Job) -> Batches:
    import tfhet.torch

    transform = tfhet.torch.stages(_chain(job), seed=job.seed)
    labels = labels_of(job)

    class Photos:
        def __len__(self) -> int:
            return len(job.files)

        def __getitem__(self, index: int) -> Any:
            return transform(Path(job.files[index]).read_bytes(), id=index), labels[index]

    return _worker_processes(job, Photos())


def _worker_processes(job: Job, dataset: Any) -> Batches:
    """PyTorch's DataLoader. Workers: the best of WORKERS, each with one thread, kept from epoch to epoch."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    torch.set_num_threads(1)  # documented for workers; without workers transforms of one image gain nothing
    torch.manual_seed(job.seed)
    shuffle = {} if isinstance(dataset, IterableDataset) else {"shuffle": True}
    flow = {"drop_last": True, "num_workers": job.threads, "persistent_workers": job.threads > 0}
    return _endless(DataLoader(dataset, job.batch_size, **shuffle, **flow))


def dataloader(job: Job, *, with_pillow: bool) -> Batches:
    import torch
    from torchvision import io
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    from benchmarks.peers.torchvision import steps_of

    steps = steps_of(torch, v2, job)
    if with_pillow:
        return _worker_processes(job, ImageFolder(folder_of(job), v2.Compose([*steps, v2.PILToTensor()])))

    def decode(path: str) -> torch.Tensor:
        return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)

    return _worker_processes(job, ImageFolder(folder_of(job), v2.Compose(steps), loader=decode))


def _opencv() -> Any:
    import cv2

    cv2.setNumThreads(1)  # images run in parallel
    return cv2


def _drawn(cv2: Any, job: Job, file: str, draw: random.Random) -> Any:
    """One image by OpenCV."""
    image: Any = cv2.imread(file, cv2.IMREAD_COLOR_RGB)
    top, left, rows, columns = box(job, draw, *image.shape[:2])
    part = image[top : top + rows, left : left + columns]
    image = cv2.resize(part, (job.size, job.size), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(image, 1) if draw.random() < job.flip else image


def spdl(job: Job, *, with_ffmpeg: bool) -> Batches:
    """One thread per core, as its guide recommends for functions that release Python's lock."""
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    from spdl.source import utils

    cv2, photos = None if with_ffmpeg else _opencv(), list(zip(job.files, labels_of(job), strict=True))

    class Source:
        def shuffle(self, seed: int) -> None:
            random.Random(seed).shuffle(photos)

        def __iter__(self) -> Iterator[Any]:
            return iter(photos[: len(photos) // job.batch_size * job.batch_size])

    def frame(file: str, draw: random.Random) -> Any:
        packets = spdl.io.demux_image(file)
        top, left, rows, columns = box(job, draw, packets.height, packets.width)
        parts = [f"crop={columns}:{rows}:{left}:{top}", f"scale={job.size}:{job.size}:flags=bilinear"]
        parts += ["hflip"] if draw.random() < job.flip else []
        return spdl.io.decode_packets(packets, filter_desc=",".join([*parts, "format=pix_fmts=rgb24"]))

    def batch(examples: list[tuple[str, int]]) -> tuple[np.ndarray, list[int]]:
        draw, labels = random.Random(), [label for _, label in examples]
        if with_ffmpeg:
            frames = [frame(file, draw) for file, _ in examples]
            return spdl.io.to_numpy(spdl.io.convert_frames(frames)), labels
        return np.stack([_drawn(cv2, job, file, draw) for file, _ in examples]), labels

    if with_ffmpeg:
        spdl.io.demux_image(job.files[0])  # raises here, and not in a thread, if FFmpeg's libraries are missing
    builder = PipelineBuilder().add_source(utils.repeat_source(utils.embed_shuffle(Source())))
    builder = builder.aggregate(job.batch_size).pipe(batch, concurrency=job.threads).add_sink(2)
    pipeline = builder.build(num_threads=job.threads, max_failures=0)
    pipeline.start()
    return iter(pipeline)


def dali(job: Job) -> Batches:  # num_threads: one per core; a queue of two batches is the default
    from nvidia.dali import fn, pipeline_def, types

    linear = {"interp_type": types.INTERP_LINEAR, "antialias": job.way == ANTIALIAS}
    drawn = {"random_area": list(job.scale), "random_aspect_ratio": list(job.ratio), "num_attempts": 10}
    flow = {"batch_size": job.batch_size, "num_threads": job.threads, "seed": job.seed, "device_id": None}

    @pipeline_def(**flow)
    def photos() -> Any:
        contents, labels = fn.readers.file(file_root=str(folder_of(job)), random_shuffle=True)
        images = fn.decoders.image_random_crop(contents, device="cpu", output_type=types.RGB, **drawn)
        images = fn.resize(images, size=(job.size, job.size), **linear)
        return fn.flip(images, horizontal=fn.random.coin_flip(probability=job.flip)), labels

    pipeline = photos()
    pipeline.build()
    while True:
        images, labels = pipeline.run()
        yield images.as_array(), labels.as_array()


def grain(job: Job) -> Batches:  # 16 threads, its default, which it recommends for work without Python's lock
    import grain

    cv2, labels = _opencv(), labels_of(job)

    def photo(index: int, generator: np.random.Generator) -> tuple[np.ndarray, int]:
        return _drawn(cv2, job, job.files[index], random.Random(int(generator.integers(2**63)))), labels[index]

    indices = grain.MapDataset.source(range(len(job.files))).seed(job.seed).shuffle().repeat()
    buffered = grain.ReadOptions(num_threads=16, prefetch_buffer_size=2 * job.batch_size)
    return iter(indices.random_map(photo).to_iter_dataset(buffered).batch(job.batch_size, drop_remainder=True))


def _tar(job: Job) -> Path:
    return folder_of(job).with_suffix(".tar")


def write_tar(job: Job) -> None:
    import tarfile

    with tarfile.open(_tar(job), "w") as archive:
        for file in job.files:
            archive.add(file, Path(file).relative_to(folder_of(job)))


def turboloader(job: Job) -> Batches:  # it has one pool of threads, one per core, and no setting for it
    import turboloader

    flow = {"batch_size": job.batch_size, "shuffle": True, "seed": job.seed, "drop_last": True}
    drawn = {"train_aug": True, "hflip_prob": job.flip, "antialias": job.way == ANTIALIAS}
    loader = turboloader.DataLoader(str(_tar(job)), output_format="numpy", image_size=job.size, **drawn, **flow)
    labels = np.array(labels_of(job))
    for epoch in itertools.count():
        loader.set_epoch(epoch)
        for images, meta in loader:
            yield images, labels[np.asarray(meta["indices"])]


def _shards(job: Job) -> Path:
    return folder_of(job).with_suffix(".mds")


def write_shards(job: Job) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(_shards(job)), columns={"image": "bytes", "label": "int"}) as writer:
        for file, label in zip(job.files, labels_of(job), strict=True):
            writer.write({"image": Path(file).read_bytes(), "label": label})


def streaming(job: Job) -> Batches:
    import torch
    from streaming import StreamingDataset
    from torchvision import io
    from torchvision.transforms import v2

    from benchmarks.peers.torchvision import steps_of

    transform = v2.Compose(steps_of(torch, v2, job))

    class Photos(StreamingDataset):
        def __getitem__(self, index: int) -> Any:
            example = super().__getitem__(index)
            content = torch.frombuffer(bytearray(example["image"]), dtype=torch.uint8)
            return transform(io.decode_jpeg(content, mode=io.ImageReadMode.RGB)), example["label"]

    return _worker_processes(job, Photos(local=str(_shards(job)), shuffle=True, batch_size=job.batch_size))


def tf_data(job: Job) -> Batches:  # AUTOTUNE, as TensorFlow's guide to performance recommends
    import tensorflow as tf

    from benchmarks.peers.tf_image import image_of

    photos = tf.data.Dataset.from_tensor_slices((list(job.files), labels_of(job)))
    photos = photos.shuffle(len(job.files), job.seed).repeat()
    images = photos.map(lambda file, label: (image_of(job, file), label), num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(job.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()
