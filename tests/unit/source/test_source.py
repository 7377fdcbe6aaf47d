"""Contract of every source, and the ids."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source import (
    Raw,
    Scalar,
    Source,
    SyntheticSource,
    TFRecordSource,
    diagnose,
    example_id,
    find,
    position_of,
    split_of,
    write_tfrecords,
)
from tfhet.source.damage import SOUND

EXAMPLES = 23
SPLITS = 5


@pytest.fixture(scope="module", params=["tfrecord", "synthetic", "synthetic uneven"])
def source(request, tmp_path_factory) -> Source:
    if request.param != "tfrecord":
        return SyntheticSource(EXAMPLES, SPLITS, (4, 6, 3), uneven="uneven" in request.param)
    examples = ({"image": np.full((4, 6, 3), index, np.uint8), "label": index % 10} for index in range(EXAMPLES))
    features = {"image": Raw((4, 6, 3)), "label": Scalar()}
    return TFRecordSource.from_directory(
        write_tfrecords(tmp_path_factory.mktemp("source") / "set", examples, SPLITS, features)
    )


def batches(source: Source, cycle: int, batch: int) -> tf.data.Dataset:
    """As the lowering reads: symbolic splits, interleaved, batched, then parsed."""

    def split(index: tf.Tensor) -> tf.data.Dataset:
        return source.read(index).map(lambda position, record: (example_id(index, position), record))

    splits = tf.data.Dataset.range(source.split_count())
    return (
        splits.interleave(split, cycle_length=cycle)
        .batch(batch)
        .map(lambda ids, records: {"id": ids, **source.parse(records)})
    )


def by_id(dataset: tf.data.Dataset) -> dict[int, dict[str, np.ndarray]]:
    found: dict[int, dict[str, np.ndarray]] = {}
    for element in dataset.as_numpy_iterator():
        for row, number in enumerate(element.pop("id").tolist()):
            assert number not in found
            found[number] = {name: value[row] for name, value in element.items()}
    return found


def test_id_holds_split_and_position():
    assert example_id(3, 17) == 3 << 32 | 17
    ids = example_id(tf.constant([0, 3, 2**31 - 1], tf.int64), tf.constant([5, 0, 2**32 - 1], tf.int64))
    assert ids.dtype == tf.int64
    assert split_of(ids).numpy().tolist() == [0, 3, 2**31 - 1]
    assert position_of(ids).numpy().tolist() == [5, 0, 2**32 - 1]
    assert (split_of(3 << 32 | 17), position_of(3 << 32 | 17)) == (3, 17)


def test_every_example_is_read_once_in_order(source):
    read = batches(source, cycle=1, batch=4)
    assert {name: spec for name, spec in read.element_spec.items() if name != "id"} == {
        name: spec.tensor for name, spec in source.spec.items()
    }
    for name, spec in source.spec.items():
        assert spec.tensor.is_compatible_with(next(iter(read))[name])
    found = by_id(read)
    assert len(found) == source.example_count() == EXAMPLES
    positions: dict[int, list[int]] = {}
    for number in found:
        positions.setdefault(split_of(number), []).append(position_of(number))
    assert set(positions) <= set(range(source.split_count()))
    assert all(counted == list(range(len(counted))) for counted in positions.values())


def test_example_is_the_same_in_any_order(source):
    first, second = by_id(batches(source, cycle=1, batch=4)), by_id(batches(source, cycle=3, batch=7))
    assert first.keys() == second.keys()
    for number, example in first.items():
        for name, value in example.items():
            assert (value == second[number][name]).all()


def test_sizes_of_splits_equal_what_is_read(source):
    sizes = source.split_sizes()
    assert sizes is not None
    assert len(sizes) == source.split_count()
    assert sum(sizes) == source.example_count()
    assert sizes == tuple(len(list(source.read(tf.constant(split, tf.int64)))) for split in range(len(sizes)))


def test_records_are_read_at_their_ids(source):
    sizes = source.split_sizes()
    ids = [example_id(split, position) for split, size in enumerate(sizes) for position in range(size)]
    ids = np.random.default_rng(3).permutation([*ids, *ids[:4]])
    expected = by_id(batches(source, cycle=1, batch=4))
    found = 0
    for number, (split, position, record) in zip(ids.tolist(), source.read_at(ids), strict=True):
        assert example_id(split, position).numpy() == number
        for name, value in source.parse(record[tf.newaxis]).items():
            assert (value[0].numpy() == expected[number][name]).all()
        found += 1
    assert found == EXAMPLES + 4
    assert len(source.places(ids)) == len(ids)
    assert list(source.read_at([])) == source.places([]) == []
    alone = source.read(tf.constant(0, tf.int64)).element_spec
    assert source.read_at([0]).element_spec == (tf.TensorSpec([], tf.int64), *alone)


@pytest.mark.parametrize("number", [-1, example_id(SPLITS, 0)])
def test_id_of_an_unknown_split_is_refused(source, number):
    with pytest.raises(UsageError, match=f"example {number} .* {SPLITS}"):
        source.read_at([0, number])
    with pytest.raises(UsageError, match=f"example {number} "):
        source.places([number])


def test_sound_source_has_no_damages(source):
    source.check()
    assert source.damages() == ()
    assert find(source) is None
    assert [bad.reason for bad in diagnose(source, [0, 1])] == [SOUND] * 2
    assert source.fingerprint() == source.fingerprint()
