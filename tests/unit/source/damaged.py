"""Copies of TFRecord directories with one thing wrong in one file: `damaged.copy(directory, target, KIND)`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from tfhet.source.framing import HEADER_BYTES, Frame, walk


class Damaged(NamedTuple):
    """A directory, and where it is broken."""

    directory: Path
    file: str
    offset: int
    """Byte at which the broken record begins."""


def copy(directory: str | os.PathLike[str], target: Path, kind: str, split: int = 1, record: int = 3) -> Damaged:
    """A copy in which this record of this file (in the order of names) is damaged as `kind` says: see KINDS."""
    shutil.copytree(directory, target)
    file = sorted(target.glob("*.tfrecord*"))[split]
    offset = damage(file, kind, record)
    return Damaged(target, str(file), offset)


def damage(file: Path, kind: str, record: int = 3) -> int:
    """Damages a file where it lies; the byte at which the broken record begins."""
    frame = list(walk(str(file)))[record]
    KINDS[kind](file, frame)
    return 0 if kind == "emptied" else frame.offset


def flip(file: str | Path, at: int) -> None:
    with open(file, "r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 0x10]))


def _replaced(file: Path, frame: Frame, change: Callable[[bytes], bytes]) -> None:
    """With checksums that are right."""
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(file))]
    frames = list(walk(str(file)))
    with tf.io.TFRecordWriter(str(file)) as writer:
        for each, content in zip(frames, records, strict=True):
            writer.write(change(content) if each == frame else content)


def _without_label(record: bytes) -> bytes:
    example = tf.train.Example.FromString(record)
    del example.features.feature["label"]
    return example.SerializeToString()


def _half_image(record: bytes) -> bytes:
    example = tf.train.Example.FromString(record)
    image = example.features.feature["image"].bytes_list
    image.value[0] = image.value[0][: len(image.value[0]) // 2]
    return example.SerializeToString()


KINDS: dict[str, Callable[[Path, Frame], object]] = {
    "cut": lambda file, frame: os.truncate(file, frame.offset + HEADER_BYTES + frame.length // 2),
    "cut in the header": lambda file, frame: os.truncate(file, frame.offset + 5),
    "cut between records": lambda file, frame: os.truncate(file, frame.offset),
    "emptied": lambda file, frame: os.truncate(file, 0),
    "data": lambda file, frame: flip(file, frame.offset + HEADER_BYTES + frame.length // 2),
    "length": lambda file, frame: flip(file, frame.offset + 1),
    "no example": lambda file, frame: _replaced(file, frame, lambda record: b"\xff\xff what is this"),
    "no label": lambda file, frame: _replaced(file, frame, _without_label),
    "half image": lambda file, frame: _replaced(file, frame, _half_image),
}
"""Kinds of damage. Behind "cut ..." and "length" nothing of the file can be reached; the others are one record."""

UNREACHABLE = ("cut", "cut in the header", "cut between records", "emptied", "length")
