"""Images, files, ids and parameters of any shape and value: a result, or an error that says what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfhet import kernels, stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec

IMAGES = np.zeros((2, 6, 7, 3), np.uint8)
# fmt: off
TEXTS = (
    "affine(30)", "autocontrast()", "cast()", "center_crop(1, 1)", "color_jitter(0.4, 0.4, 0.4, 0.1)", "cutmix()",
    "cutout()", "dilate()", "equalize()", "erode(100)", "gamma(2.0)", "gaussian_blur(1, 0.5)", "gaussian_noise()",
    "grayscale()", "grayscale(3)", "invert()", "mixup()", "normalize((0.5,), (0.2,))", "one_of(invert(), random_hue())",
    "pad(1)", "posterize()", "probability(random_affine(), 0.5)", "randaugment()", "random_affine()",
    "random_brightness()", "random_contrast()", "random_crop(1, 1, 1)", "random_erasing()", "random_flip()",
    "random_hue()", "random_resized_crop(4, 5)", "random_resized_crop(4, 5, antialias=True); random_flip()",
    "random_rotation()", "random_rotation(); random_zoom(); resize(3, 9)", "random_saturation()",
    "random_shear(fill_mode='constant')", "random_shear(fill_mode='wrap')",
    "random_translation(0.5, 0.5, 'nearest')", "random_zoom()",
    "random_brightness(); rescale(0.5); normalize((0.5,), (0.2,))", "resize(3, 4)", "resize(3, 4, antialias=True)",
    "resize(9, 8, 'bicubic')", "resize(3, 9, 'area')", "resize(3, 9, 'nearest')", "resized_center_crop(2, 3, 4)",
    "sharpen()", "solarize(); random_brightness()", "trivialaugment()",
)
# fmt: on


def core(text: str, spec: ImageSpec) -> kernels.Chain:
    (segment,) = stages.compile(text).program(spec).segments
    assert segment.chain is not None
    return segment.chain


@pytest.mark.parametrize("text", TEXTS)
def test_empty_and_tiny_images_are_survived(text):
    """Nothing in is nothing out; images of one pixel, or none, have a result or are refused."""
    for count, height, width in ((0, 6, 7), (3, 1, 1), (2, 1, 9), (2, 9, 1), (2, 0, 5), (2, 5, 0)):
        some = np.random.default_rng(1).integers(0, 256, (count, height, width, 3), np.uint8)
        try:
            made = stages.compile(text)(some, ids=range(count))
        except UsageError as failure:
            complaint = str(failure)
        else:
            complaint = ""
            assert len(made) == count and made.size == np.prod(made.shape)
        assert not complaint or min(height, width) < 2, complaint


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e300, -1e300, 2.0**31, -1.0])
@pytest.mark.parametrize("text", [text for text in TEXTS if "random" in text or "jitter" in text or "noise" in text])
def test_any_given_number_is_safe(text, number):
    """A parameter that cannot be drawn has a result, or is refused."""
    for dtype, high in (("uint8", 255.0), ("float32", 1.0)):
        chain = core(text, ImageSpec(12, 10, 3, dtype, 0.0, high))
        some = np.random.default_rng(1).uniform(0, high, (4, 12, 10, 3)).astype(dtype)
        draws = kernels.Draws(np.arange(4), np.zeros(1, np.int64), np.arange(8, dtype=np.uint64))
        expected = chain.run(some, draws).shape
        for slot in range(chain.slots):
            given = chain.draw(some, draws)
            given[:, slot] = number
            try:
                assert chain.run(some, given=given).shape == expected
            except UsageError as failure:
                complaint = str(failure)
                assert "windows[0]" in complaint or "choice is" in complaint or "does not fit" in complaint


def blurred(images: Any = IMAGES, text: str = "gaussian_blur()", **how: Any) -> None:
    stages.compile(text)(images, **how)


def flipped(**how: Any) -> None:
    core("random_flip()", ImageSpec.of(IMAGES)).run(IMAGES, **how)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: blurred(IMAGES[0]), r"not a batch of images"),
        (lambda: blurred(IMAGES.astype(np.int32)), "uint8, float32 or encoded, not int32"),
        (lambda: blurred(IMAGES[:, :5]), "at least 6 pixels, not 5"),
        (lambda: blurred(IMAGES, "sharpen()", out=np.zeros((2, 6, 7, 1), np.uint8)), r"out is uint8 \(2, 6, 7, 3\)"),
        (lambda: blurred(IMAGES, "sharpen()", out=np.zeros((2, 6, 7, 3))), "out is uint8 .* not float64"),
        (lambda: blurred(IMAGES[:, :1], "sharpen()"), "at least 2 pixels"),
        (lambda: blurred(IMAGES[..., :2], "random_hue()", ids=[1, 2]), "1 or 3 channels, not 2"),
        (lambda: blurred(IMAGES, "random_flip()"), r"random_flip: .* pass ids=, int64 \[batch\]"),
        (lambda: blurred(IMAGES, "random_flip()", ids=[1]), r"ids are int64 \[2\].* not \[1\]"),
        (lambda: blurred(IMAGES, "random_flip()", ids=[1, 2], epoch=np.arange(3)), "3 epochs for 2 images"),
        (lambda: blurred(IMAGES, "random_crop(7, 7)", ids=[1, 2]), "random_crop: .*7 x 7"),
        (lambda: blurred(IMAGES, "normalize((0.5, 0.4), (0.2,))"), "normalize: .*2 .*3"),
        (lambda: blurred([b"file"], "resize(4, 4)"), "put decode before"),
        (lambda: blurred(["text"], "decode(); resize(4, 4)"), "image files are bytes"),
        (lambda: blurred([b"file"], "decode()"), "decode: its images differ in size"),
        (lambda: flipped(), "needs ids, epochs and 1 salts"),
        (lambda: flipped(given=np.zeros((2, 2))), r"float64 \(2, 1\), contiguous; not float64 \(2, 2\)"),
        (lambda: flipped(given=np.zeros((2, 1), np.float32)), "not float32"),
        (lambda: flipped(drawn=np.zeros((3, 1))), r"not float64 \(3, 1\)"),
    ],
)
def test_what_does_not_fit_is_an_error(call: Callable[[], None], named: str):
    with pytest.raises(UsageError, match=named):
        call()


@pytest.mark.parametrize("wrong", [{"ids": [0.5] * 4}, {"ids": ["a"] * 4}, {"epoch": 1.5}])
def test_ids_and_epochs_are_integers(wrong):
    images = np.zeros((4, 8, 8, 3), np.uint8)
    with pytest.raises(UsageError, match="integers"):
        stages.compile("random_flip()")(images, **{"ids": np.arange(4), **wrong})


@pytest.mark.parametrize("text", ["mixup()", "cutmix()", "random_flip(); random_rotation(0.2)"])
def test_result_may_replace_the_images(text):
    images = np.random.default_rng(0).integers(0, 256, (6, 9, 7, 3), np.uint8)
    chain, ids = stages.compile(text), np.arange(6)
    expected = chain(images, ids=ids)
    np.testing.assert_array_equal(chain(images, ids=ids, out=images), expected)


def test_read_only_result_is_refused():
    images = np.zeros((2, 8, 8, 3), np.uint8)
    out = np.zeros_like(images)
    out.flags.writeable = False
    with pytest.raises(UsageError, match="writable"):
        stages.compile("invert()")(images, out=out)
    assert not out.any()
