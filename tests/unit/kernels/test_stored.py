"""Images stored decoded (TFI files): the pixels of the files they were made of, windows of them, and damaged ones."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image
from window_images import assert_rounded, cut, jpeg, picture, resized, saved, whole

from tfhet import stages
from tfhet.errors import DataError, UsageError
from tfhet.kernels import store_image

SIZE = (93, 141)
SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 4), (4, 5), (5, 5), (16, 16), (17, 33), SIZE]
PLANAR = {"4:2:0": {"subsampling": 2}, "progressive": {"subsampling": 2, "progressive": True}, "grey": {"mode": "L"}}
"""JPEG files whose planes are stored as they are."""
BOXES = [(0, 0, 93, 141), (16, 32, 40, 48), (17, 31, 33, 50), (92, 140, 1, 1), (0, 100, 93, 41), (50, 0, 7, 141)]


def decoded(content: bytes, size: tuple[int, int] = SIZE, channels: int = 3, *, accurate=False, fuse=False):
    decode = f"decode({channels}, accurate={accurate}); "
    return cut([content], (0, 0, *size), *size, decode=decode, fuse=fuse)[0]


def turned(code: int, size: tuple[int, int] = SIZE, kind: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = code
    return saved(picture(*size), kind, exif=exif, **({"subsampling": 2} if kind == "JPEG" else {}))


def header(height: int, width: int, kind: int = 1, version: int = 1, more: int = 0) -> bytes:
    return b"\x93TFI" + struct.pack("<BBHII", version, kind, more, height, width)


@pytest.mark.parametrize("accurate", [False, True])
@pytest.mark.parametrize("kind", PLANAR)
@pytest.mark.parametrize("size", SIZES)
def test_planes_of_jpeg_equal_its_decoding(size, kind, accurate):
    content = jpeg(*size, **PLANAR[kind])
    stored = store_image(content, "yuv420", accurate=accurate)
    halves = (size[0] + 1) // 2 * ((size[1] + 1) // 2)
    assert len(stored) == 16 + size[0] * size[1] + 2 * halves
    for channels in (1, 3):
        for fuse in (False, True):
            ours = decoded(stored, size, channels, fuse=fuse)
            np.testing.assert_array_equal(ours, decoded(content, size, channels, accurate=accurate))
            if accurate:
                np.testing.assert_array_equal(ours, whole(content, channels))


OTHERS = {
    "PNG": lambda: saved(picture(*SIZE), "PNG"),
    "WebP": lambda: saved(picture(*SIZE), "WEBP", lossless=True),
    "4:4:4": lambda: jpeg(subsampling=0),
    "4:2:2": lambda: jpeg(subsampling=1),
    "CMYK": lambda: jpeg(mode="CMYK"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_colours_of_other_files_are_halved(name):
    content = OTHERS[name]()
    rgb = decoded(content)
    stored = np.frombuffer(store_image(content, "yuv420"), np.uint8)[16:]
    planes = np.asarray(Image.fromarray(rgb).convert("YCbCr")).astype(int)
    height, width = SIZE
    assert np.abs(stored[: height * width].reshape(SIZE) - planes[..., 0]).max() <= 1
    padded = np.pad(planes, ((0, 1), (0, 1), (0, 0)), "edge").reshape(47, 2, 71, 2, 3).mean((1, 3))
    halves = stored[height * width :].reshape(2, 47, 71)
    assert np.abs(halves - np.moveaxis(padded[..., 1:], 2, 0)).max() <= 1.5


@pytest.mark.parametrize("name", [*OTHERS, *PLANAR])
def test_rgb_equals_decoding(name):
    content = OTHERS[name]() if name in OTHERS else jpeg(**PLANAR[name])
    stored = store_image(content, "rgb")
    assert len(stored) == 16 + 3 * SIZE[0] * SIZE[1]
    for fuse in (False, True):
        np.testing.assert_array_equal(decoded(stored, fuse=fuse), decoded(content))
    red, green, blue = np.moveaxis(decoded(content).astype(np.uint32), 2, 0)
    grey = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
    np.testing.assert_array_equal(decoded(stored, channels=1)[..., 0], grey)


@pytest.mark.parametrize("code", range(1, 9))
@pytest.mark.parametrize("size", [(40, 56), (41, 55)])
def test_stored_images_are_upright(code, size):
    shape = size[::-1] if code >= 5 else size
    for kind in ("JPEG", "PNG"):
        upright = decoded(turned(code, size, kind), shape)
        rgb, yuv = (store_image(turned(code, size, kind), name) for name in ("rgb", "yuv420"))
        np.testing.assert_array_equal(decoded(rgb, shape), upright)
        difference = np.abs(decoded(yuv, shape).astype(int) - upright)
        # A turn of planes of even sides changes the rounding of colours only.
        assert difference.max() <= (2 if kind == "JPEG" and size == (40, 56) else 255)
        assert difference.mean() < (3 if kind == "JPEG" else 5)


@pytest.mark.parametrize("kind", ["yuv420", "rgb"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_window_equals_cutting_and_resizing_the_whole(kind, antialias, channels):
    stored = store_image(jpeg(subsampling=2), kind)
    decode, full = f"decode({channels}); ", decoded(stored, channels=channels)
    ours = cut([stored] * 6, BOXES, antialias=antialias, decode=decode, flips=[0, 1] * 3)
    apart = cut([stored] * 6, BOXES, antialias=antialias, decode=decode, flips=[0, 1] * 3, fuse=False)
    for image, box, flip in zip(ours, BOXES, [0, 1] * 3, strict=True):
        exact = resized(full, box, antialias=antialias)
        assert_rounded(image, exact[:, ::-1] if flip else exact)
    assert np.abs(ours.astype(int) - apart).max() <= 1


@pytest.mark.parametrize("kind", ["yuv420", "rgb"])
def test_every_offset_gives_exact_pixels(kind):
    content = jpeg(subsampling=2)
    stored, full = store_image(content, kind), decoded(content)
    for offset in range(20):
        (ours,) = cut([stored], (offset, offset + 3, 21, 27), 21, 27, decode="decode(); ")
        np.testing.assert_array_equal(ours, full[offset : offset + 21, offset + 3 : offset + 30])


@pytest.mark.parametrize(
    "text", ["imagenet-train", "decode(reduced=True); resized_center_crop(20, 20, 23); randaugment()"]
)
def test_chains_give_the_same_images_as_for_jpeg(text):
    files = [jpeg(*size, subsampling=2, seed=seed) for seed, size in enumerate([(60, 80), (31, 33), (200, 190)])]
    stored = [store_image(content, kind) for content, kind in zip(files, ("yuv420", "rgb", "yuv420"), strict=True)]
    chain = stages.compile(text.replace("reduced=True", ""))
    np.testing.assert_array_equal(stages.compile(text)(stored, ids=range(3)), chain(files, ids=range(3)))


@pytest.mark.parametrize(("size", "expected"), [((93, 141), (33, 50)), ((141, 93), (50, 33)), ((50, 20), (50, 20))])
def test_long_sides_are_reduced(size, expected):
    content = jpeg(*size)
    image = Image.fromarray(whole(content)).resize(expected[::-1], Image.Resampling.BILINEAR)
    for kind, most in (("rgb", 1), ("yuv420", 255)):
        ours = decoded(store_image(content, kind, 50, accurate=True), expected)
        difference = np.abs(ours.astype(int) - np.asarray(image))
        assert difference.max() <= most and difference.mean() < 8
    assert decoded(store_image(jpeg(1, 300), "yuv420", 10), (1, 10)).any()


@pytest.mark.parametrize("kind", ["yuv420", "rgb"])
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda content: content[:-1], "data end"),
        (lambda content: content + b"\0", "bytes follow"),
        (lambda content: content[:15], "no size|data end"),
        (lambda content: content[:4], "no size|data end"),
        (lambda content: header(93, 141, kind=content[5], version=2) + content[16:], "no size|version"),
        (lambda content: header(93, 141, kind=3) + content[16:], "no size|kind"),
        (lambda content: header(93, 141, kind=content[5], more=1) + content[16:], "no size|damaged"),
        (lambda content: header(0, 141, content[5]) + content[16:], "no size|pixels"),
        (lambda content: header(94, 141, content[5]) + content[16:], "data end"),
        (lambda content: header(2**32 - 1, 2**32 - 1, content[5]) + content[16:], "no size|too large"),
        (lambda content: header(2**15, 2**15, content[5]) + content[16:], "no size|too large"),
        (lambda content: header(2**14, 2**14, content[5]) + content[16:], "data end"),
    ],
)
def test_damaged_files_are_refused(kind, damage, complaint):
    stored = store_image(jpeg(subsampling=2), kind)
    for text in ("decode(); resize(9, 9)", "decode(1); resize(9, 9)"):
        for fuse in (False, True):
            with pytest.raises(UsageError, match=rf"contents\[1\] .*({complaint})"):
                stages.compile(text, fuse=fuse)([stored, damage(stored)])
    with pytest.raises(DataError, match="TFI image"):
        store_image(damage(stored), kind)


def test_stored_images_are_stored_again():
    stored = store_image(jpeg(subsampling=2), "yuv420")
    np.testing.assert_array_equal(decoded(store_image(stored, "rgb")), decoded(stored))


def test_files_that_cannot_be_stored_are_refused():
    content = jpeg(subsampling=2)
    for broken in (b"", b"text", content[: len(content) // 2], content[:100]):
        for kind in ("yuv420", "rgb"):
            with pytest.raises(DataError, match=r"contents\[0\]"):
                store_image(broken, kind)
    with pytest.raises(UsageError, match="yuv420, rgb, not 'png'"):
        store_image(content, "png")
    with pytest.raises(UsageError, match="at least 1 pixel, not 0"):
        store_image(content, "rgb", 0)


def test_sixteen_bit_png_keeps_the_upper_eight():
    file, values = io.BytesIO(), np.random.default_rng(0).integers(0, 2**16, (9, 12), np.uint16)
    Image.fromarray(values).save(file, "PNG")
    np.testing.assert_array_equal(decoded(store_image(file.getvalue(), "yuv420"), (9, 12))[..., 0], values >> 8)
