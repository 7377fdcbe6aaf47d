"""Decoding as a stage, and the stages that take windows of what it gives."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet.errors import UsageError
from tfhet.stages import (
    Decode,
    ImageSpec,
    Normalize,
    RandomFlip,
    RandomResizedCrop,
    Resize,
    ResizedCenterCrop,
    decoding,
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


def contents() -> tf.Tensor:
    return tf.constant([tf.io.encode_jpeg(picture(*size), quality=95).numpy() for size in SIZES])


def whole(index: int) -> np.ndarray:
    return tf.io.decode_jpeg(contents()[index]).numpy()


def keys(stage, count: int = 4) -> tf.Tensor:
    return randomness.keys(3, stage.name, 1, 0, tf.range(count, dtype=tf.int64))


def both_ways(stage, drawn) -> list[np.ndarray]:
    """Decoded whole and then cut; and no more decoded than the window."""
    windows = stage.windows(drawn, decoding.sizes(contents()))
    direct = decoding.decode_windows(contents(), windows, None, stage.scaling, 3)
    return [stage.apply(Decode().apply(contents(), {}), drawn).numpy(), direct.numpy()]


def test_files_become_images_of_many_sizes():
    assert ImageSpec(None, None, 0, "encoded", 0.0, 255.0) == ENCODED
    assert (ENCODED.form, RAGGED.form) == ("encoded", "ragged")
    assert ENCODED.tensor == tf.TensorSpec([None], tf.string)
    assert ENCODED.example_bytes is None and RAGGED.example_bytes is None
    assert ImageSpec(None, None, 3, "uint8", 0.0, 255.0, ragged=True) == RAGGED
    images = Decode().apply(contents(), {})
    assert images.dtype == tf.uint8 and RAGGED.tensor.shape.is_compatible_with(images.shape)
    for index, image in enumerate(images):
        assert (image.to_tensor().numpy() == whole(index)).all()


def test_grey_files_and_animations_are_decoded():
    file = io.BytesIO()
    frames = [Image.fromarray(picture(20, 30)), Image.fromarray(picture(20, 31)).resize((30, 20))]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    assert Decode(1).spec(ENCODED).channels == 1
    assert Decode(1).apply(contents()[:1], {})[0].to_tensor().shape == (40, 50, 1)
    assert Decode().apply(tf.constant([file.getvalue()]), {})[0].to_tensor().shape == (20, 30, 3)


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
    stages = parse("decode(); random_resized_crop(64, 64, antialias=True); random_flip()")
    assert parse(text(stages)) == stages


@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_many_sizes_resize_like_tensorflow(antialias):
    for made in both_ways(Resize(20, 24, antialias=antialias), {}):
        for index in range(4):
            exact = tf.image.resize(whole(index), [20, 24], antialias=antialias)
            assert np.abs(made[index] - exact).max() < 0.51


@pytest.mark.parametrize("antialias", [False, True])
def test_random_part_does_not_depend_on_other_sizes(antialias):
    stage = RandomResizedCrop(20, 24, antialias=antialias)
    drawn = stage.parameters(keys(stage), RAGGED)
    assert {name: value.shape.as_list() for name, value in drawn.items()} == {
        "areas": [4, 10],
        "ratios": [4, 10],
        "places": [4, 2],
    }
    windows = stage.windows(drawn, decoding.sizes(contents())).numpy()
    for made in both_ways(stage, drawn):
        for index, size in enumerate(SIZES):
            known = stage.parameters(keys(stage), ImageSpec(*size, 3, "uint8", 0.0, 255.0))
            assert known["box"].numpy()[index].tolist() == windows[index].tolist()
            top, left, rows, columns = known["box"].numpy()[index]
            part = whole(index)[top : top + rows, left : left + columns]
            assert np.abs(made[index] - tf.image.resize(part, [20, 24], antialias=antialias)).max() < 0.51


def test_windows_are_decoded_in_a_graph():
    stage = RandomResizedCrop(20, 24)

    def prepare(batch):
        drawn = stage.parameters(keys(stage, 2), RAGGED)
        whole_first = stage.apply(Decode().apply(batch, {}), drawn)
        windows = stage.windows(drawn, decoding.sizes(batch))
        return whole_first, decoding.decode_windows(batch, windows, None, stage.scaling)

    made = tf.data.Dataset.from_tensor_slices(contents()).batch(2).map(prepare)
    for first, second in made:
        assert first.shape == second.shape == (2, 20, 24, 3)
        assert np.abs(np.int32(first) - np.int32(second)).max() <= 1
