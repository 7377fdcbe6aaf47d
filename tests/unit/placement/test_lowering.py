from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, local_part, one_epoch, remote_part
from tfhet.source import SyntheticSource, example_id
from tfhet.stages import Stage, parse

CHAIN = "random_rotation(0.1); rescale(); random_flip()"


@dataclass(frozen=True)
class Liar(Stage):
    """Promises what came in, and makes something else."""

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


def test_the_elements_are_what_was_promised():
    data = pipeline(record_parameters=True).dataset(epoch=3)
    assert data.element_spec == {
        "image": tf.TensorSpec([None, 6, 4, 3], tf.float32),
        "label": tf.TensorSpec([None], tf.int64),
        "id": tf.TensorSpec([None], tf.int64),
        "epoch": tf.TensorSpec([None], tf.int64),
        "random_rotation:0/angle": tf.TensorSpec([None], tf.float32),
        "random_flip:2/flip_horizontal": tf.TensorSpec([None], tf.bool),
    }
    first = next(iter(data))
    assert first["image"].shape == (4, 6, 4, 3)
    assert first["epoch"].numpy().tolist() == [3] * 4
    assert first["image"].numpy().min() >= 0 and first["image"].numpy().max() <= 1


def test_an_epoch_holds_every_example_once_and_the_last_batch_is_smaller():
    declared = pipeline()
    batches = list(one_epoch(declared, threads=1))
    assert sorted(ids(batches)) == all_ids(declared)
    assert [len(batch["id"]) for batch in batches] == [4] * 12 + [2]


def test_an_example_keeps_its_label_and_pixels_from_the_source():
    declared = pipeline("")
    source = declared.source
    for batch in declared.dataset():
        expected = source.parse(batch["id"])
        np.testing.assert_array_equal(batch["image"], expected["image"])
        np.testing.assert_array_equal(batch["label"], expected["label"])


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_shares_of_the_ranks_are_disjoint_and_complete(count: int):
    declared = pipeline("", shuffle=5)
    for epoch in (0, 1):
        shares = [ids(one_epoch(declared, epoch, (index, count), 1)) for index in range(count)]
        assert sorted(i for share in shares for i in share) == all_ids(declared)


def test_every_epoch_has_its_own_order_and_draws():
    declared = pipeline(record_parameters=True)
    epochs = [list(one_epoch(declared, epoch, threads=1)) for epoch in (0, 1, 0)]
    assert ids(epochs[0]) == ids(epochs[2]) != ids(epochs[1])
    angles = [by_id(epoch, "random_rotation:0/angle") for epoch in epochs]
    assert angles[0] == angles[2]
    assert all(angles[0][i] != angles[1][i] for i in angles[0])


def test_the_order_stays_where_nothing_is_shuffled():
    declared = pipeline("", shuffle_splits=False)
    for epoch in (0, 1):
        assert ids(one_epoch(declared, epoch, threads=1)) == all_ids(declared)


def test_the_shuffle_buffer_mixes_the_examples_of_neighbouring_splits():
    kept, mixed = (ids(one_epoch(pipeline("", shuffle=size, shuffle_splits=False), threads=1)) for size in (0, 25))
    assert kept != mixed and sorted(kept) == sorted(mixed)
    again, other = (ids(one_epoch(pipeline("", shuffle=25, seed=seed), threads=1)) for seed in (0, 1))
    assert again != other


def test_endless_data_are_the_epochs_one_after_the_other():
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
    for position in range(len(declared.placed()) + 1):
        cut = Cut(position)
        remote = remote_part(declared, 0, cut, threads=1)
        assert remote.element_spec["image"].dtype.name == cut.spec(declared).dtype
        found = by_id(local_part(declared, remote, cut), "image")
        assert found.keys() == expected.keys()
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key])


def test_a_stage_draws_by_its_declared_position_wherever_it_runs():
    moved = pipeline(record_parameters=True)
    declared = replace(moved, reorder=False)
    assert [p.declared for p in moved.placed()] == [0, 2, 1]
    name = "random_flip:2/flip_horizontal"
    assert by_id(moved.dataset(), name) == by_id(declared.dataset(), name)


def test_two_stages_of_one_name_draw_apart():
    declared = pipeline("random_rotation(0.1); random_rotation(0.1)", record_parameters=True)
    first, second = (by_id(declared.dataset(), f"random_rotation:{at}/angle") for at in (0, 1))
    assert all(first[i] != second[i] for i in first)
    other = by_id(replace(declared, seed=1).dataset(), "random_rotation:0/angle")
    assert all(first[i] != other[i] for i in first)


def test_parameters_are_left_out_unless_asked_for():
    assert set(pipeline().dataset().element_spec) == {"image", "label", "id", "epoch"}


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (Liar("float32"), r"stage liar promised uint8 .*made float32"),
        (Liar(cut_off=1), r"stage liar promised uint8 \(None, 6, 4, 3\) but made uint8 \(None, 5, 4, 3\)"),
    ],
)
def test_a_stage_that_lies_is_found_and_named_when_the_graph_is_built(stage: Stage, said: str):
    with pytest.raises(UsageError, match=said):
        pipeline((*parse("dilate(3)"), stage)).dataset()


@pytest.mark.parametrize(
    ("share", "said"),
    [((2, 2), "share 2 of 2"), ((-1, 2), "share -1 of 2"), ((0, 9), "8 splits, too few for 9 ranks")],
)
def test_a_share_that_cannot_be_is_refused(share: tuple[int, int], said: str):
    with pytest.raises(UsageError, match=said):
        one_epoch(pipeline(), 0, share)


def test_a_cut_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="between 0 and 3"):
        remote_part(pipeline(), 0, Cut(4))
    with pytest.raises(UsageError, match="between 0 and 3"):
        local_part(pipeline(), pipeline().dataset(), Cut(4))
