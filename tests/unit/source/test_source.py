"""What every source keeps, and the ids."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.source import (
    Raw,
    Scalar,
    Source,
    SyntheticSource,
    TFRecordSource,
    example_id,
    position_of,
    split_of,
    write_tfrecords,
)

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


def test_an_id_holds_split_and_position_for_ints_and_tensors():
    assert example_id(3, 17) == 3 << 32 | 17
    ids = example_id(tf.constant([0, 3, 2**31 - 1], tf.int64), tf.constant([5, 0, 2**32 - 1], tf.int64))
    assert ids.dtype == tf.int64
    assert split_of(ids).numpy().tolist() == [0, 3, 2**31 - 1]
    assert position_of(ids).numpy().tolist() == [5, 0, 2**32 - 1]
    assert (split_of(3 << 32 | 17), position_of(3 << 32 | 17)) == (3, 17)


def test_every_example_is_read_once_with_positions_that_count_up_in_each_split(source):
    found = by_id(batches(source, cycle=1, batch=4))
    assert len(found) == source.example_count() == EXAMPLES
    positions: dict[int, list[int]] = {}
    for number in found:
        positions.setdefault(split_of(number), []).append(position_of(number))
    assert set(positions) <= set(range(source.split_count()))
    assert all(counted == list(range(len(counted))) for counted in positions.values())


def test_an_example_is_the_same_in_whatever_order_and_batch_it_is_read(source):
    first, second = by_id(batches(source, cycle=1, batch=4)), by_id(batches(source, cycle=3, batch=7))
    assert first.keys() == second.keys()
    for number, example in first.items():
        for name, value in example.items():
            assert (value == second[number][name]).all()


def test_the_spec_is_what_parsing_gives_and_is_known_without_data(source):
    spec = batches(source, cycle=1, batch=4).element_spec
    spec.pop("id")
    assert spec == source.spec
    for element in batches(source, cycle=1, batch=4).take(1):
        for name, tensor in source.spec.items():
            assert tensor.is_compatible_with(element[name])


def test_a_fingerprint_is_stable_and_a_sound_source_passes_its_check(source):
    source.check()
    assert source.fingerprint() == source.fingerprint()
    assert set(source.fingerprint()) <= set("0123456789abcdef")
