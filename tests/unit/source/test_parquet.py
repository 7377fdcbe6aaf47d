"""Parquet files as a source: columns, the cache of row groups, and files that cannot be used."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tfhet import extras
from tfhet.errors import DataError, UsageError
from tfhet.source import ParquetSource, example_id, parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

IMAGES = [b"image %d" % number * 50 for number in range(30)]


def write(path: Path, images: list = IMAGES, labels: list | None = None, rows: int = 4, **columns: list) -> Path:
    table = pa.table({"image": images, "label": range(len(images)) if labels is None else labels, **columns})
    pq.write_table(table, path, row_group_size=rows)
    return path


@pytest.mark.parametrize("kind", ["binary", "large binary", "Hugging Face"])
def test_rows_are_image_and_label(tmp_path, kind):
    images = pa.array(IMAGES, pa.large_binary()) if kind == "large binary" else IMAGES
    if kind == "Hugging Face":
        images = [{"bytes": image, "path": "x.jpg"} for image in IMAGES]
    write(tmp_path / "b.parquet", images, other=IMAGES)
    write(tmp_path / "a.parquet", images[:7], [3] * 7, other=IMAGES[:7])
    source = ParquetSource(tmp_path)
    assert source.split_sizes() == (7, 30)
    ids = np.array([example_id(1, 29), example_id(0, 6), example_id(1, 0), example_id(1, 0)])
    found = source.load(ids)
    assert list(found["image"]) == [IMAGES[29], IMAGES[6], IMAGES[0], IMAGES[0]]
    assert found["label"].tolist() == [29, 3, 0, 0]
    files, offsets = zip(*source.places(ids), strict=True)
    assert [Path(file).name for file in files] == ["b.parquet", "a.parquet", "b.parquet", "b.parquet"]
    assert 0 < offsets[2] < offsets[0]


def test_cache_is_bounded_and_keeps_the_latest(tmp_path, monkeypatch):
    source, read = ParquetSource(write(tmp_path / "a.parquet"), cache_bytes=1800 * 3), []
    original = ParquetSource._read
    monkeypatch.setattr(ParquetSource, "_read", lambda self, *at: read.append(at) or original(self, *at))
    for number in (0, 1, 5, 8, 1, 12, 4, 0):
        source.load(np.array([number]))
    assert [group for _, group in read] == [0, 1, 2, 3, 1]
    small = ParquetSource(source.files, cache_bytes=0)
    for number in (0, 4, 1, 5):  # the latest two stay whatever their size
        small.load(np.array([number]))
    assert [group for _, group in read[5:]] == [0, 1]


def test_threads_read_a_row_group_once(tmp_path, monkeypatch):
    source, read = ParquetSource(write(tmp_path / "a.parquet")), []
    original = ParquetSource._read
    monkeypatch.setattr(ParquetSource, "_read", lambda self, *at: read.append(at) or original(self, *at))
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda seed: source.load(np.random.default_rng(seed).permutation(30))["label"], range(16))
        )
    assert len(read) == 8
    assert all(np.array_equal(labels, np.random.default_rng(seed).permutation(30)) for seed, labels in enumerate(found))


@pytest.mark.parametrize(("order", "warns"), [(np.random.default_rng(0).permutation(30), 1), (np.arange(30), 0)])
def test_shuffle_of_large_row_groups_is_warned_of_once(tmp_path, caplog, monkeypatch, order, warns):
    monkeypatch.setattr(parquet, "LARGE_BYTES", 1000)
    source = ParquetSource(write(tmp_path / "a.parquet", rows=6), cache_bytes=0)
    for at in range(0, 30, 5):
        source.load(order[at : at + 5])
    assert len(caplog.records) == warns


def test_source_can_be_pickled(tmp_path):
    source = ParquetSource(write(tmp_path / "a.parquet"), cache_bytes=10)
    source.load(np.arange(3))
    copy = pickle.loads(pickle.dumps(source))
    assert copy.as_json() == source.as_json() and copy.load(np.arange(3))["image"] == IMAGES[:3]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"images": "image"}, "a.parquet has no column 'picture', only image, label"),
        ({"labels": ["cat"] * 30}, "column label has string"),
        ({"images": ["x.jpg"] * 30}, "column image has string"),
        ({"images": [{"path": "x"}] * 30}, "column image has struct"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, columns, named):
    options = {"image": "picture"} if columns.get("images") == "image" else {}
    file = write(tmp_path / "a.parquet", **({} if options else columns))
    with pytest.raises(UsageError, match=named):
        ParquetSource(file, **options).sizes()


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"images": [{"bytes": b"x"}, {"bytes": None}]}, "a.parquet: column image has no bytes in row 1"),
        ({"images": [None, None]}, "column image has"),
        ({"images": [b"x", b"y"], "labels": [1, None]}, "a.parquet: column label"),
    ],
)
def test_rows_without_values_are_refused(tmp_path, columns, named):
    with pytest.raises((DataError, UsageError), match=named):
        ParquetSource(write(tmp_path / "a.parquet", **columns)).load(np.array([1]))


def test_damaged_files_are_named(tmp_path):
    file = write(tmp_path / "a.parquet")
    content = file.read_bytes()
    for damaged in (content[:-50], b"no Parquet", b""):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.parquet"):
            ParquetSource(file).sizes()
    file.write_bytes(b"PAR1" + b"\xff" * 200 + content[204:])
    with pytest.raises(DataError, match=r"a\.parquet: row group 0"):
        ParquetSource(file).load(np.array([0]))
    source = ParquetSource(file)
    source.sizes()
    file.unlink()
    with pytest.raises(DataError, match=r"a\.parquet"):
        source.load(np.array([20]))


def test_missing_pyarrow_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "has", lambda module: False)
    with pytest.raises(extras.MissingPackage, match=r"tfhet\[parquet\]"):
        ParquetSource(write(tmp_path / "a.parquet"))
