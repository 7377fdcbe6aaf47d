"""Whole images decoded by kernels/codecs.cc, against TensorFlow and Pillow; and damaged files."""

from __future__ import annotations

import ctypes
import io
import struct
import subprocess
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tfhet import kernels
from tfhet.cluster import environment

HERE = Path(__file__).parent
KERNELS = HERE.parents[2] / "tfhet" / "kernels"
LIBRARIES = {"jpeglib.h": "-ljpeg", "png.h": "-lpng", "webp/decode.h": "-lwebp"}
INVALID = 3

pytestmark = pytest.mark.skipif(not kernels.compiler(environment()), reason="no C++ compiler")


def has_header(name: str) -> bool:
    if not (compiler := kernels.compiler(environment())):
        return False
    text = f"#include <cstdio>\n#include <{name}>\n"
    command = [*compiler, "-std=c++17", "-xc++", "-E", "-"]
    return not subprocess.run(command, input=text, capture_output=True, text=True, check=False).returncode


FOUND = {name: has_header(name) for name in LIBRARIES}
needs_webp = pytest.mark.skipif(not FOUND["webp/decode.h"], reason="no libwebp to build with")


class DecodeError(Exception):
    pass


class Codecs:
    """The functions of codecs.h."""

    def __init__(self, path: Path):
        self.library = ctypes.CDLL(str(path))
        self.library.codecs_size.restype = None

    def decode(self, data, channels=3, upright=False, accurate=False, index=0) -> np.ndarray:
        size, values, text = (ctypes.c_int64 * 3)(), ctypes.POINTER(ctypes.c_uint8)(), ctypes.create_string_buffer(500)
        code = self.library.codecs_decode(
            data, ctypes.c_size_t(len(data)), ctypes.c_int64(channels), upright, accurate, ctypes.c_int64(index), size,
            ctypes.byref(values), text, ctypes.c_size_t(len(text)),
        )  # fmt: skip
        if code:
            assert code == INVALID, text.value
            raise DecodeError(text.value.decode())
        height, width, count = size
        try:
            return np.ctypeslib.as_array(values, (count,)).copy().reshape(height, width, channels)
        finally:
            self.library.codecs_free(values)

    def size(self, data: bytes) -> tuple[int, int]:
        size = (ctypes.c_int64 * 2)()
        self.library.codecs_size(data, ctypes.c_size_t(len(data)), size)
        return tuple(size)

    def orientation(self, data: bytes) -> int:
        return self.library.codecs_orientation(data, ctypes.c_size_t(len(data)))


