from __future__ import annotations

import dataclasses

import pytest

from tfhet.errors import UsageError
from tfhet.stages import Dilate, GaussianBlur, ImageSpec, RandomRotation, RandomZoom, Rescale

SPEC = ImageSpec(32, 32, 3, "uint8", 0.0, 255.0)


def test_a_stage_is_a_value_of_its_fields():
    assert Dilate(5) == Dilate(size=5) != Dilate(3)
    assert hash(GaussianBlur()) == hash(GaussianBlur())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dilate().size = 4  # type: ignore[misc]


def test_an_int_for_a_float_field_becomes_a_float_so_that_equal_stages_read_equal():
    assert repr(GaussianBlur(sigma=1)) == repr(GaussianBlur(sigma=1.0))
    assert type(Rescale(scale=2).scale) is float


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Dilate(size=2.5), "stage dilate: size must be int, not 2.5"),
        (lambda: Dilate(size=True), "stage dilate: size must be int, not True"),
        (lambda: Dilate(size=0), "stage dilate: size is at least 1, not 0"),
        (lambda: GaussianBlur(sigma="wide"), "stage gaussian_blur: sigma must be float, not 'wide'"),
        (lambda: GaussianBlur(sigma=0.0), "stage gaussian_blur: sigma is above 0, not 0.0"),
        (lambda: GaussianBlur(backend="opencv"), "backend .* 'opencv'; known: addons, auto, own"),
        (lambda: GaussianBlur(padding="WRAP"), "padding .* 'WRAP'; known: CONSTANT, REFLECT, SYMMETRIC"),
        (lambda: Rescale(scale=-1.0), "stage rescale: scale is above 0, not -1.0"),
        (lambda: RandomRotation(1.5), "stage random_rotation: factor is from 0 to 1, not 1.5"),
        (lambda: RandomZoom(1.0), "stage random_zoom: factor is from 0 to below 1, not 1.0"),
    ],
)
def test_a_wrong_field_is_refused_with_the_name_of_the_stage(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_a_filter_larger_than_the_image_is_refused_before_anything_runs():
    with pytest.raises(UsageError, match="gaussian_blur: a filter of 11 needs images of at least 6 pixels, not 5"):
        GaussianBlur(11).spec(ImageSpec(32, 5, 3, "uint8", 0, 255))
    assert GaussianBlur(11).spec(ImageSpec(6, 6, 3, "uint8", 0, 255)).height == 6


def test_blurring_images_of_unknown_size_is_refused():
    with pytest.raises(UsageError, match="gaussian_blur: height and width"):
        GaussianBlur().spec(ImageSpec(None, None, 3, "uint8", 0, 255))


def test_asking_for_addons_where_it_is_missing_says_what_to_do(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"backend='own', or pip install 'tfhet\[addons\]'"):
        GaussianBlur(backend="addons").spec(SPEC)
