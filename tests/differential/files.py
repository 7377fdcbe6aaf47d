"""Small files of the formats that input pipelines read: 64 examples each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

EXAMPLES, FILES = 64, 8


def make_files(folder: Path) -> None:
    """Fills a folder: jpeg/CLASS, masks, tfrecord, compressed, csv, lines, text/CLASS, wav/CLASS, records.bin,
    arrays.npz, saved."""
    random = np.random.default_rng(7)
    pixels = random.integers(0, 255, [EXAMPLES, 8, 8, 3], np.uint8)
    for number, image in enumerate(pixels):
        kind = ("cat", "dog")[number % 2]
        _write(folder / "jpeg" / kind / f"{number:02}.jpg", tf.io.encode_jpeg(image))
        _write(folder / "masks" / f"{number:02}.png", tf.io.encode_png(image[:, :, :1]))
        _write(folder / "text" / kind / f"{number:02}.txt", f"a {kind} with the number {number}".encode())
        samples = random.uniform(-1, 1, [16, 1]).astype(np.float32)
        _write(folder / "wav" / kind / f"{number:02}.wav", tf.audio.encode_wav(samples, 16_000))
    for file in range(FILES):
        numbers = range(file * FILES, (file + 1) * FILES)
        for kind, compression in (("tfrecord", ""), ("compressed", "GZIP")):
            path = folder / kind / f"{file}.tfrecord"
            path.parent.mkdir(parents=True, exist_ok=True)
            with tf.io.TFRecordWriter(str(path), compression) as writer:
                for number in numbers:
                    writer.write(_example(number, pixels[number]))
        lines = [f"{number},{number / 8},{'ab'[number % 2]},{number % 3}" for number in numbers]
        _write(folder / "csv" / f"{file}.csv", "\n".join(["number,x,kind,label", *lines, ""]).encode())
        _write(folder / "lines" / f"{file}.txt", "".join(f"line {number}\n" for number in numbers).encode())
    _write(folder / "records.bin", b"HEAD" + np.arange(EXAMPLES, dtype="<i4").tobytes())
    np.savez(folder / "arrays.npz", x=pixels, y=np.arange(EXAMPLES))
    tf.data.Dataset.range(EXAMPLES).save(str(folder / "saved"))


def _example(number: int, image: np.ndarray) -> bytes:
    feature = {
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "words": tf.train.Feature(int64_list=tf.train.Int64List(value=range(number % 5))),
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(image).numpy()])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _write(path: Path, data: bytes | tf.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.numpy())
