from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet.pipeline import Cut, Pipeline, Rest, local_part, one_epoch, remote_part
from tfhet.source import IdSet, Raw, Scalar, SyntheticSource, TFRecordSource, example_id, write_tfrecords

CHAIN = "random_brightness(); rescale(); random_flip()"
SIZES = (4, 0, 3, 1, 6, 2)


class Uneven(SyntheticSource):
    """Splits of the sizes above, one of them empty."""

    def split_sizes(self) -> tuple[int, ...]:
        return SIZES


def pipeline(stages: str = CHAIN, **settings: Any) -> Pipeline:
    source = Uneven(sum(SIZES), len(SIZES), shape=(6, 4, 3))
    return Pipeline(source, stages, **{"batch_size": 4, **settings})


def whole(split: int) -> list[int]:
    return [example_id(split, position) for position in range(SIZES[split])]


ALL = [number for split in range(len(SIZES)) for number in whole(split)]


def ids(batches: Iterable[Mapping[str, tf.Tensor]]) -> list[int]:
    return [int(number) for batch in batches for number in batch["id"]]


def by_id(batches: Iterable[Mapping[str, tf.Tensor]]) -> dict[int, dict[str, np.ndarray]]:
    found = {}
    for batch in batches:
        columns = {name: value.numpy() for name, value in batch.items()}
        for place, number in enumerate(columns["id"].tolist()):
            assert number not in found
            found[number] = {name: column[place] for name, column in columns.items()}
    return found


def after(seen: Iterable[int], sizes: Any = SIZES) -> Rest | None:
    """The rest of the examples after these ids; None if nothing is left."""
    ids = IdSet.of(sorted(seen))
    splits = np.ones(len(SIZES), bool) if sizes is None else ids.per_split(len(SIZES)) < np.array(sizes)
    return Rest(splits, IdSet.of([one for one in seen if splits[one >> 32]])) if splits.any() else None


# What is read of it

WAYS: list[dict[str, Any]] = [
    {},
    {"shuffle": 7},
    {"interleave": 3},
    {"shuffle": 30, "interleave": 2},
    {"shuffle_splits": False},
]


@pytest.mark.parametrize(("how", "partly"), zip(WAYS, (True, False, True, True, False), strict=True), ids=str)
def test_rest_equals_that_part_of_the_epoch(how: dict, partly: bool):
    declared = pipeline(record_parameters=True, **how)
    seen = [*whole(4), *whole(3), *(whole(0)[1:3] if partly else [])]
    rest = after(seen)
    expected = by_id(declared.dataset(epoch=2))
    found = by_id(one_epoch(declared, 2, rest=rest))
    assert found.keys() == set(ALL) - set(seen)
    for number, example in found.items():
        assert example.keys() == expected[number].keys()
        for name, value in example.items():
            np.testing.assert_array_equal(value, expected[number][name])


def test_whole_splits_keep_the_order():
    declared = pipeline("")
    seen = [*whole(4), *whole(2)]
    every = [number for number in ids(one_epoch(declared, 5, threads=1)) if number not in seen]
    assert ids(one_epoch(declared, 5, threads=1, rest=after(seen))) == every


def test_rest_is_the_same_for_all_cuts():
    declared = pipeline()
    rest = after([*whole(4)[:2], *whole(5)])
    expected = by_id(one_epoch(declared, 1, rest=rest))
    for at in range(4):
        remote = remote_part(declared, 1, Cut(at), rest=rest)
        found = by_id(local_part(declared, remote, Cut(at)))
        assert found.keys() == expected.keys()
        assert all((found[number]["image"] == expected[number]["image"]).all() for number in found)


@pytest.mark.parametrize("cached", [False, True])
def test_rest_of_files_of_unknown_size(tmp_path, cached: bool):
    features = {"image": Raw((4, 4, 1)), "label": Scalar()}
    write_tfrecords(
        tmp_path / "set", ({"image": np.full((4, 4, 1), i, np.uint8), "label": i} for i in range(30)), 5, features
    )
    files = sorted(str(path) for path in (tmp_path / "set").glob("*.tfrecord*"))
    source = TFRecordSource(files, features)
    assert source.split_sizes() is None
    how = {"cache": str(tmp_path / "cache")} if cached else {}
    declared = Pipeline(source, "rescale()", batch_size=4, **how)
    every = by_id(declared.dataset())
    seen = np.array(sorted(every)[4:17])
    found = by_id(one_epoch(declared, 0, rest=Rest(np.ones(5, bool), IdSet.of(seen))))
    assert found.keys() == every.keys() - set(seen.tolist())
    assert all((found[number]["image"] == every[number]["image"]).all() for number in found)


@pytest.mark.parametrize("how", [{}, {"shuffle": 5, "interleave": 2}], ids=str)
def test_rest_of_a_file_starts_at_unseen_examples(tmp_path, how: dict):
    features = {"image": Raw((4, 4, 1)), "label": Scalar()}
    write_tfrecords(tmp_path, ({"image": np.full((4, 4, 1), i, np.uint8), "label": i} for i in range(40)), 2, features)
    source = TFRecordSource.from_directory(tmp_path)
    source.check()
    declared = Pipeline(source, "rescale()", batch_size=4, **how)
    expected = by_id(declared.dataset(epoch=3))
    seen = [example_id(0, position) for position in [*range(15), 17]]
    rest = Rest(np.ones(2, bool), IdSet.of(seen))
    with open(source.files[0], "r+b") as file:
        file.seek(16)
        file.write(bytes(8))  # in the first record: reading the file from its beginning fails
    found = by_id(one_epoch(declared, 3, rest=rest))
    assert found.keys() == expected.keys() - set(seen)
    assert all((found[number]["image"] == expected[number]["image"]).all() for number in found)


@given(st.sets(st.sampled_from(ALL)), st.integers(1, 3), st.booleans(), st.booleans())
@settings(max_examples=5)
def test_seen_and_rest_are_the_epoch(seen: set[int], count: int, known: bool, shuffled: bool):
    declared = pipeline("", shuffle=5 if shuffled else 0)
    rest = after(seen, SIZES if known else None)
    found: list[int] = []
    if rest is not None:
        found = [i for index in range(count) for i in ids(one_epoch(declared, 0, (index, count), threads=1, rest=rest))]
    assert sorted([*seen, *found]) == ALL