def build(folder: Path, *flags: str, libraries: Mapping[str, bool] = FOUND) -> Codecs:
    command = [*kernels.compiler(environment()), "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    files = [str(KERNELS / "codecs.cc"), str(HERE / "codecs_shim.cc")]
    linked = [LIBRARIES[name] for name, is_found in libraries.items() if is_found]
    kernels.compile_into(folder / "codecs.so", [*command, *flags, f"-I{KERNELS}", *files, *linked])
    return Codecs(folder / "codecs.so")


@pytest.fixture(scope="module")
def codecs(tmp_path_factory) -> Codecs:
    return build(tmp_path_factory.mktemp("codecs"))


# --- image files ---


def colours(rows: int = 37, columns: int = 53, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Smooth colours, an edge, and noise."""
    random = np.random.default_rng(seed)
    y, x, c = np.ogrid[:rows, :columns, :channels]
    image = 128 + 90 * np.sin(x / (7 + c)) * np.cos(y / (9 - c)) + random.normal(0, 6, (rows, columns, channels))
    image[rows // 3 : rows // 2, columns // 4 : columns // 2] = (250, 20, 40, 90)[:channels]
    return np.clip(image, 0, 255).astype(np.uint8)


def saved(image: np.ndarray | Image.Image, form: str, mode: str = "", **options) -> bytes:
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, form, **options)
    return file.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def png(kind: int, depth: int, interlaced: bool = False, chunks: bytes = b"", size=(29, 35)) -> bytes:
    """A PNG file of random values. Pillow writes neither interlaced files nor all depths."""
    channels = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}[kind]
    values = np.random.default_rng(depth).integers(0, 1 << depth, (*size, channels))
    if kind == PALETTE:
        palette = np.random.default_rng(9).integers(0, 256, (1 << depth, 3)).astype(np.uint8)
        chunks = chunk(b"PLTE", palette.tobytes()) + chunks

    def lines(part: np.ndarray) -> bytes:
        if not part.size:
            return b""
        if depth >= 8:
            packed = [row.astype(">u2" if depth == 16 else "u1").tobytes() for row in part]
        else:
            digits = (part[..., 0, None] >> np.arange(depth)[::-1]) & 1
            packed = [np.packbits(row.reshape(-1)).tobytes() for row in digits]
        return b"".join(b"\0" + row for row in packed)

    parts = [values[top::down, left::right] for top, left, down, right in PASSES] if interlaced else [values]
    header = struct.pack(">IIBBBBB", size[1], size[0], depth, kind, 0, 0, int(interlaced))
    content = zlib.compress(b"".join(lines(part) for part in parts))
    middle = len(content) // 2
    contents = chunk(b"IDAT", content[:middle]) + chunk(b"IDAT", content[middle:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunks + contents + chunk(b"IEND", b"")


def bmp(values: np.ndarray, palette: bytes = b"", top_down: bool = False, masks: bytes = b"") -> bytes:
    """A BMP file of bytes [rows, columns, 1, 3 or 4] in the order of the file."""
    rows, columns, channels = values.shape
    line = (columns * channels + 3) // 4 * 4
    pixels = np.zeros((rows, line), np.uint8)
    pixels[:, : columns * channels] = values.reshape(rows, -1)
    start = 54 + len(palette) + len(masks)
    info = (40, columns, -rows if top_down else rows, 1, 8 * channels, 3 if masks else 0, 0, 0, 0, len(palette) // 4, 0)
    head = b"BM" + struct.pack("<IHHI", start + pixels.size, 0, 0, start) + struct.pack("<IiiHHIIiiII", *info)
    return head + masks + palette + (pixels if top_down else pixels[::-1]).tobytes()


def gif(mode: str = "P", transparent: int | None = None, **options) -> bytes:
    image = Image.fromarray(colours()).convert("L" if mode == "L" else "RGB")
    image = image if mode == "L" else image.quantize(options.pop("count", 200))
    if transparent is not None:
        options["transparency"] = transparent
    return saved(image, "GIF", **options)


def gif_at(top: int, left: int, screen: tuple[int, int]) -> bytes:
    """A GIF whose frame does not fill the screen."""
    content = bytearray(gif(interlace=0))
    content[6:10] = struct.pack("<HH", screen[1], screen[0])
    frame = bytes(content).index(b"\x2c\0\0\0\0" + struct.pack("<HH", 53, 37))
    content[frame + 1 : frame + 5] = struct.pack("<HH", left, top)
    return bytes(content)


def animation(form: str, **options) -> bytes:
    frames = [Image.fromarray(colours(seed=seed)) for seed in range(3)]
    frames[1].paste((0, 0, 0), (5, 5, 20, 20))
    return saved(frames[0], form, save_all=True, append_images=frames[1:], duration=100, **options)


def inked(transform: int) -> bytes:
    """A JPEG of four inks, by Adobe's marker: 0: CMYK; 2: YCCK."""
    content = bytearray(saved(colours(), "JPEG", "CMYK", quality=90))
    place = content.index(b"Adobe")
    content[place + 11] = transform
    return bytes(content)


def without_adobe(content: bytes) -> bytes:
    place = content.index(b"Adobe") - 4
    return content[:place] + content[place + 2 + int.from_bytes(content[place + 2 : place + 4]) :]


GAMMA = chunk(b"gAMA", struct.pack(">I", 45455))
TEXT = chunk(b"zTXt", b"note\0\0" + zlib.compress(b"a" * 100_000))
CORRUPT_TEXT = chunk(b"tEXt", b"note\0a")[:-1] + b"\0"

JPEGS: Mapping[str, Callable[[], bytes]] = {
    "4:2:0": lambda: saved(colours(), "JPEG", subsampling=2),
    "4:2:2": lambda: saved(colours(), "JPEG", subsampling=1),
    "4:4:4": lambda: saved(colours(), "JPEG", subsampling=0, quality=97),
    "grey": lambda: saved(colours(), "JPEG", "L"),
    "progressive": lambda: saved(colours(90, 130), "JPEG", progressive=True),
    "restarts": lambda: saved(colours(), "JPEG", restart_marker_blocks=2),
    "1 x 1": lambda: saved(colours(1, 1), "JPEG"),
    "RGB": lambda: saved(colours(), "JPEG", keep_rgb=True),
}
INKS: Mapping[str, Callable[[], bytes]] = {
    "CMYK": lambda: inked(0),
    "YCCK": lambda: inked(2),
    "CMYK without Adobe": lambda: without_adobe(inked(0)),
}
PNGS: Mapping[str, Callable[[], bytes]] = {
    "grey 1": lambda: png(GREY, 1),
    "grey 2": lambda: png(GREY, 2),
    "grey 4": lambda: png(GREY, 4, interlaced=True),
    "grey 8": lambda: png(GREY, 8),
    "grey 16": lambda: png(GREY, 16),
    "grey 8 with a transparent level": lambda: png(GREY, 8, chunks=chunk(b"tRNS", b"\0\x07")),
    "grey 2 with a transparent level": lambda: png(GREY, 2, chunks=chunk(b"tRNS", b"\0\2")),
    "grey and alpha 8": lambda: png(GREY_ALPHA, 8),
    "grey and alpha 16": lambda: png(GREY_ALPHA, 16, interlaced=True),
    "RGB 8": lambda: png(RGB, 8),
    "RGB 16": lambda: png(RGB, 16),
    "RGB 8 interlaced": lambda: png(RGB, 8, interlaced=True),
    "RGB 16 interlaced": lambda: png(RGB, 16, interlaced=True),
    "RGB with a transparent colour": lambda: png(RGB, 8, chunks=chunk(b"tRNS", bytes(6))),
    "RGB with gamma": lambda: png(RGB, 8, chunks=GAMMA),
    "RGB with sRGB": lambda: png(RGB, 16, chunks=chunk(b"sRGB", b"\0") + GAMMA),
    "RGB with text": lambda: png(RGB, 8, chunks=TEXT + chunk(b"quAx", b"unknown")),
    "RGB with corrupt text": lambda: png(RGB, 8, chunks=CORRUPT_TEXT),
    "RGBA 8": lambda: png(RGBA, 8),
    "RGBA 16": lambda: png(RGBA, 16),
    "palette 1": lambda: png(PALETTE, 1),
    "palette 2": lambda: png(PALETTE, 2, interlaced=True),
    "palette 4": lambda: png(PALETTE, 4),
    "palette 8": lambda: png(PALETTE, 8),
    "palette 8 with alpha": lambda: png(PALETTE, 8, chunks=chunk(b"tRNS", bytes(range(200)))),
    "by Pillow": lambda: saved(colours(), "PNG", optimize=True),
    "RGBA by Pillow": lambda: saved(colours(channels=4), "PNG"),
    "1 x 1": lambda: png(RGB, 8, size=(1, 1), interlaced=True),
}
BMPS: Mapping[str, Callable[[], bytes]] = {
    "24": lambda: saved(colours(), "BMP"),
    "24 top-down": lambda: bmp(colours(5, 7), top_down=True),
    "32": lambda: saved(colours(channels=4), "BMP"),
    "32 top-down": lambda: bmp(colours(6, 5, 4), top_down=True),
    "grey by Pillow": lambda: saved(colours(), "BMP", "L"),
    "grey without palette": lambda: bmp(colours(4, 9, 1)),
    "grey top-down": lambda: bmp(colours(4, 9, 1), top_down=True),
}
GIFS: Mapping[str, Callable[[], bytes]] = {
    "interlaced": gif,
    "not interlaced": lambda: gif(interlace=0),
    "grey": lambda: gif("L"),
    "two colours": lambda: gif(count=2),
    "17 colours": lambda: gif(count=17),
    "transparent": lambda: gif(transparent=3),
    "animated": lambda: animation("GIF"),
    "on a larger screen": lambda: gif_at(0, 0, (60, 80)),
    "beside the corner": lambda: gif_at(7, 11, (44, 64)),
    "noise": lambda: saved(np.random.default_rng(2).integers(0, 256, (120, 90), np.uint8), "GIF"),
    "long runs": lambda: saved(np.zeros((300, 200), np.uint8), "GIF"),
    "without its last byte": lambda: gif()[:-1],
}
WEBPS: Mapping[str, Callable[[], bytes]] = {
    "lossy": lambda: saved(colours(), "WEBP", quality=80),
    "lossless": lambda: saved(colours(), "WEBP", lossless=True),
    "lossy with alpha": lambda: saved(colours(channels=4), "WEBP", quality=80),
    "lossless with alpha": lambda: saved(colours(channels=4), "WEBP", lossless=True, exact=True),
    "with Exif": lambda: saved(colours(), "WEBP", exif=exif(1)),
    "1 x 1": lambda: saved(colours(1, 1), "WEBP", lossless=True),
}
BY_TENSORFLOW = {
    f"{form} {name}": make
    for form, files in (("JPEG", JPEGS), ("PNG", PNGS), ("BMP", BMPS), ("GIF", GIFS))
    for name, make in files.items()
}
ALL = (
    BY_TENSORFLOW
    | {f"JPEG {name}": make for name, make in INKS.items()}
    | {f"WebP {name}": make for name, make in WEBPS.items()}
)


def exif(orientation: int) -> Image.Exif:
    result = Image.Exif()
    result[0x0112] = orientation
    return result


def grey(image: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(image.astype(np.uint32), -1, 0)
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).astype(np.uint8)[..., None]


def by_tensorflow(data: bytes, channels: int = 3, accurate: bool = False) -> np.ndarray:
    tf = pytest.importorskip("tensorflow")
    if accurate and data.startswith(b"\xff\xd8\xff"):
        return tf.io.decode_jpeg(data, channels, dct_method="INTEGER_ACCURATE").numpy()
    return tf.io.decode_image(data, channels, expand_animations=False).numpy()


def skip_without_library(name: str) -> None:
    header = {"JPEG": "jpeglib.h", "PNG": "png.h", "WebP": "webp/decode.h"}.get(name.split()[0])
    if header and not FOUND[header]:
        pytest.skip(f"no {header} to build with")


# --- pixels ---


@pytest.mark.parametrize("name", BY_TENSORFLOW)
def test_pixels_equal_tensorflow(codecs, name):
    skip_without_library(name)
    data = BY_TENSORFLOW[name]()
    expected = by_tensorflow(data)
    assert (codecs.decode(data) == expected).all()
    assert codecs.size(data) == expected.shape[:2]


@pytest.mark.parametrize("name", [name for name in BY_TENSORFLOW if name.startswith(("JPEG", "PNG"))])
def test_grey_equals_tensorflow(codecs, name):
    skip_without_library(name)
    data = BY_TENSORFLOW[name]()
    assert (codecs.decode(data, 1) == by_tensorflow(data, 1)).all()


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith(("BMP", "GIF", "WebP", "JPEG CMYK"))])
def test_grey_is_of_rgb_where_tensorflow_refuses(codecs, name):
    skip_without_library(name)
    data = ALL[name]()
    assert (codecs.decode(data, 1) == grey(codecs.decode(data))).all()


