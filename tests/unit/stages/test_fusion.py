from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from stage_images import noise

from tfhet import stages
from tfhet.pipeline import Pipeline
from tfhet.source import SyntheticSource
from tfhet.stages import ImageSpec, Normalize, Rescale, Stage, fuse


def pipeline(text: str, shape: tuple[int, int, int] = (12, 10, 3), **settings: object) -> Pipeline:
    return Pipeline(SyntheticSource(40, 4, shape=shape), text, batch_size=8, seed=5, **settings)


def kinds(declared: Pipeline) -> list[tuple[str, list[str]]]:
    return [(step.does, [p.stage.name for p in step.stages]) for step in fuse(declared.placed(), declared.input)]


def fused_and_apart(text: str, channels: int = 3) -> list[np.ndarray]:
    values, ids = noise(height=12, width=10, channels=channels, count=40).numpy(), np.arange(40)
    chains = [stages.compile(text, reorder=False, fuse=together) for together in (True, False)]
    return [chain(values, ids=ids, seed=5) for chain in chains]


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_neighbours_become_one_operation(text: str, expected: list[tuple[str, list[str]]]):
    assert kinds(pipeline(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "posterize(3); solarize(100); gamma(1.7); invert()",
        "random_brightness(0.4); solarize(90); posterize(2)",
        "gamma(0.5); posterize(4); rescale(); normalize((0.3,), (0.2,))",
        "rescale(); cast('uint8'); rescale(1.0)",
        "posterize(7); random_brightness(0.4); rescale(); normalize((0.3, 0.4, 0.5), (0.2, 0.3, 0.1))",
    ],
)
def test_table_equals_the_stages(text: str):
    assert kinds(pipeline(text, reorder=False))[0][0] == "one look-up table"
    for channels in (3,) if "0.4, 0.5" in text else (1, 3, 5):
        np.testing.assert_array_equal(*fused_and_apart(text, channels))


def test_pipeline_is_not_fused_on_request():
    chain = "posterize(); solarize()"
    assert "one look-up table" in pipeline(chain).explain()
    assert "one look-up table" not in pipeline(chain, fuse=False).explain()


@pytest.mark.parametrize(
    "text",
    [
        "rescale(); normalize((0.3, 0.4, 0.5), (0.2, 0.3, 0.1))",
        "rescale(); random_brightness(0.5); normalize()",
        "rescale(); invert(); normalize()",
        "rescale(2, -1); rescale(3, 4); rescale(0.5)",
        "normalize(); rescale(2, 1)",
        "rescale(); random_brightness(0.9); invert(); random_brightness(0.7); invert(); random_brightness(0.5)",
        "rescale(); invert(); random_brightness(0.9); invert(); normalize((0.3, 0.4, 0.5), (2.0, 0.3, 0.1))",
    ],
)
def test_line_equals_the_stages_up_to_rounding(text: str):
    np.testing.assert_allclose(*fused_and_apart(text), rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("first", ["random_brightness(0.3)", "random_contrast(0.0, 3.0)", "autocontrast()"])
def test_line_between_levels_differs_by_rounding(first: str):
    fused, apart = fused_and_apart(f"{first}; rescale()")
    assert np.abs(fused - apart).max() <= 0.5 / 255 + 1e-6


def test_sampling_uses_the_composed_coordinates_once():
    declared = pipeline("random_rotation(0.2); random_zoom(0.3); rescale()", record_parameters=True, shape=(20, 14, 3))
    for batch in declared.dataset():
        raw = declared.source.parse(batch["id"])["image"]
        angles, zooms = batch["random_rotation:0/angle"], batch["random_zoom:1/zoom"]
        for image, angle, zoom, got in zip(raw, angles, zooms, batch["image"], strict=True):
            expected = _sampled(image.numpy(), float(angle), float(zoom), (20, 14))
            assert np.abs(expected - got.numpy() * 255).max() <= 0.51


def test_resize_in_the_middle_sets_the_size():
    declared = pipeline("random_rotation(0.1); resize(6, 8); random_zoom(0.2)", record_parameters=True)
    assert kinds(declared) == [("one sampling", ["random_rotation", "resize", "random_zoom"])]
    for batch in declared.dataset():
        raw = declared.source.parse(batch["id"])["image"]
        angles, zooms = batch["random_rotation:0/angle"], batch["random_zoom:2/zoom"]
        for image, angle, zoom, got in zip(raw, angles, zooms, batch["image"], strict=True):
            expected = _sampled(image.numpy(), float(angle), float(zoom), (6, 8))
            assert np.abs(expected - got.numpy()).max() <= 0.51


def _sampled(image: np.ndarray, angle: float, zoom: float, size: tuple[int, int]) -> np.ndarray:
    """One image by the book, in float64: output point -> zoom's -> resize's -> rotation's input point; bilinear,
    reflected."""
    height, width, channels = image.shape
    before, after = np.array([width, height]), np.array(size[::-1])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x, y = np.meshgrid(np.arange(size[1]), np.arange(size[0]))
    points = (np.stack([x, y], -1) - (after - 1) / 2) * zoom * before / after @ turn.T + (before - 1) / 2
    out = np.zeros((*size, channels))
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


def test_stage_of_a_user_runs_alone():
    @dataclass(frozen=True)
    class Sometimes(Stage):
        name: ClassVar[str] = "sometimes"

        def spec(self, spec: ImageSpec) -> ImageSpec:
            return replace(spec, dtype="float32")

        def apply(self, images: np.ndarray, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
            return np.float32(images) ** 2

    values = noise(height=3, width=3).numpy()
    for together in (True, False):
        chain = stages.compile((Rescale(1 / 2), Sometimes(), Rescale(0.5)), reorder=False, fuse=together)
        np.testing.assert_allclose(chain(values), (values / 2) ** 2 / 2)
