"""Data sets that the readers of more than one plane are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfhet.source import Raw, Scalar, TFRecordSource, write_tfrecords


@pytest.fixture
def corrupted(tmp_path: Path) -> tuple[TFRecordSource, str, int]:
    """Four files of eight records; a bit of the sixth record of the third is wrong: source, file, byte."""
    features = {"image": Raw((4, 4, 1)), "label": Scalar()}
    image = np.zeros((4, 4, 1), np.uint8)
    write_tfrecords(tmp_path / "set", ({"image": image, "label": i} for i in range(32)), 4, features)
    source = TFRecordSource.from_directory(tmp_path / "set")
    file = Path(source.files[2])
    data = bytearray(file.read_bytes())
    length = len(data) // 8
    data[5 * length + 20] ^= 1
    file.write_bytes(data)
    return source, str(file), 5 * length
