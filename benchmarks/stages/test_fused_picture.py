"""The fused, compiled chains make the pictures of their stages in stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers.job import ANTIALIAS, LINEAR
from benchmarks.stages import fused_picture
from benchmarks.stages.forms import Form, forms, shaped
from tfhet.bench.chain import Course

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from tfhet.placement import Pipeline  # noqa: E402
from tfhet.source import (
    TFRecordSource,
    digits as digit_data,
    photos as photo_data,
)
from tfhet.stages import CHAINS  # noqa: E402
from tfhet.stages.fusion import Decoding  # noqa: E402

COUNT = 4
FORM = Form(ANTIALIAS, "float32")
ROUNDED = 1.01
"""Grey levels by which results differ that were rounded either way."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> TFRecordSource:
    return TFRecordSource.from_directory(photo_data.photos(count=COUNT, cache=tmp_path_factory.mktemp("photos")))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> TFRecordSource:
    return digit_data.repeated(tmp_path_factory.mktemp("records"), COUNT, tmp_path_factory.mktemp("digits"))


@pytest.mark.parametrize("name", CHAINS)
def test_a_fused_chain_makes_the_picture_of_its_stages_each_for_itself(
    name: str, photos: TFRecordSource, digits: TFRecordSource
) -> None:
    pipeline = Pipeline(photos if "decode" in CHAINS[name] else digits, name, COUNT, seed=3)
    apart = fused_picture.levels_apart(shaped(pipeline, FORM) if len(forms(pipeline)) > 1 else pipeline)
    assert apart.shape[0] == COUNT and (apart > ROUNDED).mean() < 5e-4
    # What is rounded before colours change may be two levels apart behind that, or beyond a threshold.
    if name != "randaugment-224":
        assert apart.max() < (2.0 if name == "imagenet-jitter" else 1.0) * ROUNDED


def test_a_fused_picture_that_is_moved_by_a_pixel_is_seen(
    photos: TFRecordSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = Decoding.run
    monkeypatch.setattr(fused_picture, "forms", lambda pipeline: [Form(LINEAR, "uint8")])
    monkeypatch.setattr(Decoding, "run", lambda *given: tf.roll(fused(*given), 1, axis=2))
    figures = fused_picture.figures_of(Course("photos", Pipeline(photos, "imagenet-eval", COUNT), COUNT, 1, 1))
    assert figures["stages.photos.fused_apart"].value > 10.0
    assert figures["stages.photos.fused_apart_beyond_one"].value > 1e5


def test_differences_are_in_grey_levels_whatever_the_chain_ends_with(digits: TFRecordSource) -> None:
    for chain, levels in (("rescale(0.5)", [2.0]), ("normalize((0.5,), (0.2, 0.4, 0.1))", [51.0, 102.0, 25.5])):
        assert np.allclose(fused_picture._levels(Pipeline(digits, chain, COUNT)), levels)
