"""Runs the compiled core under sanitizers on drawn chains and damaged files and records. `scripts/test --sanitize`.

Address and undefined-behaviour sanitizers in one build, the thread sanitizer in another. Each build runs in a process
of its own, which reports how many calls it made; a finding ends that process. Needs no framework.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tfhet import kernels, stages
from tfhet.errors import DataError, UsageError
from tfhet.kernels import loader
from tfhet.source.encoding import checksum

BUILDS = {"address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"), "thread": ("-fsanitize=thread",)}
RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "TSAN_OPTIONS": "halt_on_error=1"}
BUDGET_S, LIMIT_S = 40.0, 600.0
"""Seconds of drawn chains, and of damaged records, for each build, and the limit of a build with its run."""
SEED = 52
NASTY = (np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**31), 2.0**63, -0.0, 0.5, 3.0, 1e9)
"""Values of parameters that no stage draws."""
CHAINS = (
    *("random_flip(vertical=True)", "random_affine(fill_mode='wrap')", "random_rotation(1.0); random_zoom(0.5)"),
    *("pad(3, 7, 1, 100, mode='reflect')", "random_crop(padding=40, mode='symmetric')", "center_crop()"),
    *("resize(20, 31, 'area')", "resize(7, 5, 'bicubic')", "resize(9, 9, antialias=True)"),
    *("random_resized_crop(13, 9); random_flip()", "resized_center_crop(9, 7, 11, True)"),
    *("color_jitter(0.4, 0.4, 0.4, 0.1); grayscale(3)", "random_hue(); random_saturation()", "randaugment(3, 20)"),
    *("trivialaugment()", "equalize(); autocontrast(); posterize(3); solarize(9)", "gamma(1.7); invert(); rescale()"),
    *("gaussian_noise(0.1); random_contrast()", "gaussian_blur(3, 1.0); sharpen(); dilate(4); erode(3)"),
    *("cutout(5); random_erasing()", "mixup(); cutmix()", "one_of(mixup(), probability(random_flip(), 0.3), invert())"),
)
FILE_CHAINS = (
    "decode(); random_resized_crop(12, 17); random_flip(); normalize()",
    "decode(1, upright=False, accurate=True); resize(9, 8, antialias=True)",
    "decode(); resized_center_crop(8, 8, 9); randaugment()",
    "decode(reduced=True); random_resized_crop(3, 2); random_flip(); normalize()",
    "decode(1, reduced=True); resized_center_crop(4, 5, 6, antialias=True); random_flip()",
)
FIELDS = (("image", "raw", 12), ("label", "int64", 2), ("weight", "float", 2), ("files", "bytes", 2))
"""Features of the examples that are parsed."""


def images(random: np.random.Generator, count: int) -> np.ndarray:
    height, width = random.choice([1, 2, 3, 7, 31, 33, 65], 2)
    shape = (count, height, width, random.choice([1, 3, 4]))
    if random.random() < 0.5:
        return random.integers(0, 256, shape, np.uint8)
    values = random.random(shape, np.float32)
    values[random.random(shape) < 0.05 * random.integers(2)] = np.nan
    return values


def file(random: np.random.Generator) -> bytes:
    """Returns an image file, mostly damaged."""
    kind = random.choice(["JPEG", "PNG", "WEBP", "BMP", "GIF", "TFI"])
    size = random.choice([1, 5, 16, 33, 60], 2).tolist()
    image, buffer = Image.fromarray(random.integers(0, 256, (*size, 3), np.uint8)), io.BytesIO()
    options = {"progressive": bool(random.integers(2))} if kind == "JPEG" else {}
    exif = Image.Exif()
    exif[0x0112] = int(random.integers(0, 9))
    form = "PNG" if kind == "TFI" else kind
    image.save(buffer, form, **options, **({"exif": exif} if form in ("JPEG", "PNG", "WEBP") else {}))
    content = bytearray(buffer.getvalue())
    if kind == "TFI":
        content = bytearray(kernels.store_image(bytes(content), str(random.choice(["yuv420", "rgb"]))))
    harm = random.integers(4)
    if harm == 1:
        return bytes(content[: random.integers(len(content))])
    for _ in range(random.integers(1, 6) if harm > 1 else 0):
        content[random.integers(min(len(content), 200 if harm == 2 else len(content)))] = random.integers(256)
    return bytes(content)


def drawn_calls(threads: int) -> int:
    """Makes calls for BUDGET_S. Returns their number."""
    random, calls, end_s = np.random.default_rng(SEED), 0, time.monotonic() + BUDGET_S
    while time.monotonic() < end_s:
        count = int(random.integers(1, 6))
        is_files = random.random() < 0.3
        chain = stages.compile(str(random.choice(FILE_CHAINS if is_files else CHAINS)), float_range=(0.0, 1.0))
        batch = [file(random) for _ in range(count)] if is_files else images(random, count)
        calls += 1
        if is_files:
            kind, side = str(random.choice(["yuv420", "rgb"])), random.choice([None, 1, 7, 40])
            attempted(kernels.store_image, batch[0], kind, side, accurate=bool(random.integers(2)))
        try:
            chain(batch, ids=random.integers(0, 2**62, count), epoch=int(random.integers(9)), threads=threads)
        except UsageError:
            continue
        (compiled,) = (segment.chain for segment in chain._program(batch).segments)  # type: ignore[arg-type]
        given = np.where(random.random((count, compiled.slots)) < 0.5, random.choice(NASTY, compiled.slots), 1.0)
        try:
            compiled.run(batch, given=given, threads=threads)
        except (UsageError, MemoryError):
            continue
    return calls


def example(random: np.random.Generator) -> bytes:
    """Returns a serialised tf.train.Example that has all FIELDS."""

    def entry(name: str, kind: int, values: bytes) -> bytes:
        return delimited(1, delimited(1, name.encode()) + delimited(2, delimited(kind, values)))

    floats, integers = random.bytes(8), bytes([1, 0xFF, 0x7F]) if random.random() < 0.5 else b"\x08\x01\x08\x7f"
    files = b"".join(delimited(1, random.bytes(random.integers(40))) for _ in range(2))
    entries = [
        entry("image", 1, delimited(1, random.bytes(12))),
        entry("label", 3, integers if integers[0] == 8 else delimited(1, integers)),
        entry("weight", 2, delimited(1, floats)),
        entry("files", 1, files),
    ]
    return delimited(1, b"".join(entries[place] for place in random.permutation(4)))


def delimited(number: int, content: bytes) -> bytes:
    """Returns a field of bytes of a message of protobuf."""
    size = [len(content)] if len(content) < 128 else [len(content) & 127 | 128, len(content) >> 7]
    return bytes([number << 3 | 2, *size]) + content


def harmed(random: np.random.Generator, content: bytes) -> bytes:
    """Returns bytes, mostly with one to three of them changed, added or lost; or others."""
    kind = random.integers(8)
    if kind == 0:
        return random.bytes(random.integers(100))
    if kind == 1:
        return content[: random.integers(len(content) + 1)]
    made = bytearray(content)
    for _ in range(random.integers(4)):
        at = random.integers(len(made) + 1)
        made[at : at + random.integers(3)] = random.bytes(random.integers(3))
    return bytes(made)


def framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return b"".join(part + struct.pack("<I", checksum(part)) for part in (length, content))


def attempted(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Returns the result of a call; None if it refuses its arguments or the data."""
    try:
        return call(*args, **options)
    except (UsageError, DataError, MemoryError):
        return None


