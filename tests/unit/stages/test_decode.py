"""Decoding as a stage, and the stages that take windows of what it gives."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import (
    Decode,
    ImageSpec,
    Normalize,
    RandomFlip,
    RandomResizedCrop,
    Resize,
    ResizedCenterCrop,
    parse,
    randomness,
    text,
)

ENCODED = ImageSpec.of(tf.TensorSpec([None], tf.string))
RAGGED = Decode().spec(ENCODED)
SIZES = [(40, 50), (61, 33), (52, 52), (30, 90)]


def picture(rows: int, columns: int) -> np.ndarray:
    grid = np.random.default_rng(rows * columns).integers(0, 256, (rows // 8 + 2, columns // 8 + 2, 3))
    return np.asarray(Image.fromarray(grid.astype(np.uint8)).resize((columns, rows), Image.Resampling.BICUBIC))


def contents() -> list[bytes]:
    return [tf.io.encode_jpeg(picture(*size), quality=95).numpy() for size in SIZES]


def whole(index: int, channels: int = 3) -> np.ndarray:
    return tf.io.decode_jpeg(contents()[index], channels).numpy()


def both_ways(stage: str) -> list[np.ndarray]:
    """Decoded whole and then cut; and no more decoded than the window."""
    return [stages.compile(f"decode(); {stage}", fuse=fuse)(contents(), ids=range(4), seed=3) for fuse in (False, True)]


def test_files_become_images_of_many_sizes():
    assert ImageSpec(None, None, 0, "encoded", 0.0, 255.0) == ENCODED
    assert (ENCODED.form, RAGGED.form) == ("encoded", "ragged")
    assert ENCODED.tensor == tf.TensorSpec([None], tf.string)
    assert ENCODED.example_bytes is None and RAGGED.example_bytes is None
    assert ImageSpec(None, None, 3, "uint8", 0.0, 255.0, ragged=True) == RAGGED
    assert Decode(1).spec(ENCODED).channels == 1
    for index, size in enumerate(SIZES):
        for channels in (1, 3):
            (image,) = stages.compile((Decode(channels), Resize(*size)))(contents()[index : index + 1])
            np.testing.assert_array_equal(image, whole(index, channels))


def test_animation_is_its_first_frame():
    file = io.BytesIO()
    frames = [Image.fromarray(picture(20, 30)), Image.fromarray(picture(20, 31)).resize((30, 20))]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    (image,) = stages.compile("decode(); resize(20, 30)")([file.getvalue()])
    np.testing.assert_array_equal(image, np.asarray(Image.open(file).convert("RGB")))


@pytest.mark.parametrize(
    "stage", [RandomFlip(), Normalize(), parse("center_crop(20, 20)")[0], parse("pad(2)")[0], Decode()]
)
def test_only_a_stage_of_one_size_may_follow(stage):
    with pytest.raises(UsageError, match=f"stage {stage.name}: .*put|stage decode: .*already decoded"):
        stage.admit(RAGGED)


@pytest.mark.parametrize("stage", [RandomResizedCrop(), Resize(), ResizedCenterCrop()])
def test_stages_of_one_size_need_decoded_images(stage):
    assert stage.spec(RAGGED) == ImageSpec(224, 224, 3, "uint8", 0.0, 255.0)
    with pytest.raises(UsageError, match=f"stage {stage.name}: .*put decode before"):
        stage.spec(ENCODED)


def test_decoding_twice_and_other_methods_are_refused():
    with pytest.raises(UsageError, match="stage decode: .*already decoded"):
        Decode().spec(ImageSpec(32, 32, 3, "uint8", 0, 255))
    with pytest.raises(UsageError, match="bilinear.* area"):
        Resize(method="area").spec(RAGGED)
    chain = parse("decode(); random_resized_crop(64, 64, antialias=True); random_flip()")
    assert parse(text(chain)) == chain


def test_stage_of_many_sizes_runs_only_in_a_chain():
    with pytest.raises(UsageError, match="stage decode: .* only in a chain"):
        Decode().apply(tf.constant(contents()), {})
    with pytest.raises(UsageError, match="stage random_resized_crop: .*run the whole chain"):
        RandomResizedCrop().parameters(np.zeros(4, np.uint64), RAGGED)


@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_many_sizes_resize_like_tensorflow(antialias):
    for made in both_ways(f"resize(20, 24, antialias={antialias})"):
        for index in range(4):
            exact = tf.image.resize(whole(index), [20, 24], antialias=antialias)
            assert np.abs(made[index] - exact).max() < 0.51


@pytest.mark.parametrize("antialias", [False, True])
def test_random_part_does_not_depend_on_other_sizes(antialias):
    text = f"random_resized_crop(20, 24, antialias={antialias})"
    (stage,) = parse(text)
    made = both_ways(text)
    boxes = stages.compile(f"decode(); {text}").parameters(contents(), ids=np.arange(4), seed=3)
    keys = randomness.keys(3, stage.name, 1, 0, np.arange(4))
    for index, size in enumerate(SIZES):
        known = stage.parameters(keys, ImageSpec(*size, 3, "uint8", 0.0, 255.0))["box"][index]
        np.testing.assert_array_equal(boxes["random_resized_crop:1/box"][index], known)
        top, left, rows, columns = known
        exact = tf.image.resize(whole(index)[top : top + rows, left : left + columns], [20, 24], antialias=antialias)
        for images in made:
            assert np.abs(images[index] - exact).max() < 0.51