@pytest.mark.parametrize("name", JPEGS)
def test_accurate_jpeg_equals_tensorflow(codecs, name):
    skip_without_library("JPEG")
    data = JPEGS[name]()
    for channels in (1, 3):
        assert (codecs.decode(data, channels, accurate=True) == by_tensorflow(data, channels, True)).all()


@pytest.mark.parametrize("name", INKS)
def test_four_inks_equal_tensorflow(codecs, name):
    skip_without_library("JPEG")
    data = INKS[name]()
    for accurate in (False, True):
        assert (codecs.decode(data, accurate=accurate) == by_tensorflow(data, accurate=accurate)).all()


@needs_webp
@pytest.mark.parametrize("name", WEBPS)
def test_webp_equals_pillow(codecs, name):
    data = WEBPS[name]()
    expected = np.array(Image.open(io.BytesIO(data)))[..., :3]
    assert (codecs.decode(data) == expected).all()
    assert codecs.size(data) == expected.shape[:2]


@pytest.mark.parametrize("kind", [GREY, RGB])
def test_sixteen_bits_keep_the_upper_eight(codecs, kind):
    skip_without_library("PNG")
    wide = np.random.default_rng(16).integers(0, 1 << 16, (29, 35, 3 if kind == RGB else 1))  # the values of png()
    assert (codecs.decode(png(kind, 16)) == (wide >> 8)).all()


