"""Decoded windows against TensorFlow's whole images, cut and resized; and damaged files."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet import native
from tfhet.stages import decoding
from tfhet.stages.resampling import Scaling

pytestmark = pytest.mark.skipif(not native.available("jpeg"), reason="no compiler, or no libjpeg to build with")


def picture(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Colours that change smoothly, with edges: what smoothing of colours shows in."""
    random = np.random.default_rng(seed)
    small = tf.cast(random.integers(0, 256, (max(2, rows // 12), max(2, columns // 12), 3)), tf.float32)
    image = tf.image.resize(small, [rows, columns], "bicubic").numpy() + random.normal(0, 4, (rows, columns, 3))
    image[rows // 3 : rows // 2, columns // 4 : columns // 2] = (250, 20, 40)
    return np.clip(image, 0, 255).astype(np.uint8)


def jpeg(rows: int = 93, columns: int = 141, mode: str = "RGB", seed: int = 0, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture(rows, columns, seed)).convert(mode).save(file, "JPEG", **{"quality": 92, **options})
    return file.getvalue()


def decoded(contents, windows, height=32, width=24, channels=3, flips=None, **options) -> np.ndarray:
    windows, scaling = tf.constant(np.float32(windows)), Scaling(height, width, **options)
    return decoding.decode_windows(tf.constant(contents), windows, flips, scaling, channels).numpy()


def whole(content: bytes, channels: int = 3) -> np.ndarray:
    return tf.io.decode_jpeg(content, channels=channels).numpy()


def cut_and_resized(content: bytes, window, height=32, width=24, channels=3, antialias=False) -> np.ndarray:
    top, left, rows, columns = window
    part = whole(content, channels)[top : top + rows, left : left + columns]
    return tf.image.resize(part, [height, width], antialias=antialias).numpy()


def assert_rounded(ours: np.ndarray, exact: np.ndarray) -> None:
    assert ours.dtype == np.uint8
    assert np.abs(ours - np.float64(exact)).max() < 0.502


KINDS = {
    "4:2:0": {"subsampling": 2},
    "4:2:2": {"subsampling": 1},
    "4:4:4": {"subsampling": 0},
    "progressive": {"progressive": True},
    "optimised": {"optimize": True, "quality": 60},
    "restarts": {"restart_marker_blocks": 3},
    "grey": {"mode": "L"},
}
WINDOWS = [(0, 0, 93, 141), (16, 32, 40, 48), (17, 31, 33, 50), (92, 140, 1, 1), (0, 100, 93, 41), (50, 0, 7, 141)]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_window_equals_cutting_and_resizing_the_whole(kind, channels, antialias):
    content = jpeg(**KINDS[kind])
    ours = decoded([content] * len(WINDOWS), WINDOWS, channels=channels, antialias=antialias)
    for image, window in zip(ours, WINDOWS, strict=True):
        assert_rounded(image, cut_and_resized(content, window, channels=channels, antialias=antialias))


@pytest.mark.parametrize("kind", ["4:2:0", "4:2:2", "progressive"])
def test_every_offset_gives_exact_pixels(kind):
    content = jpeg(**KINDS[kind])
    full = whole(content)
    for offset in range(40):
        window = (offset, offset + 3, 20, 28)
        ours = decoded([content], [window], 20, 28)[0]
        assert (ours == full[offset : offset + 20, offset + 3 : offset + 31]).all(), offset


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 2), (7, 3), (16, 16), (17, 33)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_small_images_are_decoded_exactly(size, subsampling):
    content = jpeg(*size, subsampling=subsampling)
    assert (decoded([content], [(0, 0, *size)], *size)[0] == whole(content)).all()


@pytest.mark.parametrize("quality", [1, 50, 100])
@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"subsampling": 0}, {"mode": "L"}])
def test_codes_of_any_length_are_read(quality, options):
    """Noise at the best quality takes the longest codes, a rough image whole blocks of nothing."""
    noise = np.random.default_rng(quality).integers(0, 256, (120, 90, 3)).astype(np.uint8)
    file, options = io.BytesIO(), dict(options)
    Image.fromarray(noise).convert(options.pop("mode", "RGB")).save(file, "JPEG", quality=quality, **options)
    for content in (file.getvalue(), jpeg(120, 90, quality=quality, **options)):
        assert (decoded([content], [(0, 0, 120, 90)], 120, 90)[0] == whole(content)).all()
        assert (decoded([content], [(66, 50, 30, 20)], 30, 20)[0] == whole(content)[66:96, 50:70]).all()


def test_windows_are_flipped():
    content, flips = jpeg(), tf.constant([False, True] * 3)
    for antialias in (False, True):
        straight = decoded([content] * 6, WINDOWS, antialias=antialias)
        ours = decoded([content] * 6, WINDOWS, flips=flips, antialias=antialias)
        assert (ours[::2] == straight[::2]).all()
        assert np.abs(np.int32(ours[1::2]) - straight[1::2, :, ::-1]).max() <= 1


def test_unconfined_window_uses_pixels_around_it():
    content = jpeg(seed=3)
    full = tf.image.resize(whole(content), [46, 70], antialias=True).numpy()
    step = np.array([93 / 46, 141 / 70])
    window = (*(np.array([5, 9]) * step), *(np.array([32, 24]) * step))
    ours = decoded([content], [window], antialias=True, confined=False)[0]
    assert np.abs(ours - full[5:37, 9:33]).max() < 0.51


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("antialias", [False, True])
def test_compiled_and_plain_decoding_agree(plainly, channels, antialias):
    random = np.random.default_rng(5)
    contents = [jpeg(93, 141, seed=seed, subsampling=seed % 3, mode="L" if seed == 7 else "RGB") for seed in range(8)]
    windows = [(*random.uniform(0, 30, 2), *random.uniform(1, 60, 2)) for _ in contents]
    flips = tf.constant(random.random(8) < 0.5)
    for confined in (False, True):
        scaling = Scaling(20, 31, antialias, confined)
        arguments = (tf.constant(contents), tf.constant(np.float32(windows)), flips, scaling, channels)
        ours = decoding.decode_windows(*arguments).numpy()
        theirs = plainly(decoding.decode_windows, *arguments).numpy()
        assert np.abs(np.int32(ours) - theirs).max() <= 1
        assert (ours != theirs).mean() < 0.002


def test_cmyk_equals_tensorflow():
    for content in (jpeg(mode="CMYK"), without_adobe(jpeg(mode="CMYK"))):
        ours = decoded([content], [(10, 20, 30, 40)], 30, 40)[0]
        assert (ours == whole(content)[10:40, 20:60]).all()


def without_adobe(content: bytes) -> bytes:
    place = content.index(b"\xff\xee")
    return content[:place] + content[place + 2 + int.from_bytes(content[place + 2 : place + 4], "big") :]


def test_other_formats_are_decoded_by_tensorflow():
    image = picture(40, 50)
    contents = [jpeg(40, 50), tf.io.encode_png(image).numpy(), saved(image, "BMP"), saved(image, "GIF"), jpeg(60, 20)]
    windows = [(3, 4, 30, 20), (3, 4, 30, 20), (0, 0, 40, 50), (5, 5, 20, 20), (10, 0, 20, 20)]
    flips = tf.constant([False, True, False, True, True])
    ours = decoded(contents, windows, flips=flips)
    for index, content in enumerate(contents):
        full = tf.io.decode_image(content, channels=3, expand_animations=False).numpy()
        top, left, rows, columns = windows[index]
        exact = tf.image.resize(full[top : top + rows, left : left + columns], [32, 24]).numpy()
        assert_rounded(ours[index], exact[:, ::-1] if flips[index] else exact)
    assert decoding.sizes(tf.constant(contents)).numpy().tolist() == [[40, 50]] * 4 + [[60, 20]]


def saved(image: np.ndarray, kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def test_sizes_are_read_behind_other_segments():
    contents = [jpeg(33, 71, comment=b"\xff\xc0" * 300, exif=b"Exif\0\0" + bytes(500)), jpeg(5, 6, progressive=True)]
    assert decoding.sizes(tf.constant(contents)).numpy().tolist() == [[33, 71], [5, 6]]


def test_empty_batch_is_decoded():
    empty = decoding.decode_windows(tf.constant([], tf.string), tf.zeros([0, 4]), None, Scaling(8, 9))
    assert empty.shape == (0, 8, 9, 3)
    assert decoding.sizes(tf.constant([], tf.string)).shape == (0, 2)


@pytest.mark.parametrize(
    "window", [(0, 0, 94, 141), (-1, 0, 20, 20), (0, 0, 0, 20), (0, float("nan"), 20, 20), (0, 0, 20, float("inf"))]
)
def test_window_outside_its_image_is_refused(window):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"windows\[1\].* 93 x 141 pixels"):
        decoded([jpeg()] * 2, [(0, 0, 93, 141), window])


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (lambda content: content[: len(content) // 2], "data end"),
        (lambda content: content[:200], "no frame header|data end"),
        (lambda content: content[:3], "no frame header"),
        (lambda content: content.replace(b"\xff\xdb", b"\xff\xdd"), "Bogus|quantization"),
        (lambda content: with_size(content, 30000, 30000), "too large"),
        (lambda content: with_size(content, 0, 30), "no frame header"),
    ],
)
def test_broken_file_is_named_by_its_place(broken, complaint):
    good, bad = jpeg(), broken(jpeg())
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"contents\[2\].*({complaint})"):
        decoded([good, good, bad, good], [(0, 0, 20, 20), (0, 0, 20, 20), (0, 0, 93, 141), (0, 0, 20, 20)])
    assert decoded([good], [(0, 0, 93, 141)]).any()  # the decompressor works again


