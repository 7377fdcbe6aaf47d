"""Specs of images and stages as values: what a stage states about its results before anything runs."""

from __future__ import annotations

import dataclasses
import math

import pytest
import tensorflow as tf
from stage_images import float32, one, uint8

from tfhet.errors import UsageError
from tfhet.source import ArraySpec
from tfhet.stages import Dilate, GaussianBlur, ImageSpec, Invert, Rescale, parse

INF = math.inf


def test_tensor_spec_becomes_image_spec_and_back():
    spec = ImageSpec.of(tf.TensorSpec([None, 32, 24, 3], tf.uint8))
    assert spec == uint8(32, 24)
    assert ImageSpec.of(tf.TensorSpec([None, 32, 32, 1], tf.float32)) == float32(-INF, INF, 32, 32, 1)
    assert ImageSpec.of(uint8(None, 8).tensor) == uint8(None, 8)


def test_bytes_of_an_example_follow_dtype_and_size():
    assert uint8(32, 32).example_bytes == 3072
    assert float32(0, 1, 32, 32).example_bytes == 4 * 3072
    assert uint8(None, 32).example_bytes is None


@pytest.mark.parametrize(
    "tensor",
    [
        *(tf.TensorSpec(shape, tf.uint8) for shape in ([None], [None, 32, 32], [None, 32, 32, None])),
        tf.TensorSpec([None, 8, 8, 3], tf.float64),
    ],
)
def test_other_tensors_are_refused(tensor):
    with pytest.raises(UsageError, match=tensor.dtype.name):
        ImageSpec.of(tensor)


def test_stage_is_a_value_of_its_fields():
    assert Dilate(5) == Dilate(size=5) != Dilate(3)
    assert hash(GaussianBlur()) == hash(GaussianBlur())
    assert repr(GaussianBlur(sigma=1)) == repr(GaussianBlur(sigma=1.0))
    assert type(Rescale(scale=2).scale) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dilate().size = 4  # type: ignore[misc]


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("rescale(1/127.5, -1)", uint8(), float32(-1.0, 255 / 127.5 - 1, 20, 28)),
        ("invert()", Rescale().spec(uint8()), Rescale().spec(uint8())),
        (f"normalize({MEAN}, {STD})", uint8(), float32(-0.485 / 0.229, (1 - 0.406) / 0.225, 20, 28)),
        ("normalize()", float32(-INF, INF), float32(-INF, INF)),
        ("cast('uint8')", float32(-INF, INF), uint8(8, 8)),
        ("cast('uint8')", float32(0, 1), ImageSpec(8, 8, 3, "uint8", 0, 1)),
        ("cast('uint8')", float32(-3, 99.7), ImageSpec(8, 8, 3, "uint8", 0, 100)),
        ("cast('uint8')", uint8(), uint8()),
        ("grayscale(1)", float32(-1, 1), float32(-1, 1, channels=1)),
        ("grayscale(3)", uint8(channels=1), uint8()),
        ("center_crop()", uint8(12, 17), uint8(12, 12)),
        ("center_crop(4, 6)", uint8(None, None), uint8(4, 6)),
        ("pad(left=1, right=2, height=9)", uint8(6, 9), uint8(9, 12)),
        ("pad(1, 2)", uint8(None, 9), uint8(None, 9)),
        ("resize(5, 7)", float32(-1, 1, None, None), float32(-1, 1, 5, 7)),
        ("resize(5, 7, 'bicubic')", float32(-1, 1), float32(-1.5625, 1.5625, 5, 7)),
        ("resize(5, 7, 'bicubic')", float32(-INF, INF), float32(-INF, INF, 5, 7)),
        ("resize(5, 7, 'bicubic')", uint8(), uint8(5, 7)),
        ("random_resized_crop(160, 128)", uint8(), uint8(160, 128)),
        ("resized_center_crop(160, 128, 182)", uint8(), uint8(160, 128)),
    ],
)
def test_stage_states_the_spec_of_its_results(text, before, after):
    found = dataclasses.asdict(one(text).spec(before))
    assert found == pytest.approx(dataclasses.asdict(after))


@pytest.mark.parametrize(
    ("text", "commutes"),
    [
        ("affine(10, scale=2, fill_mode='constant'); random_affine(fill_mode='constant')", False),
        ("affine(fill_mode='wrap'); random_affine(); random_shear(); random_translation()", True),
        ("random_shear(fill_mode='constant'); random_translation(fill_mode='constant')", False),
        ("pad(4, 4, 4, 4, mode='reflect'); random_crop(24, 24); random_crop(padding=4, mode='reflect')", True),
        ("pad(height=32, width=32); random_crop(32, 32, padding=4)", False),
        ("resize(32, 32, 'area'); gaussian_blur(); gaussian_blur(padding='SYMMETRIC')", True),
        ("resize(method='bicubic'); gaussian_blur(padding='CONSTANT')", False),
    ],
)
def test_constant_fill_and_overshoot_prevent_moving_rescale(text, commutes):
    assert {stage.commutes_with_rescale for stage in parse(text)} == {commutes}


