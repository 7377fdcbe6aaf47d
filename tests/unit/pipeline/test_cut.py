from __future__ import annotations

import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline import Cut, Pipeline, bytes_per_example
from tfhet.source import SyntheticSource
from tfhet.stages import ImageSpec


def pipeline(stages: str, **settings: bool) -> Pipeline:
    return Pipeline(SyntheticSource(8, 2), stages, **settings)


@pytest.mark.parametrize(
    ("stages", "reorder", "position"),
    [
        ("", True, 0),
        ("rescale()", True, 0),
        ("dilate(3)", True, 1),
        ("dilate(3); rescale(); random_flip()", True, 2),
        ("dilate(3); rescale(); random_flip()", False, 1),
        ("aws-cifar", True, 5),
    ],
)
def test_smallest_cut_is_the_last_small_place(stages: str, reorder: bool, position: int):
    declared = pipeline(stages, reorder=reorder)
    assert Cut.smallest(declared) == Cut(position)
    assert Cut(position).spec(declared).dtype == "uint8"


def test_bytes_are_known_for_every_cut():
    declared = pipeline("dilate(3); rescale()")
    assert [bytes_per_example(Cut(at).spec(declared)) for at in range(3)] == [3072, 3072, 4 * 3072]


def test_unknown_size_is_not_small():
    class Unsized(SyntheticSource):
        @property
        def spec(self) -> dict[str, tf.TensorSpec]:
            return {"image": tf.TensorSpec([None, None, None, 3], tf.uint8)}

    declared = Pipeline(Unsized(8, 2), "random_flip(); resize(224, 224); rescale()")
    assert Cut.smallest(declared) == Cut(2)


def test_unknown_length_counts_as_one_pixel():
    assert bytes_per_example(ImageSpec(None, 5, 3, "float32", 0, 1)) == 60


@pytest.mark.parametrize("position", [-1, 2])
def test_cut_outside_the_pipeline_is_refused(position: int):
    with pytest.raises(UsageError, match=f"between 0 and 1 .*{position}"):
        Cut(position).checked(pipeline("dilate(3)"))
