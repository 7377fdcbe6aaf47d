"""Windows of image files and of decoded images: cut and resized as the whole image is; and damaged files."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec


def picture(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Colours that change smoothly, with edges: what smoothing of colours shows in."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (max(2, rows // 12), max(2, columns // 12), 3), np.uint8)
    image = np.asarray(Image.fromarray(small).resize((columns, rows), Image.Resampling.BICUBIC))
    image = image + random.normal(0, 4, (rows, columns, 3))
    image[rows // 3 : rows // 2, columns // 4 : columns // 2] = (250, 20, 40)
    return np.clip(image, 0, 255).astype(np.uint8)


def saved(image: np.ndarray, kind: str, mode: str = "RGB", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).convert(mode).save(file, kind, **options)
    return file.getvalue()


def jpeg(rows: int = 93, columns: int = 141, mode: str = "RGB", seed: int = 0, **options) -> bytes:
    return saved(picture(rows, columns, seed), "JPEG", mode, **{"quality": 92, **options})


def cut(images, boxes, height=32, width=24, *, flips=0, antialias=False, decode="decode(accurate=True); ", fuse=True):
    """Boxes (top, left, rows, columns) of images or files, resized and flipped."""
    decode = "" if isinstance(images, np.ndarray) else decode
    text = f"{decode}random_resized_crop({height}, {width}, antialias={antialias}); random_flip()"
    spec = ImageSpec.of(images) if isinstance(images, np.ndarray) else ImageSpec.of_files()
    given = np.zeros((len(images), 5))
    given[:, :4], given[:, 4] = np.reshape(boxes, (-1, 4)), flips
    return stages.compile(text, fuse=fuse).program(spec).segments[0].chain.run(images, given=given)


def whole(content: bytes, channels: int = 3) -> np.ndarray:
    image = Image.open(io.BytesIO(content))
    if channels == 1:
        image.draft("L", image.size)
    found = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return found.reshape(*found.shape[:2], channels)


def resized(image: np.ndarray, box, height=32, width=24, antialias=False) -> np.ndarray:
    """The box in float64, by triangles; its own edge is repeated beyond it."""

    def weights(size: int, first: int, length: int, count: int) -> np.ndarray:
        step = length / count
        centres = first + (np.arange(count) + 0.5) * step
        if not antialias:
            centres = np.clip(centres, first + 0.5, first + length - 0.5)
        pixels = np.arange(size) + 0.5
        found = np.maximum(0, 1 - np.abs(pixels - centres[:, None]) / (max(step, 1) if antialias else 1))
        found *= (pixels > first) & (pixels < first + length)
        return found / found.sum(axis=1, keepdims=True)

    top, left, rows, columns = box
    down, across = weights(image.shape[0], top, rows, height), weights(image.shape[1], left, columns, width)
    return np.einsum("rh,hwc,kw->rkc", down, np.float64(image), across, optimize=True)


def assert_rounded(ours: np.ndarray, exact: np.ndarray) -> None:
    assert ours.dtype == np.uint8
    assert np.abs(ours - exact).max() < 0.502


KINDS = {
    "4:2:0": {"subsampling": 2},
    "4:2:2": {"subsampling": 1},
    "4:4:4": {"subsampling": 0},
    "progressive": {"progressive": True},
    "optimised": {"optimize": True, "quality": 60},
    "restarts": {"restart_marker_blocks": 3},
    "grey": {"mode": "L"},
}
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
        text = f"decode({3 if round_ % 3 else 1}); random_resized_crop(16, 12, antialias={bool(round_ % 2)})"
        try:
            stages.compile(text)([bytes(damaged)], ids=[round_])
            made += 1
        except UsageError as failure:
            complaints.append(str(failure))
    assert made > 10 and len(complaints) > 10
    assert all(complaint.startswith("contents[0] ") for complaint in complaints)
    assert (cut([content], (0, 0, 61, 77), 61, 77)[0] == whole(content)).all()
