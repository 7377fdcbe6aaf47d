"""Datasets are the same in every process, and what differs between two is named."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tfhet.errors import DataError, UsageError
from tfhet.planes.feed.dataset import Agreement, DatasetFacts, facts_of, make_dataset
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.production import Production
from tfhet.planes.feed.source import FeedSource, Shard


class Images:
    def __init__(self, length: int, **attributes):
        self._length = length
        vars(self).update(attributes)

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return index


def drawn(shard):
    """A split and values that were drawn without a seed of their own."""
    order = list(range(20))
    random.shuffle(order)
    return Images(15, indices=order[:15], noise=np.random.rand(15))


def test_datasets_are_drawn_alike_in_every_process():
    made = [make_dataset(FeedSource.of(drawn, {}, batch_size=1), seed) for seed in (1, 1, 2)]
    random.seed(7)
    assert made[0].indices == made[1].indices != made[2].indices
    np.testing.assert_array_equal(made[0].noise, made[1].noise)


@dataclass
class Row:
    file: str


FILES = ["b.jpg", "a.jpg", "c.jpg"]


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ({"files": FILES}, {"files": sorted(FILES)}, "files"),
        ({"samples": [(f, 1) for f in FILES]}, {"samples": [(f, 2) for f in FILES]}, "samples"),
        ({"imgs": [Path(f) for f in FILES]}, {"imgs": [Path(f) for f in sorted(FILES)]}, "imgs"),
        ({"paths": [*FILES, "d.jpg"]}, {"paths": [*FILES, "e.jpg"]}, "paths"),  # windows of some files
        ({"by_id": dict(enumerate(FILES))}, {"by_id": dict(enumerate(sorted(FILES)))}, "by_id"),
        ({"rows": np.array(FILES)}, {"rows": np.array(sorted(FILES))}, "rows"),
        ({"ids": np.array([2, 1, 3])}, {"ids": np.array([1, 2, 3])}, "ids"),
        ({"dataset": Images(2, files=FILES)}, {"dataset": Images(2, files=sorted(FILES))}, "dataset.files"),
        ({"sets": [Images(2, files=FILES)]}, {"sets": [Images(2, files=sorted(FILES))]}, r"sets\[0\].files"),
        ({"records": [{"f": f} for f in FILES]}, {"records": [{"f": f} for f in sorted(FILES)]}, "records"),
        ({"rows": [Row(f) for f in FILES]}, {"rows": [Row(f) for f in sorted(FILES)]}, "rows"),
        ({"texts": [b"a", b"bc", b"d"]}, {"texts": [b"a", b"d", b"bc"]}, "texts"),
        ({"ragged": [[1], [2, 3], []]}, {"ragged": [[1], [2], [3]]}, "ragged"),
        ({"length": 1, "files": ["/a/b.jpg"]}, {"length": 1, "files": ["/a/c.jpg"]}, "files"),
        ({"length": 3}, {"length": 4}, "3 and 4 examples"),
    ],
)
def test_what_differs_is_named(one, other, named):
    found = [facts_of(Images(**{"length": 3, **each})) for each in (one, other)]
    agreement = Agreement(FeedSource.of(drawn, {}, batch_size=1))
    agreement.add("algo-1", found[0])
    agreement.add("algo-1", facts_of(Images(**{"length": 3, **one})))
    with pytest.raises(DataError, match=f"algo-1 and algo-2: .*{named};"):
        agreement.add("algo-2", found[1])


@pytest.mark.parametrize(
    "attributes",
    [
        [{"files": ["/a/x.jpg", "/a/y.jpg"]}, {"files": ["/b/c/x.jpg", "/b/c/y.jpg"]}],
        [{"pairs": [("/a/x/1", "/a/y/1")] * 3}, {"pairs": [("/b/x/1", "/b/y/1")] * 3}],
        [{"values": np.ones(3)}, {"values": np.nextafter(np.ones(3), 2)}],
        [{"cache": [None] * 3}, {"cache": [object()] * 3}],
        [{"locks": [object()]}, {"locks": [object()]}],
        [{"no_len": type("NoLength", (), {"__getitem__": lambda self, at: at})()}, {}],
    ],
    ids=["folders", "folders of pairs", "rounding", "cache", "objects", "no length"],
)
def test_same_datasets_may_differ_in(attributes):
    one, other = (facts_of(Images(3, **each)) for each in attributes)
    assert one.difference(other) is None


@pytest.mark.parametrize("dataset", [[], ["b", "a"], np.arange(3), Images(0)], ids=["empty", "list", "array", "none"])
def test_plain_lists_are_datasets(dataset):
    facts = facts_of(dataset)
    assert facts.examples == len(dataset) and facts.difference(DatasetFacts(99)) is not None


class Growing(Images):
    def __len__(self):
        self._length += 8
        return self._length


def growing(shard):
    return Growing(8)


def test_growing_dataset_is_refused():
    with pytest.raises(UsageError, match="length .* has changed"):
        Production(FeedSource.of(growing, {}, batch_size=4), 0).batch(BatchRequest(Shard(0, 1), 0, 0))
