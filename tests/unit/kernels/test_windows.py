"""Windows of image files and of decoded images: cut and resized as the whole image is; and damaged files."""

from __future__ import annotations

import numpy as np
import pytest
from window_images import KINDS, assert_rounded, cut, jpeg, picture, resized, saved, whole

from tfhet import stages
from tfhet.errors import UsageError

BOXES = [(0, 0, 93, 141), (16, 32, 40, 48), (17, 31, 33, 50), (92, 140, 1, 1), (0, 100, 93, 41), (50, 0, 7, 141)]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_window_equals_cutting_and_resizing_the_whole(kind, channels, antialias):
    content = jpeg(**KINDS[kind])
    ours = cut([content] * 6, BOXES, antialias=antialias, decode=f"decode({channels}, accurate=True); ")
    for image, box in zip(ours, BOXES, strict=True):
        assert_rounded(image, resized(whole(content, channels), box, antialias=antialias))
    quick = f"decode({channels}); "
    (full,) = cut([content], BOXES[0], 93, 141, decode=quick, fuse=False)
    for image, box in zip(cut([content] * 6, BOXES, antialias=antialias, decode=quick), BOXES, strict=True):
        assert_rounded(image, resized(full, box, antialias=antialias))


@pytest.mark.parametrize("decode", ["decode(); ", "decode(accurate=True); "])
@pytest.mark.parametrize("kind", ["4:2:0", "4:2:2", "progressive"])
def test_every_offset_gives_exact_pixels(kind, decode):
    content = jpeg(**KINDS[kind])
    (full,) = cut([content], BOXES[0], 93, 141, decode=decode, fuse=False)
    assert "accurate" not in decode or (full == whole(content)).all()
    for offset in range(40):
        (ours,) = cut([content], (offset, offset + 3, 20, 28), 20, 28, decode=decode)
        assert (ours == full[offset : offset + 20, offset + 3 : offset + 31]).all(), offset


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 2), (7, 3), (16, 16), (17, 33)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_small_images_are_decoded_exactly(size, subsampling):
    content = jpeg(*size, subsampling=subsampling)
    assert (cut([content], (0, 0, *size), *size)[0] == whole(content)).all()


@pytest.mark.parametrize("quality", [1, 50, 100])
@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"subsampling": 0}, {"mode": "L"}])
def test_codes_of_any_length_are_read(quality, options):
    """Noise at the best quality takes the longest codes, a rough image whole blocks of nothing."""
    noise = np.random.default_rng(quality).integers(0, 256, (120, 90, 3), np.uint8)
    for content in (saved(noise, "JPEG", quality=quality, **options), jpeg(120, 90, quality=quality, **options)):
        assert (cut([content], (0, 0, 120, 90), 120, 90)[0] == whole(content)).all()
        assert (cut([content], (66, 50, 30, 20), 30, 20)[0] == whole(content)[66:96, 50:70]).all()


@pytest.mark.parametrize("antialias", [False, True])
def test_windows_are_flipped(antialias):
    for images in ([jpeg()] * 6, np.stack([picture(93, 141)] * 6)):
        straight = cut(images, BOXES, antialias=antialias)
        ours = cut(images, BOXES, antialias=antialias, flips=[0, 1] * 3)
        assert (ours[::2] == straight[::2]).all()
        assert np.abs(np.int32(ours[1::2]) - straight[1::2, :, ::-1]).max() <= 1


@pytest.mark.parametrize("antialias", [False, True])
def test_unconfined_window_uses_pixels_around_it(antialias):
    content = jpeg(seed=3)
    (ours,) = stages.compile(f"decode(accurate=True); resized_center_crop(32, 24, 46, antialias={antialias})")(
        [content]
    )
    assert_rounded(ours, resized(whole(content), BOXES[0], 46, 69, antialias)[7:39, 22:46])


def test_four_inks_are_cut_as_the_whole():
    for content in (jpeg(mode="CMYK"), without_segments(jpeg(mode="CMYK"), b"\xff\xee")):
        (full,) = cut([content], BOXES[0], 93, 141, fuse=False)
        assert (cut([content], (10, 20, 30, 40), 30, 40)[0] == full[10:40, 20:60]).all()


def without_segments(content: bytes, marker: bytes) -> bytes:
    while (place := content.find(marker)) >= 0:
        content = content[:place] + content[place + 2 + int.from_bytes(content[place + 2 : place + 4], "big") :]
    return content


def test_other_formats_are_cut():
    kinds, boxes = ["JPEG", "PNG", "BMP", "GIF"], [(3, 4, 30, 20), (3, 4, 30, 20), (0, 0, 40, 50), (5, 5, 20, 20)]
    files = [saved(picture(40, 50), kind) for kind in kinds]
    for content, box, flip, ours in zip(files, boxes, [0, 1, 0, 1], cut(files, boxes, flips=[0, 1, 0, 1]), strict=True):
        exact = resized(whole(content), box)
        assert_rounded(ours, exact[:, ::-1] if flip else exact)