def test_bmp_palette_gives_colours(codecs):
    """TensorFlow returns indices as levels of grey."""
    image = Image.fromarray(colours()).quantize(40)
    assert (codecs.decode(saved(image, "BMP")) == np.array(image.convert("RGB"))).all()


def test_bmp_with_masks(codecs):
    values = colours(5, 6, 4)
    usual = bmp(values, masks=struct.pack("<III", 0xFF0000, 0xFF00, 0xFF))
    assert (codecs.decode(usual) == values[..., 2::-1]).all()
    with pytest.raises(DecodeError, match="order of its colours"):
        codecs.decode(bmp(values, masks=struct.pack("<III", 0xFF, 0xFF00, 0xFF0000)))


# --- orientation ---


@pytest.mark.parametrize("code", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WebP"])
def test_image_is_turned_upright(codecs, form, code):
    skip_without_library(form)
    for mode, channels in (("RGB", 3), ("L", 1)):
        data = saved(colours(70, 41), form.upper(), mode, exif=exif(code))
        assert codecs.orientation(data) == code
        flat = codecs.decode(data, channels)
        upright = codecs.decode(data, channels, upright=True)
        flat = flat.swapaxes(0, 1) if code >= 5 else flat
        flat = flat[:, ::-1] if code in (2, 3, 6, 7) else flat
        assert (upright == (flat[::-1] if code in (3, 4, 7, 8) else flat)).all()


def test_files_without_orientation_are_upright(codecs):
    for name, make in ALL.items():
        assert codecs.orientation(make()) == 1, name
    for content in (b"", b"\xff\xd8\xff\xe1\0\x20Exif\0\0II*\0\xff\xff\xff\xff", b"RIFF    WEBPVP8X\xff\xff\xff\xff"):
        assert codecs.orientation(content) == 1


# --- errors ---


def error(codecs: Codecs, data: bytes, channels: int = 3, **options) -> str:
    with pytest.raises(DecodeError) as caught:
        codecs.decode(data, channels, **options)
    return str(caught.value)


def test_errors_name_file_and_format(codecs):
    known = "contents[7] is no image file of a known format (JPEG, PNG, WebP, BMP, GIF, TFI)"
    for data in (b"", b"text", b"\xff\xd8", b"RIFF\0\0\0\0WAVEfmt ", b"\x89PNG"):
        assert error(codecs, data, index=7) == known
    assert "channels are 1 or 3, not 4" in error(codecs, JPEGS["grey"](), 4)
    for name, make in ALL.items():
        form = name.split()[0]
        skip_without_library(form)
        if name == "GIF animated":  # its first frame is in the first half
            continue
        half = make()[: len(make()) // 2]
        assert error(codecs, half, index=3).startswith(f"contents[3] is no valid {form} image: "), name


def test_animated_webp_is_refused(codecs):
    skip_without_library("WebP")
    assert "contents[0] is an animated WebP image" in error(codecs, animation("WEBP"))


def test_large_images_are_refused_before_allocation(codecs):

    def png_of(side: int) -> bytes:
        content = png(GREY, 1)
        return content[:8] + chunk(b"IHDR", struct.pack(">II", side, side) + content[24:29]) + content[33:]

    frame = b"\x2c\0\0\0\0"
    expected = {
        "PNG": png_of(40_000),
        "JPEG": saved(colours(), "JPEG").replace(struct.pack(">HH", 37, 53), struct.pack(">HH", 65500, 65500)),
        "GIF": gif().replace(frame + struct.pack("<HH", 53, 37), frame + struct.pack("<HH", 65535, 65535)),
    }
    for form, data in expected.items():
        skip_without_library(form)
        assert "2**29 pixels" in error(codecs, data), form
    assert "the data end before the image does" in error(codecs, png_of(20_000))


def test_endless_scans_are_refused(codecs):
    skip_without_library("JPEG")
    data = saved(colours(), "JPEG", progressive=True)
    first, last = data.index(b"\xff\xda"), data.rindex(b"\xff\xda")
    assert "500 scans" in error(codecs, data[:last] + data[last:-2] * 600 + data[first:])


def test_damaged_files_give_errors_or_pixels(codecs):
    """Cut off after every sixteenth, and with flipped bits."""
    random = np.random.default_rng(5)
    for name, make in ALL.items():
        data = make()
        damaged = [data[: len(data) * sixteenth // 16] for sixteenth in range(16)]
        for _ in range(40):
            bits = np.frombuffer(data, np.uint8).copy()
            places = random.integers(0, len(bits), random.integers(1, 4))
            bits[places] ^= np.uint8(1) << random.integers(0, 8, len(places)).astype(np.uint8)
            damaged.append(bits.tobytes())
        for content in damaged:
            for channels in (1, 3):
                try:
                    pixels = codecs.decode(content, channels)
                except DecodeError as failure:
                    text = str(failure)
                else:
                    text = "contents[0] is decoded"
                    assert codecs.size(content) == pixels.shape[:2], name
                    assert (codecs.decode(content, channels, upright=True) >= 0).all()
                assert text.startswith("contents[0] is "), name


def test_missing_libraries_are_named(tmp_path):
    """As if no header of a library was found."""
    source = (KERNELS / "codecs.cc").read_text()
    for name in LIBRARIES:
        source = source.replace(f"__has_include(<{name}>)", "0")
    (tmp_path / "codecs.cc").write_text(source)
    command = [*kernels.compiler(environment()), "-std=c++17", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    files = [str(tmp_path / "codecs.cc"), str(HERE / "codecs_shim.cc")]
    kernels.compile_into(tmp_path / "none.so", [*command, f"-I{KERNELS}", *files])
    bare = Codecs(tmp_path / "none.so")
    for name, package in (("JPEG 4:2:0", "libjpeg-dev"), ("PNG RGB 8", "libpng-dev"), ("WebP lossy", "libwebp-dev")):
        assert f"install {package} " in error(bare, ALL[name]())
    assert bare.decode(BMPS["24"]()).shape == (37, 53, 3)
    assert bare.size(PNGS["RGB 8"]()) == (29, 35)
