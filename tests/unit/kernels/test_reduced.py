"""Windows of JPEG files that are decoded at 1/2, 1/4 or 1/8 of their size: `decode(reduced=True)`."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from window_images import KINDS, assert_rounded, cut, jpeg, picture, resized, saved

from tfhet import stages

FULL, REDUCED = "decode(accurate=True); ", "decode(accurate=True, reduced=True); "
SIZE = (333, 415)
BOXES = [(16, 32, 128, 128), (17, 31, 129, 135), (100, 201, 131, 214), (205, 287, 128, 128), (1, 8, 250, 160)]
BOXES += [(place, 3 * place, 128 + place, 128 + place // 2) for place in range(0, 60, 7)]
"""Windows for results of 128 / by pixels, which are reduced by `by`."""


def draft(content: bytes, by: int, channels: int = 3) -> np.ndarray:
    """Returns an image that Pillow decodes at 1 / by of its size."""
    image, mode = Image.open(io.BytesIO(content)), "L" if channels == 1 else "RGB"
    columns, rows = image.size
    image.draft(mode, (max(1, columns // by), max(1, rows // by)))
    pixels = np.asarray(image.convert(mode)).reshape(image.height, image.width, channels)
    assert pixels.shape[:2] == (-(-rows // by), -(-columns // by))
    return pixels


def check(content: bytes, by: int, channels: int = 3) -> None:
    """Checks windows of a file of SIZE against Pillow's image at 1 / by of the size."""
    small, side = draft(content, by, channels), 128 // by
    decode = f"decode({channels}, accurate=True, reduced=True); "
    for antialias in (False, True):
        ours = cut([content] * len(BOXES), BOXES, side, side, antialias=antialias, decode=decode)
        for image, box in zip(ours, BOXES, strict=True):
            assert_rounded(image, resized(small, np.array(box) / by, side, side, antialias))


@pytest.mark.parametrize("by", [2, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_reduced_window_equals_pillows_draft(kind, by):
    content = jpeg(*SIZE, **KINDS[kind])
    check(content, by)
    check(content, by, channels=1)


def with_samplings(factors: list[tuple[int, int]]) -> bytes:
    """Returns a JPEG whose components have these horizontal and vertical factors, each in a scan of its own."""
    rows, columns = SIZE
    most_across, most_down = np.max(factors, axis=0)
    planes = np.asarray(Image.fromarray(picture(*SIZE)).convert("YCbCr"))
    scans, sizes = b"", b""
    for at, (across, down) in enumerate(factors):
        size = int(-(-columns * across // most_across)), int(-(-rows * down // most_down))
        plane = np.asarray(Image.fromarray(planes[..., at]).resize(size, Image.Resampling.BOX))
        grey = saved(plane, "JPEG", "L", quality=90)
        frame, scan = grey.index(b"\xff\xc0"), grey.index(b"\xff\xda")
        scans += b"\xff\xda\x00\x08\x01" + bytes([at + 1, 0, 0, 63, 0]) + grey[scan + 10 : -2]
        sizes += bytes([at + 1, across << 4 | down, 0])
    header = b"\xff\xc0\x00\x11\x08" + rows.to_bytes(2, "big") + columns.to_bytes(2, "big") + b"\x03" + sizes
    return grey[:frame] + header + grey[frame + 13 : scan] + scans + b"\xff\xd9"


@pytest.mark.parametrize("luma", [(4, 1), (4, 2), (1, 2), (1, 4), (2, 2)])
def test_rare_samplings_are_reduced_exactly(luma):
    content = with_samplings([luma, (1, 1), (1, luma[1])])
    for by in (2, 4, 8):
        check(content, by)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 2), (7, 3), (16, 16), (17, 33), (15, 64)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_small_images_are_reduced_exactly(size, subsampling):
    content = jpeg(*size, subsampling=subsampling)
    by = max(by for by in (1, 2, 4, 8) if by <= min(size))
    (ours,) = cut([content], (0, 0, *size), 1, 1, antialias=True, decode=REDUCED)
    assert_rounded(ours, resized(draft(content, by), np.array((0, 0, *size)) / by, 1, 1, True))


@pytest.mark.parametrize("by", [2, 4, 8])
@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
def test_pixel_is_the_mean_of_the_full_ones(mode, by):
    content, box = jpeg(320, 416, mode, subsampling=0), (0, 0, 320, 416)
    (ours,) = cut([content], box, 320 // by, 416 // by, decode=REDUCED)
    (full,) = cut([content], box, 320, 416, decode=FULL)
    differences = ours - full.reshape(320 // by, by, 416 // by, by, 3).mean(axis=(1, 3))
    # The full levels are rounded and cut.
    assert np.abs(differences).mean() < 0.7 and abs(differences.mean()) < 0.1


RAMP_BOXES = np.array([(0, 0, 251, 243), (3, 5, 200, 180), (50, 41, 200, 201), (100, 90, 135, 130)])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("side", [60, 32, 16])
def test_reduced_window_is_not_shifted(orientation, side):
    """A shift by a pixel raises a ramp by a level and lowers a falling ramp; rounding raises both."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    for axis in (0, 1):
        places = np.indices((251, 243) if orientation < 5 else (243, 251))
        ramp = np.uint8(np.rint(0.9 * places[axis] + 0.1 * places[1 - axis]))
        files = [saved(each, "JPEG", "L", quality=100, exif=exif) for each in (ramp, 255 - ramp)]

        def rising(boxes: np.ndarray, decode: str, files: list[bytes] = files) -> np.ndarray:
            flips, boxes = [0, 1] * len(boxes), np.repeat(boxes, 2, axis=0)
            cuts = [cut([f] * len(boxes), boxes, side, side, flips=flips, antialias=True, decode=decode) for f in files]
            up, down = (images[:, 2:-2, 2:-2].mean((1, 2, 3)) for images in cuts)  # pixels beyond a window's edge count
            return (up - down) / 2

        assert np.abs(rising(RAMP_BOXES, REDUCED) - rising(RAMP_BOXES, FULL)).max() < 0.15
        moved = RAMP_BOXES[1:] + [0.5, 0.5, 0, 0]
        assert np.abs(rising(moved, REDUCED) - rising(RAMP_BOXES[1:], FULL)).min() > 0.2


def test_only_large_windows_of_jpegs_change():
    box, side = (10, 20, 127, 200), 64
    large = jpeg(*SIZE)
    files = [saved(picture(*SIZE), kind) for kind in ("PNG", "BMP", "WEBP", "GIF")]
    assert (cut(files, (0, 0, *SIZE), decode=REDUCED) == cut(files, (0, 0, *SIZE), decode=FULL)).all()
    for content in (large, jpeg(*SIZE, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0")):
        assert (cut([content], box, side, side, decode=REDUCED) == cut([content], box, side, side, decode=FULL)).all()
    text = "decode(reduced={}); random_resized_crop(32, 24); random_flip()"
    full, reduced = (stages.compile(text.format(flag)) for flag in (False, True))
    alone = stages.compile(text.format(True), fuse=False)
    assert (alone([large], ids=[3]) == stages.compile(text.format(False), fuse=False)([large], ids=[3])).all()
    assert (reduced([large], ids=[3]) != full([large], ids=[3])).any()
    boxes = [chain.parameters([large] * 9, ids=np.arange(9)) for chain in (full, reduced)]
    for name, drawn in boxes[0].items():
        np.testing.assert_array_equal(boxes[1][name], drawn)
