"""Mixed sources and balanced classes: shares, coverage, ids, and what is refused."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from test_tar import write_tar

import tfhet
from tfhet.errors import DataError, UsageError
from tfhet.pipeline import BatchMaker, as_json, from_json
from tfhet.source import (
    ArraySource,
    Balanced,
    FileList,
    IndexedSource,
    MapStyle,
    Mixed,
    ParquetSource,
    SyntheticSource,
    TarSource,
)
from tfhet.source.schedule import BLOCK, Schedule


def numbered(count: int, first: int, labels: list[int] | None = None) -> ArraySource:
    """Images whose pixels are their numbers."""
    images = np.broadcast_to(np.arange(first, first + count, dtype=np.uint8)[:, None, None, None], (count, 4, 4, 3))
    return ArraySource(images, list(range(first, first + count)) if labels is None else labels)


def all_of(source: IndexedSource) -> dict:
    return source.load(np.arange(source.sizes().sum()))


@pytest.mark.parametrize("weights", [(1,), (1, 1, 1), (3, 1), (0.2, 0.3, 0.5), (1, 1000), (1,) * 30, (1e-9, 1)])
def test_every_part_of_an_epoch_has_the_shares(weights):
    sizes = np.random.default_rng(0).integers(1, 500, len(weights))
    schedule, shares = Schedule(weights, sizes), np.array(weights) / sum(weights)
    groups, examples = schedule(np.arange(min(schedule.length, 10**5)))
    assert np.all(examples < sizes[groups])
    for part in (100, 1000, len(groups)):
        found = np.bincount(groups[:part], minlength=len(sizes))
        assert np.all(np.abs(found - shares * len(groups[:part])) <= len(weights) + len(groups[:part]) / BLOCK)


@pytest.mark.parametrize(("weights", "sizes"), [((1, 1), (5, 9)), ((3, 1), (10, 10)), ((1, 5, 2), (7, 3, 40))])
def test_epoch_ends_when_every_example_was_read(weights, sizes):
    schedule = Schedule(weights, np.array(sizes))
    groups, examples = schedule(np.arange(schedule.length))
    for group, size in enumerate(sizes):
        found = Counter(examples[groups == group].tolist())
        assert len(found) == size and max(found.values()) - min(found.values()) <= 1
    last = list(zip(groups.tolist(), examples.tolist(), strict=True))
    assert last.count(last[-1]) == 1


def test_mixed_examples_are_those_of_the_sources():
    source = Mixed([(numbered(4, 0), 1), (numbered(30, 100), 3)])
    found, places = all_of(source), source.sizes()
    assert len(found["label"]) == places[0] == source.example_count()
    np.testing.assert_array_equal(found["image"][:, 0, 0, 0], found["label"])
    assert set(found["label"].tolist()) == {*range(4), *range(100, 130)}
    order = np.random.default_rng(0).permutation(places[0])
    np.testing.assert_array_equal(source.load(order)["label"], found["label"][order])


def test_repeated_examples_are_drawn_differently():
    source = Mixed([(numbered(1, 0), 1), (numbered(8, 1), 1)])
    images, labels = (
        BatchMaker(tfhet.Pipeline(source, "random_brightness(0.4)", batch_size=4)).make(np.arange(16), 0).value
    )
    assert len(np.unique(images[labels == 0][:, 0, 0, 0])) > 1


def files(folder: Path) -> list[tuple[Path, int]]:
    pairs = []
    for index, label in enumerate([0, 0, 0, 0, 0, 1, 2, 2]):
        with io.BytesIO() as file:
            Image.new("RGB", (8, 8), (index, 0, 0)).save(file, "png")
            pairs.append((folder / f"{index}.png", label))
            pairs[-1][0].write_bytes(file.getvalue())
    return pairs


def test_other_hosts_make_the_same_mixture(tmp_path):
    pairs = files(tmp_path)
    tar = write_tar(
        tmp_path / "a.tar",
        [each for at in "01" for each in ((f"{at}.png", pairs[0][0].read_bytes()), (f"{at}.cls", b"9"))],
    )
    source = Mixed([(Balanced(FileList(pairs)), 2), (TarSource(tar), 1)])
    pipeline = tfhet.Pipeline(source, "decode(); resize(8, 8)", batch_size=4, shuffle=True)
    made = from_json(json.loads(json.dumps(as_json(pipeline))))
    assert made.fingerprint() == pipeline.fingerprint()
    assert list(all_of(made.source)["image"]) == list(all_of(source)["image"])
    assert source.fingerprint() != Mixed([(Balanced(FileList(pairs)), 1), (TarSource(tar), 1)]).fingerprint()
    for (file, at), image in zip(source.places([0, 1, 2, 3]), source.load(np.arange(4))["image"], strict=True):
        assert Path(file).read_bytes()[at:].startswith(image)
    with pytest.raises(UsageError, match="ArraySource"):
        as_json(tfhet.Pipeline(Mixed([(numbered(2, 0), 1)])))


def test_balanced_classes_have_equally_many_examples(tmp_path):
    source = Balanced(FileList(files(tmp_path)))
    found = all_of(source)
    assert Counter(found["label"].tolist()) == {0: 5, 1: 4, 2: 4}
    assert len(set(found["image"])) == 8
    batches = list(tfhet.batches(tfhet.Pipeline(source, "decode(); resize(8, 8)", batch_size=3, shuffle=True)))
    assert sum(len(labels) for _, labels in batches) == len(found["label"])


def test_classes_of_tars_and_parquet_are_balanced(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"image": [b"0", b"1", b"2"], "label": [5, 6, 5]}), tmp_path / "a.parquet")
    members = [(f"{at}.{kind}", str(at // 2).encode()) for at in range(3) for kind in ("jpg", "cls")]
    for source in (ParquetSource(tmp_path), TarSource(write_tar(tmp_path / "a.tar", members))):
        first, second, *_ = all_of(Balanced(source))["label"].tolist()
        assert first != second
    pq.write_table(pa.table({"image": [b"0", b"1"], "label": [5, None]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: column label"):
        Balanced(ParquetSource(tmp_path))


def test_sources_that_do_not_fit_are_refused():
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="weights"):
            Mixed([(numbered(2, 0), weight)])
    with pytest.raises(UsageError, match="weights"):
        Mixed([])
    with pytest.raises(UsageError, match="one form of image"):
        Mixed([(numbered(2, 0), 1), (SyntheticSource(4, 2), 1)])
    with pytest.raises(UsageError, match="MapStyle has no `labels`"):
        Balanced(MapStyle([(b"", 1)]))
    with pytest.raises(UsageError, match="one integer label"):
        Balanced(ArraySource(np.zeros((2, 4, 4, 3), np.uint8), np.zeros((2, 5)))).sizes()


@pytest.mark.parametrize(("sizes", "weights"), [((4, 30), (1, 3)), ((100, 7), (1, 1)), ((50, 50), (1, 9))])
def test_length_of_an_epoch_is_stated(sizes, weights, caplog):
    source = Mixed([(numbered(size, 100 * at), weights[at]) for at, size in enumerate(sizes)])
    with caplog.at_level("INFO", "tfhet"):
        length = source.example_count()
    wanted = max(size / weight for size, weight in zip(sizes, weights, strict=True)) * sum(weights)
    assert length == pytest.approx(wanted, abs=len(sizes) * max(weights))
    assert str(length) in caplog.text