def with_size(content: bytes, rows: int, columns: int) -> bytes:
    place = content.index(b"\xff\xc0") + 5
    return content[:place] + rows.to_bytes(2, "big") + columns.to_bytes(2, "big") + content[place + 4 :]


def test_quantisers_are_not_taken_from_another_image():
    content = jpeg()
    while b"\xff\xdb" in content:
        place = content.index(b"\xff\xdb")
        content = content[:place] + content[place + 2 + int.from_bytes(content[place + 2 : place + 4], "big") :]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"contents\[1\].*Quantization table"):
        decoded([jpeg(), content], [(0, 0, 9, 9)] * 2)


def test_files_that_are_no_images_are_refused():
    for content in (b"", b"\xff\xd8", b"not an image", b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decoded([content], [(0, 0, 9, 9)])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"contents\[0\] states no size"):
            decoding.sizes(tf.constant([content]))


@pytest.mark.parametrize("kind", ["4:2:0", "progressive", "restarts", "grey"])
def test_damaged_files_never_crash(kind):
    """Bytes changed, cut out or cut off at random places: an error or some image, never a crash."""
    content, random = jpeg(61, 77, **KINDS[kind]), np.random.default_rng(11)
    refused = made = 0
    for round_ in range(250):
        damaged = bytearray(content)
        for _ in range(int(random.integers(1, 6))):
            # Half of them among the headers, which say how everything else is to be read.
            damaged[random.integers(2, 700 if round_ % 2 else len(damaged))] = random.integers(0, 256)
        if round_ % 5 == 0:
            del damaged[random.integers(2, len(damaged)) :]
        elif round_ % 5 == 1:
            begin = random.integers(2, len(damaged))
            del damaged[begin : begin + random.integers(1, 50)]
        batch = tf.constant([bytes(damaged)])
        try:
            rows, columns = decoding.sizes(batch).numpy()[0]
            window = [[rows // 3, columns // 4, max(1, rows // 2), max(1, columns // 2)]]
            decoded([bytes(damaged)], window, 16, 12, channels=1 if round_ % 3 else 3, antialias=bool(round_ % 2))
            made += 1
        except tf.errors.InvalidArgumentError:
            refused += 1
    assert made > 10 and refused > 10
    full = decoded([content], [(0, 0, 61, 77)], 61, 77)[0]
    assert (full == whole(content)).all()
