from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tfhet.placement import Pipeline
from tfhet.source import SyntheticSource
from tfhet.stages import ImageSpec, Normalize, Rescale, Stage
from tfhet.stages.fusion import fuse
from tfhet.stages.projection import composed, project, rotation, zooming


def pipeline(stages: str, shape: tuple[int, int, int] = (12, 10, 3), **settings: object) -> Pipeline:
    return Pipeline(SyntheticSource(40, 4, shape=shape), stages, batch_size=8, seed=5, **settings)


def kinds(declared: Pipeline) -> list[tuple[str, list[str]]]:
    return [(step.does, [p.stage.name for p in step.stages]) for step in fuse(declared.placed(), declared.input)]


def images(declared: Pipeline) -> np.ndarray:
    """All of an epoch, in the order of their ids."""
    batches = list(declared.dataset())
    order = np.argsort(np.concatenate([batch["id"] for batch in batches]))
    return np.concatenate([batch["image"] for batch in batches]).astype(np.float32)[order]


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ("random_rotation(); random_zoom()", [("one sampling", ["random_rotation", "random_zoom"])]),
        (
            "random_flip(); random_rotation(); random_shear(); random_translation(); resize(8, 8)",
            [("one sampling", ["random_flip", "random_rotation", "random_shear", "random_translation", "resize"])],
        ),
        ("random_rotation()", [("", ["random_rotation"])]),
        (
            "random_rotation(); dilate(); random_zoom()",
            [("", [n]) for n in ("random_rotation", "dilate", "random_zoom")],
        ),
        (
            "random_shear(fill_mode='wrap'); random_shear(fill_mode='nearest')",
            [("", ["random_shear"]), ("", ["random_shear"])],
        ),
        ("posterize(); solarize(); gamma(2)", [("one look-up table", ["posterize", "solarize", "gamma"])]),
        (
            "posterize(); rescale(); normalize((0.5,), (0.2,))",
            [("one look-up table", ["posterize", "rescale", "normalize"])],
        ),
        ("rescale(); normalize((0.5,), (0.2,))", [("one multiply-add", ["rescale", "normalize"])]),
        ("random_brightness(); rescale()", [("one multiply-add", ["random_brightness", "rescale"])]),
        ("equalize(); posterize()", [("", ["equalize"]), ("", ["posterize"])]),
    ],
)
def test_neighbours_become_one_operation(stages: str, expected: list[tuple[str, list[str]]]):
    assert kinds(pipeline(stages)) == expected


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "stages",
    [
        "posterize(3); solarize(100); gamma(1.7); invert()",
        "random_brightness(0.4); solarize(90); posterize(2)",
        "gamma(0.5); posterize(4); rescale(); normalize((0.3,), (0.2,))",
        "rescale(); cast('uint8'); rescale(1.0)",
    ],
)
def test_table_equals_the_stages(stages: str, channels: int):
    fused, apart = (images(pipeline(stages, (7, 5, channels), fuse=fuse, reorder=False)) for fuse in (True, False))
    np.testing.assert_array_equal(fused, apart)


def test_pipeline_is_not_fused_on_request():
    chain = "posterize(); solarize()"
    assert "one look-up table" in pipeline(chain).explain()
    assert "one look-up table" not in pipeline(chain, fuse=False).explain()


@pytest.mark.parametrize(
    "stages",
    [
        "rescale(); normalize((0.3, 0.4, 0.5), (0.2, 0.3, 0.1))",
        "rescale(); random_brightness(0.5); normalize()",
        "rescale(); invert(); normalize()",
        "rescale(2, -1); rescale(3, 4); rescale(0.5)",
        "normalize(); rescale(2, 1)",
    ],
)
def test_line_equals_the_stages_up_to_rounding(stages: str):
    fused, apart = (images(pipeline(stages, fuse=fuse, reorder=False)) for fuse in (True, False))
    np.testing.assert_allclose(fused, apart, rtol=2e-6, atol=1e-5)


def test_line_between_levels_differs_by_rounding():
    fused, apart = (images(pipeline("random_brightness(0.3); rescale()", fuse=fuse)) for fuse in (True, False))
    assert np.abs(fused - apart).max() <= 0.5 / 255 + 1e-6


