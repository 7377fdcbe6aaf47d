from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline, label_spec
from tfhet.source import ArraySpec, SyntheticSource
from tfhet.stages import ImageSpec, Stage, parse


@dataclass(frozen=True)
class Gamma(Stage):
    """Does not commute with a rescale."""

    name: ClassVar[str] = "gamma"


@dataclass(frozen=True)
class Halved(Stage):
    """Halves height and width."""

    name: ClassVar[str] = "halved"
    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.height is None or spec.width is None:
            self.refuse("wants a size")
        return replace(spec, height=spec.height // 2, width=spec.width // 2)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images[:, ::2, ::2]


class Other(SyntheticSource):
    """A source whose images are as told."""

    def __init__(self, image: tf.TensorSpec | None):
        super().__init__(8, 2)
        self.image = image

    @property
    def spec(self) -> dict[str, tf.TensorSpec]:
        label = {"label": tf.TensorSpec([None], tf.int64)}
        return label if self.image is None else {"image": self.image, **label}


def source(**settings: Any) -> SyntheticSource:
    return SyntheticSource(20, 5, **{"shape": (8, 6, 3), **settings})


def running(stages: Any, **settings: Any) -> list[str]:
    return [
        f"{placed.stage.name}:{placed.declared}"
        for placed in Pipeline(settings.pop("source", source()), stages, **settings).placed()
    ]


def test_rescale_moves_behind_commuting_stages():
    assert running("aws-cifar", source=SyntheticSource(20, 5)) == [
        "dilate:0",
        "gaussian_blur:1",
        "random_flip:3",
        "random_rotation:4",
        "random_zoom:5",
        "rescale:2",
    ]


def test_rescale_stays_before_other_stages():
    rescale, flip = parse("rescale(); random_flip()")
    assert running((rescale, Gamma())) == ["rescale:0", "gamma:1"]
    assert running((rescale, flip, Gamma(), flip)) == ["random_flip:1", "rescale:0", "gamma:2", "random_flip:3"]
    assert running((Gamma(), rescale, flip)) == ["gamma:0", "random_flip:2", "rescale:1"]


def test_rescale_of_floats_stays():
    floats = Other(tf.TensorSpec([None, 8, 8, 3], tf.float32))
    assert running("rescale(); random_flip()", source=floats) == ["rescale:0", "random_flip:1"]
    # The second one gets what the first has made of the uint8: it would be moved no further than the first.
    assert running("rescale(); random_flip(); rescale(2.0); random_flip()") == [
        "random_flip:1",
        "random_flip:3",
        "rescale:0",
        "rescale:2",
    ]


def test_declared_order_is_kept_without_reordering():
    assert running("rescale(); random_flip()", reorder=False) == ["rescale:0", "random_flip:1"]


def test_moved_rescale_changes_one_level_at_most():
    chain = "dilate(3); gaussian_blur(5, 0.8); rescale(); random_flip(); random_rotation(0.1); random_zoom(0.1)"
    moved = Pipeline(source(), chain, batch_size=20)
    declared = replace(moved, reorder=False)
    assert moved.placed() != declared.placed()
    images = [
        {int(i): image for batch in p.dataset() for i, image in zip(batch["id"], batch["image"].numpy(), strict=True)}
        for p in (moved, declared)
    ]
    assert images[0].keys() == images[1].keys() and len(images[0]) == 20
    for key, image in images[0].items():
        assert abs(image - images[1][key]).max() <= 1.001 / 255


def test_output_of_each_stage_follows_its_spec():
    pipeline = Pipeline(source(), (Halved(), *parse("rescale(1/255)"), Halved()))
    assert [(p.output.height, p.output.width, p.output.dtype) for p in pipeline.placed()] == [
        (4, 3, "uint8"),
        (2, 1, "uint8"),
        (2, 1, "float32"),
    ]
    assert pipeline.input == ImageSpec(8, 6, 3, "uint8", 0.0, 255.0)
    assert pipeline.output == ImageSpec(2, 1, 3, "float32", 0.0, 1.0)
    assert Pipeline(source()).output == pipeline.input


def test_range_of_a_float_source_is_unknown():
    assert Pipeline(Other(tf.TensorSpec([None, 8, 8, 3], tf.float32))).input.high == float("inf")


def test_explain_shows_stages_and_cut_in_running_order():
    declared = Pipeline(SyntheticSource(8, 2), "dilate(5); rescale(0.5); random_flip(vertical=True); random_zoom()")
    shown = declared.explain()
    words = ("synthetic", "dilate", "random_flip", "random_zoom", "one sampling", "cut", "data group", "rescale")
    places = [shown.index(word) for word in words]
    assert places == sorted(places)
    assert "3072 B" in shown and "12288 B" in shown


def test_fingerprint_depends_on_the_content():
    one = Pipeline(source(), "random_flip(); rescale()")
    others = [
        replace(one, source=source(seed=1)),
        replace(one, source=SyntheticSource(21, 5, shape=(8, 6, 3))),
        one.with_stages("rescale(); random_flip()"),
        one.with_stages("random_flip(vertical=True); rescale()"),
        replace(one, batch_size=31),
        replace(one, seed=1),
        replace(one, shuffle=5),
        replace(one, shuffle_splits=False),
        replace(one, reorder=False),
        replace(one, record_parameters=True),
    ]
    digests = [p.fingerprint() for p in (one, *others)]
    assert len(set(digests)) == len(digests)
    assert replace(one).fingerprint() == digests[0]
    # A checkpoint of an earlier process or release is resumed only if the fingerprint is the same.
    published = "e3fef1af0939269a4d10ce27090a3fb26d4551b17efd9c53027ccfd4cbf4c14a"
    assert Pipeline(SyntheticSource(20, 5), "aws-cifar", seed=3).fingerprint() == published


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"shuffle": -1}, "shuffle .*-1"),
        ({"stages": "no_such_stage()"}, "no_such_stage"),
        ({"stages": ("dilate(3)",)}, "dilate.3."),
        ({"stages": (Halved,)}, "Halved"),
        ({"source": Other(None)}, "'image', only label"),
        ({"source": Other(tf.TensorSpec([None, 3], tf.string))}, "string"),
        ({"source": Other(tf.TensorSpec([None, 8, 8, 3], tf.int32))}, "not int32"),
        ({"source": Other(tf.TensorSpec([None, None, None, 3], tf.uint8)), "stages": (Halved(),)}, "wants a size"),
    ],
)
def test_pipeline_that_cannot_run_is_refused(settings: dict, named: str):
    with pytest.raises(UsageError, match=named):
        Pipeline(**{"source": source(), **settings})


def test_labels_follow_the_stages():
    features = {"image": source().spec["image"], "label": source().spec["label"]}
    for stages, expected in (
        ("random_flip(); posterize()", features["label"]),
        ("random_flip(); one_hot(5); mixup(); cutmix()", ArraySpec((None, 5), "float32")),
    ):
        assert label_spec(features, Pipeline(source(), stages).placed()) == expected
    flip, one_hot = (Pipeline(source(), stages).placed() for stages in ("random_flip()", "one_hot(3)"))
    del features["label"]
    assert label_spec(features, flip) is None
    with pytest.raises(UsageError, match="one_hot .*'label', only image"):
        label_spec(features, one_hot)