def test_sizes_are_read_behind_other_segments():
    content = jpeg(33, 71, comment=b"\xff\xc0" * 300, exif=b"Exif\0\0" + bytes(500))
    assert (stages.compile("decode(accurate=True); resize(33, 71)")([content])[0] == whole(content)).all()


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("size", "channels"), [((12, 12), 3), ((33, 5), 1), ((1, 1), 2), ((80, 104), 4), ((33, 5), 3), ((17, 23), 3)]
)
def test_window_of_a_batch_is_cut_and_resized(antialias, dtype, size, channels):
    boxes = [(0, 0, 40, 52), (3, 7, 20, 16), (39, 51, 1, 1), (10, 0, 30, 52), (0, 13, 2, 30), (5, 5, 12, 12)]
    images = np.random.default_rng(4).integers(0, 256, (6, 40, 52, channels)).astype(dtype)
    for image, box, ours in zip(images, boxes, cut(images, boxes, *size, antialias=antialias), strict=True):
        exact = resized(image, box, *size, antialias)
        assert ours.dtype == dtype
        assert np.abs(ours - exact).max() < (0.502 if dtype == "uint8" else 2e-3)


@pytest.mark.parametrize(("size", "channels"), [((1, 1), 3), ((1, 7), 1), ((5, 1), 3), ((2, 2), 3)])
@pytest.mark.parametrize("antialias", [False, True])
def test_tiny_images_are_enlarged(size, channels, antialias):
    images = np.random.default_rng(4).uniform(0, 255, (2, *size, channels)).astype(np.float32)
    for image, ours in zip(images, cut(images, (0, 0, *size), 6, 9, antialias=antialias), strict=True):
        np.testing.assert_allclose(ours, resized(image, (0, 0, *size), 6, 9, antialias), atol=1e-3)


@pytest.mark.parametrize("form", ["file", "uint8", "float32"])
def test_empty_batch_has_its_shape(form):
    empty = cut([] if form == "file" else np.zeros((0, 20, 30, 3), form), np.zeros((0, 4)), 8, 9)
    assert empty.shape == (0, 8, 9, 3) and empty.dtype == ("float32" if form == "float32" else "uint8")


# --- what is refused, and what is damaged ---


@pytest.mark.parametrize(
    "box", [(0, 0, 94, 141), (-1, 0, 20, 20), (0, 0, 0, 20), (0, np.nan, 20, 20), (0, 0, 20, np.inf), (1e300, 0, 1, 1)]
)
def test_window_outside_its_image_is_refused(box):
    for images in ([jpeg()] * 2, np.zeros((2, 93, 141, 3), np.uint8)):
        with pytest.raises(UsageError, match=r"windows\[1\].* 93 x 141 pixels"):
            cut(images, [BOXES[0], box])


def with_size(content: bytes, rows: int, columns: int) -> bytes:
    place = content.index(b"\xff\xc0") + 5
    return content[:place] + rows.to_bytes(2, "big") + columns.to_bytes(2, "big") + content[place + 4 :]


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (lambda content: content[: len(content) // 2], "data end"),
        (lambda content: content[:200], "no size|data end"),
        (lambda content: content[:3], "no size"),
        (lambda content: content.replace(b"\xff\xdb", b"\xff\xdd"), "Bogus|quantization"),
        (lambda content: with_size(content, 30000, 30000), "too large"),
        (lambda content: with_size(content, 0, 30), "no size"),
    ],
)
def test_broken_file_is_named_by_its_place(broken, complaint):
    good, bad = jpeg(), broken(jpeg())
    with pytest.raises(UsageError, match=rf"contents\[2\].*({complaint})"):
        cut([good, good, bad, good], [(0, 0, 20, 20), (0, 0, 20, 20), BOXES[0], (0, 0, 20, 20)])
    assert cut([good], BOXES[0]).any()  # the decompressor works again


def test_quantisers_are_not_taken_from_another_image():
    with pytest.raises(UsageError, match=r"contents\[1\].*Quantization table"):
        cut([jpeg(), without_segments(jpeg(), b"\xff\xdb")], [(0, 0, 9, 9)] * 2)


def test_files_that_are_no_images_are_refused():
    for content in (b"", b"\xff\xd8", b"not an image", b"\x89PNG\r\n\x1a\n"):
        for text in ("decode(); resize(9, 9)", "decode(); random_resized_crop(9, 9); random_flip()"):
            with pytest.raises(UsageError, match=r"contents\[0\] (states no size|is no image file)"):
                stages.compile(text)([content], ids=[0])


@pytest.mark.parametrize("kind", ["4:2:0", "progressive", "restarts", "grey"])
def test_damaged_files_never_crash(kind):
    """Bytes changed, cut out or cut off at random places: an error or some image, never a crash."""
    content, random = jpeg(61, 77, **KINDS[kind]), np.random.default_rng(11)
    complaints, made = [], 0
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
        decode = f"decode({3 if round_ % 3 else 1}, reduced={round_ % 4 > 1})"
        text = f"{decode}; random_resized_crop(16, 12, antialias={bool(round_ % 2)})"
        try:
            stages.compile(text)([bytes(damaged)], ids=[round_])
            made += 1
        except UsageError as failure:
            complaints.append(str(failure))
    assert made > 10 and len(complaints) > 10
    assert all(complaint.startswith("contents[0] ") for complaint in complaints)
    assert (cut([content], (0, 0, 61, 77), 61, 77)[0] == whole(content)).all()