def test_sampling_uses_the_composed_coordinates_once():
    declared = pipeline("random_rotation(0.2); random_zoom(0.3); rescale()", record_parameters=True, shape=(20, 14, 3))
    for batch in declared.dataset():
        raw = declared.source.parse(batch["id"])["image"]
        angles, zooms = batch["random_rotation:0/angle"], batch["random_zoom:1/zoom"]
        for image, angle, zoom, got in zip(raw, angles, zooms, batch["image"], strict=True):
            expected = _sampled(image.numpy(), float(angle), float(zoom))
            assert np.abs(expected - got.numpy() * 255).max() <= 0.51


def _sampled(image: np.ndarray, angle: float, zoom: float) -> np.ndarray:
    """One image by the book, in float64: output point -> zoom's -> rotation's input point; bilinear, reflected."""
    height, width, _ = image.shape
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    points = (np.stack([x, y], -1) - centre) * zoom @ turn.T + centre
    out = np.zeros(image.shape)
    base = np.floor(points).astype(int)
    for dx in (0, 1):
        for dy in (0, 1):
            at = base + (dx, dy)
            weight = np.prod(1 - np.abs(points - at), axis=-1, keepdims=True)
            out += weight * image[_reflect(at[..., 1], height), _reflect(at[..., 0], width)]
    return out


def _reflect(index: np.ndarray, size: int) -> np.ndarray:
    index = np.mod(index, 2 * size)
    return np.where(index < size, index, 2 * size - 1 - index)


def test_resize_in_the_middle_sets_the_size():
    declared = pipeline("random_rotation(0.1); resize(6, 8); random_zoom(0.2)", shape=(12, 10, 3))
    (step,) = fuse(declared.placed(), declared.input)
    batch = tf.cast(declared.source.parse(tf.range(4, dtype=tf.int64))["image"], tf.float32)
    angle, zoom = tf.constant([0.1, -0.4, 0.0, 0.3]), tf.constant([1.2, 0.8, 1.0, 0.9])
    got = step.run(batch, [{"angle": angle}, {}, {"zoom": zoom}])
    resize = declared.placed()[1].stage.transforms({}, 12, 10)
    resize = tf.broadcast_to(resize, [4, 8])
    want = project(batch, composed(rotation(angle, 12, 10), resize, zooming(zoom, 6, 8)), "reflect", size=(6, 8))
    np.testing.assert_allclose(got, want, atol=1e-3)
    assert got.shape == (4, 6, 8, 3)


def test_draws_do_not_depend_on_fusion():
    chain = "random_flip(); random_rotation(0.2); random_zoom(0.3); random_brightness()"
    both = []
    for together in (True, False):
        batches = list(pipeline(chain, fuse=together, record_parameters=True).dataset())
        order = np.argsort(np.concatenate([batch["id"] for batch in batches]))
        both.append({name: np.concatenate([batch[name] for batch in batches])[order] for name in batches[0]})
    for name in set(both[0]) - {"image"}:
        assert np.array_equal(both[0][name], both[1][name]), name


def test_cut_separates_what_could_be_fused():
    declared = pipeline("random_rotation(); random_zoom()")
    placed = declared.placed()
    assert len(fuse(placed[:1], declared.input)) == len(fuse(placed[1:], placed[0].output)) == 1


def test_overridden_apply_prevents_fusion():
    @dataclass(frozen=True)
    class Squared(Rescale):
        name: ClassVar[str] = "squared"

        def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return tf.square(super().apply(images, parameters))

    declared = Pipeline(SyntheticSource(4, 1), (Squared(), Normalize()), reorder=False)
    assert [step.does for step in fuse(declared.placed(), declared.input)] == ["", ""]


def test_stage_without_a_line_runs_alone():
    @dataclass(frozen=True)
    class Sometimes(Stage):
        name: ClassVar[str] = "sometimes"

        def spec(self, spec: ImageSpec) -> ImageSpec:
            return replace(spec, dtype="float32")

        def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> None:
            return None

        def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return tf.cast(images, tf.float32) ** 2

    declared = Pipeline(SyntheticSource(4, 1, shape=(3, 3, 3)), (Sometimes(), Rescale(0.5)), reorder=False)
    plain = replace(declared, fuse=False)
    assert np.array_equal(images(declared), images(plain))