# fmt: off
FULL_RANGE = (
    "random_brightness", "random_contrast", "random_saturation", "random_hue", "color_jitter", "posterize",
    "solarize", "equalize", "autocontrast", "invert", "gamma", "gaussian_noise", "sharpen", "randaugment",
    "trivialaugment",
)
# fmt: on


@pytest.mark.parametrize("name", FULL_RANGE)
def test_stages_of_levels_need_the_full_range(name):
    for spec in (float32(-1, 1), float32(0, 255), float32(-INF, INF), ImageSpec(8, 8, 3, "uint8", 0, 16)):
        with pytest.raises(UsageError, match=f"stage {name}: .* {spec.dtype} .* {spec.low:g} to {spec.high:g}"):
            one(name).spec(spec)


@pytest.mark.parametrize(
    ("text", "spec", "named"),
    [
        *((name, uint8(channels=4), "1 3 4") for name in ("random_saturation", "random_hue", "color_jitter")),
        *((name, uint8(channels=4), "1 3 4") for name in ("grayscale", "randaugment")),
        ("randaugment(fill_value=7)", float32(0, 1), "fill_value 7"),
        ("randaugment", uint8(9, 1), "2 pixels 1"),
        ("sharpen()", uint8(8, 1), "2 pixels 1"),
        ("gaussian_blur(11)", uint8(32, 5), "11 6 pixels 5"),
        ("gaussian_blur()", uint8(None, None), "height width"),
        ("random_resized_crop()", uint8(None, 9), "height width"),
        ("cutmix()", uint8(None, 30), "height width"),
        ("random_crop(4, 4)", uint8(None, 9), "height width"),
        ("random_crop(13, 4, 1)", uint8(10, 13), "13 x 4 12 x 15"),
        ("random_crop(padding=1, value=300)", uint8(), "value 300 255"),
        ("random_crop(padding=1, value=0.5)", uint8(), "value 0.5"),
        ("center_crop(13, 4)", uint8(12, 17), "13 x 4 12 x 17"),
        ("center_crop(4)", uint8(None, 17), "shorter"),
        ("pad(value=256)", uint8(), "value 256 255"),
        ("pad(value=0.5)", uint8(), "value 0.5"),
        ("pad(height=5)", uint8(6, 9), "6 rows 5"),
        ("pad(left=1, mode='edge')", uint8(6, None), "columns"),
        ("affine(fill_mode='constant', fill_value=300)", uint8(), "fill_value 300"),
        ("random_affine(fill_mode='constant', fill_value=-2)", uint8(), "fill_value -2"),
        ("random_shear(fill_mode='constant', fill_value=-1)", uint8(), "fill_value -1"),
        ("random_translation(fill_mode='constant', fill_value=256)", uint8(), "fill_value 256"),
        ("cutout(value=2)", float32(0, 1), "value 2"),
        *((f"random_erasing(value={value})", uint8(), f"value {value:g}") for value in (-1.0, 256.0, 0.5)),
        ("normalize((0.5, 0.5))", uint8(), "mean 2 3"),
        ("one_of(posterize(), center_crop(4, 4))", uint8(), "posterize center_crop"),
        ("one_of(posterize(), rescale())", uint8(), "posterize rescale"),
        ("probability(rescale())", uint8(), "unchanged rescale"),
        ("probability(center_crop(4, 4))", uint8(), "center_crop"),
    ],
)
def test_images_that_do_not_fit_are_refused(text, spec, named):
    with pytest.raises(UsageError) as refused:
        one(text).spec(spec)
    assert f"stage {text.partition('(')[0]}:" in str(refused.value)
    assert set(named.split()) <= set(str(refused.value).replace(",", "").replace(":", " ").split())


def test_ragged_images_are_refused_by_the_held_stage():
    with pytest.raises(UsageError, match="stage invert:"):
        one("probability(invert())").spec(dataclasses.replace(uint8(None, None), ragged=True))
    assert Invert().spec(uint8(None, None)) == uint8(None, None)


@pytest.mark.parametrize(
    ("text", "spec", "named"),
    [
        ("mixup()", ArraySpec((None,), "int64"), r"int64.*one_hot\(classes\)"),
        ("cutmix()", ArraySpec((None,), "int32"), "int32.*one_hot"),
        ("one_hot(3)", ArraySpec((None, 3), "float32"), "float32"),
        ("one_hot(3)", ArraySpec((None, 2), "int64"), "int64"),
        ("one_of(one_hot(3), posterize())", ArraySpec((None,), "int64"), "float32 .* int64"),
    ],
)
def test_labels_that_do_not_fit_are_refused(text, spec, named):
    with pytest.raises(UsageError, match=f"stage {text.partition('(')[0]}: .*{named}"):
        one(text).label_spec(spec)


def test_missing_addons_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"backend='own'.*tfhet\[addons\]"):
        one("gaussian_blur(backend='addons')").spec(uint8())