def read_calls(folder: Path, threads: int) -> int:
    """Reads and parses damaged records and files for BUDGET_S. Returns the number of calls."""
    random, calls, end_s, path = np.random.default_rng(SEED), 0, time.monotonic() + BUDGET_S, str(folder / "records")
    while time.monotonic() < end_s:
        count = int(random.integers(1, 9))
        records = [example(random) for _ in range(count)] + [random.bytes(random.integers(3000))]
        content = b"".join(map(framed, records))
        Path(path).write_bytes(content if random.random() < 0.3 else harmed(random, content))
        offsets, _ = kernels.record_offsets(path)
        lengths = np.where(random.random(len(offsets)) < 0.5, -1, np.diff(offsets, append=offsets[-1] + 16))
        wild = random.choice([-1, 0, 1, 12, 16, len(content), 2**62, 2**63 - 1], (2, count))
        for arguments in (
            ([path] * len(offsets[:-1]), offsets[:-1], lengths[:-1]),
            ([path] * len(offsets), offsets, lengths),
            ([path] * count, *wild),
            ([path, str(folder)] * count, np.repeat(wild[0], 2)),
            *(([path], [first % 2000], [size]) for first, size in wild.T),
        ):
            for is_framed in (False, True):
                made = attempted(kernels.read_files, *arguments, framed=is_framed, threads=threads)
                calls += 1
                if made is not None:
                    attempted(kernels.parse_examples, made, FIELDS)
        # Read from a file, because each then has memory of its exact size.
        harm = [harmed(random, record) for record in records]
        Path(path).write_bytes(b"".join(harm))
        sizes = np.array([len(record) for record in harm])
        made = kernels.read_files([path] * len(harm), np.cumsum(sizes) - sizes, sizes, threads=threads)
        for at in range(len(harm)):
            if parsed := attempted(kernels.parse_examples, made[at : at + 1], FIELDS):
                assert sum(map(len, parsed[-1])) <= sizes[at]
        calls += len(harm)
    return calls


def run(name: str, folder: Path) -> None:
    """Builds the core with sanitizers, and runs this script with it. Raises CalledProcessError for a finding."""
    command, libraries = loader.build_command(("-march=native", "-O1", "-g", *BUILDS[name]))
    library = folder / f"core-{name}.so"
    loader.compile_into(library, [word for word in command if word != "-O3"], libraries)
    # The library of C++ too: the sanitizer looks for its functions when the process starts.
    words = [f"-print-file-name={file}" for file in (RUNTIMES[name], "libstdc++.so.6")]
    found = [
        subprocess.run([command[0], word], capture_output=True, text=True, check=True).stdout.strip() for word in words
    ]
    env = {**os.environ, **OPTIONS, "LD_PRELOAD": ":".join(found)}
    subprocess.run([sys.executable, __file__, name, str(library)], env=env, check=True, timeout=LIMIT_S)


if __name__ == "__main__":
    if sys.argv[1:]:
        loader.of_wheel = lambda: Path(sys.argv[2])  # type: ignore[assignment]
        threads = 3 if sys.argv[1] == "thread" else 1
        with tempfile.TemporaryDirectory(prefix="sanitize-") as scratch:
            read = read_calls(Path(scratch), threads)
        print(f"{sys.argv[1]}: {drawn_calls(threads)} calls of chains, {read} of readers, {kernels.library()._name}")
    else:
        with tempfile.TemporaryDirectory(prefix="sanitize-") as scratch:
            for build in BUILDS:
                run(build, Path(scratch))
        print(f"sanitizers: {len(BUILDS)} passed, 0 failed")
