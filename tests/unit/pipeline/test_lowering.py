from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline import Cut, Pipeline, local_part, one_epoch, remote_part
from tfhet.source import SyntheticSource, example_id
from tfhet.stages import Stage, parse

CHAIN = "random_rotation(0.1); rescale(); random_flip()"


@dataclass(frozen=True)
class Liar(Stage):
    """States the spec of its input and makes something else."""

    name: ClassVar[str] = "liar"
    dtype: str = "uint8"
    cut_off: int = 0

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.cast(images[:, self.cut_off :], self.dtype)


def pipeline(stages: Any = CHAIN, **settings: Any) -> Pipeline:
    return Pipeline(SyntheticSource(50, 8, shape=(6, 4, 3), uneven=True), stages, **{"batch_size": 4, **settings})


def ids(batches: Iterable[Mapping[str, tf.Tensor]]) -> list[int]:
    return [int(i) for batch in batches for i in batch["id"]]


def all_ids(declared: Pipeline) -> list[int]:
    sizes = declared.source.split_sizes()
    return [example_id(split, position) for split, size in enumerate(sizes) for position in range(size)]


def by_id(batches: Iterable[Mapping[str, tf.Tensor]], name: str) -> dict[int, np.ndarray]:
    return {int(i): value for batch in batches for i, value in zip(batch["id"], np.asarray(batch[name]), strict=True)}


def test_elements_follow_the_spec():
    data = pipeline(record_parameters=True).dataset(epoch=3)
    assert data.element_spec == {
        "image": tf.TensorSpec([None, 6, 4, 3], tf.float32),
        "label": tf.TensorSpec([None], tf.int64),
        "id": tf.TensorSpec([None], tf.int64),
        "epoch": tf.TensorSpec([None], tf.int64),
        "random_rotation:0/angle": tf.TensorSpec([None], tf.float32),
        "random_flip:2/flip_horizontal": tf.TensorSpec([None], tf.bool),
    }
    assert set(pipeline().dataset().element_spec) == {"image", "label", "id", "epoch"}
    first = next(iter(data))
    assert first["image"].shape == (4, 6, 4, 3)
    assert first["epoch"].numpy().tolist() == [3] * 4
    assert first["image"].numpy().min() >= 0 and first["image"].numpy().max() <= 1


def test_epoch_has_every_example_once():
    declared = pipeline()
    batches = list(one_epoch(declared, threads=1))
    assert sorted(ids(batches)) == all_ids(declared)
    assert [len(batch["id"]) for batch in batches] == [4] * 12 + [2]


def test_example_keeps_label_and_pixels():
    declared = pipeline("")
    source = declared.source
    for batch in declared.dataset():
        expected = source.parse(batch["id"])
        np.testing.assert_array_equal(batch["image"], expected["image"])
        np.testing.assert_array_equal(batch["label"], expected["label"])


def test_every_epoch_has_its_own_order_and_draws():
    declared = pipeline(record_parameters=True)
    epochs = [list(one_epoch(declared, epoch, threads=1)) for epoch in (0, 1, 0)]
    assert ids(epochs[0]) == ids(epochs[2]) != ids(epochs[1])
    angles = [by_id(epoch, "random_rotation:0/angle") for epoch in epochs]
    assert angles[0] == angles[2]
    assert all(angles[0][i] != angles[1][i] for i in angles[0])


def test_order_stays_without_shuffling():
    declared = pipeline("", shuffle_splits=False)
    assert ids(one_epoch(declared, 1, threads=1)) == all_ids(declared)


def test_shuffle_buffer_mixes_neighbouring_splits():
    kept, mixed = (ids(one_epoch(pipeline("", shuffle=size, shuffle_splits=False), threads=1)) for size in (0, 25))
    assert kept != mixed and sorted(kept) == sorted(mixed)
    again, other = (ids(one_epoch(pipeline("", shuffle=25, seed=seed), threads=1)) for seed in (0, 1))
    assert again != other


def test_endless_data_are_consecutive_epochs():
    declared = pipeline(record_parameters=True)

    def rows(batches: Iterable[Mapping[str, tf.Tensor]]) -> list[tuple]:
        names = ("epoch", "id", "random_rotation:0/angle", "random_flip:2/flip_horizontal")
        return [row for batch in batches for row in zip(*(batch[name].numpy().tolist() for name in names), strict=True)]

    expected = [row for epoch in range(3) for row in rows(one_epoch(declared, epoch, threads=1))]
    endless = rows(one_epoch(declared, None, threads=1).take(37))
    assert endless == expected[: 37 * 4]
    assert endless[-1][0] == 2
    many = [row[0] for row in rows(one_epoch(declared, None, threads=4).take(100))]
    assert many == sorted(many), "with several threads, an epoch must not overtake the one before"
    share = rows(one_epoch(declared, None, (1, 3), 1).take(12))
    apart = [row for epoch in range(4) for row in rows(one_epoch(declared, epoch, (1, 3), 1))]
    assert share == apart[: 12 * 4]


def test_all_cuts_give_the_same_examples():
    declared = pipeline(record_parameters=True)
    expected = by_id(declared.dataset(), "image")
    assert len(declared.placed()) == 3
    for position in range(4):
        cut = Cut(position)
        remote = remote_part(declared, 0, cut, threads=1)
        assert remote.element_spec["image"].dtype.name == cut.spec(declared).dtype
        found = by_id(local_part(declared, remote, cut), "image")
        assert found.keys() == expected.keys()
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key])


def test_stage_draws_by_its_declared_position():
    moved = pipeline(record_parameters=True)
    declared = replace(moved, reorder=False)
    assert [p.declared for p in moved.placed()] == [0, 2, 1]
    name = "random_flip:2/flip_horizontal"
    assert by_id(moved.dataset(), name) == by_id(declared.dataset(), name)


@pytest.mark.parametrize(
    ("stage", "named"),
    [(Liar("float32"), "liar .*uint8 .*float32"), (Liar(cut_off=1), r"liar .*\(None, 6, 4, 3\) .*\(None, 5, 4, 3\)")],
)
def test_stage_with_a_wrong_spec_is_named(stage: Stage, named: str):
    with pytest.raises(UsageError, match=named):
        pipeline((*parse("dilate(3)"), stage)).dataset()


@pytest.mark.parametrize(
    ("share", "named"), [((2, 2), "share 2 of 2"), ((-1, 2), "share -1 of 2"), ((0, 9), "8 splits.* 9 ranks")]
)
def test_impossible_share_is_refused(share: tuple[int, int], named: str):
    with pytest.raises(UsageError, match=named):
        one_epoch(pipeline(), 0, share)


def test_unknown_cut_is_refused():
    with pytest.raises(UsageError, match="between 0 and 3"):
        remote_part(pipeline(), 0, Cut(4))
    with pytest.raises(UsageError, match="between 0 and 3"):
        local_part(pipeline(), pipeline().dataset(), Cut(4))
