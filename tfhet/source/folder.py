"""Writes a folder of images, with one sub-folder for each class, as sharded TFRecords."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.errors import DataError, UsageError, some
from tfhet.source.feature import Encoded, Raw, Scalar
from tfhet.source.image_file import pixels
from tfhet.source.storing import Store
from tfhet.source.writing import class_numbers, write_tfrecords

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif")
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF8")
"""First bytes of the image files that TensorFlow can decode."""
PROGRESS_EXAMPLES = 500
"""Number of images between two calls of `progressed`."""
HIDDEN, NO_CLASS = "hidden", "in no folder of a class"
SPLITS = frozenset({"train", "training", "val", "valid", "validation", "eval", "test", "testing"})
"""Names of folders that hold the folders of classes."""
NO_FILE, LOOP = "a pipe, socket or device", "a link to a folder above it, or to one that was read before"
NO_IMAGE, UNREADABLE = "not JPEG, PNG, BMP or GIF", "cannot be read or decoded"
NARROWED = "written, but decoding keeps the upper 8 of 16 bits of each channel"
_AT_ONCE = 64
"""Number of files that are read at the same time."""
log = logging.getLogger("tfhet")


def from_image_folder(
    folder: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    shards: int,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    progressed: Callable[[int, int], object] = lambda done, total: None,
    *,
    split: float = 0.0,
    classes: Sequence[str] = (),
    store: Store = Store(),  # noqa: B008  frozen
    report: Callable[[str], object] = log.warning,
) -> Path:
    """Writes `image` and `label` of every image in `folder`/CLASS/**, in an order drawn from `seed`.

    Returns `directory`. The files are stored unchanged or as `store` says, or with `size` (height, width) as raw RGB of
    that size, which takes 3 bytes a pixel and no decoding later. Labels number `classes`, by default the sub-folders in
    the order of their names; the names go into `tfhet.json`. progressed: called with the numbers of images that are
    done, and of all, now and then. split: share of each class, from 0 to below 1, that goes into
    `directory`/validation, while the rest goes into `directory`/training; a hash of the seed and of an image's path
    decides, so that it keeps its side when others are added. report: called at the end with lines that say how many
    images of which classes were written, what was omitted (hidden files, files that are not images, images that cannot
    be decoded), and which images lose bits. Linked folders are read like others. Raises UsageError when there are no
    classes or no images, for a class that is not among `classes` or whose name is not UTF-8, when the directory is not
    empty, or for both `size` and `store`.
    """
    if size is not None and not store.is_plain:
        raise UsageError("images of one size are stored as raw RGB: give either a size, or how images are stored")
    if not 0.0 <= split < 1.0:
        raise UsageError(f"the share of images for validation is from 0 to below 1, not {split:g}")
    target, (found, files, passed_over) = Path(directory), _listed(Path(folder))
    found = tuple(map(_utf8, found))
    names, done = tuple(classes) or found, itertools.count()
    labels = dict(zip(found, class_numbers(found, names, folder), strict=True))
    features = {"image": Encoded() if size is None else Raw((*size, 3), "uint8"), "label": Scalar("int64")}
    parts: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        parts[target / _side(f"{seed}/".encode() + os.fsencode(file), split) if split else target].append(file)
    if split and len(parts) < 2:
        raise UsageError(f"a split of {split:g} gives all images to {[*parts][0]}: give another share, or more images")
    counts: dict[Path, Counter[str]] = defaultdict(Counter)
    source_bytes = 0
    narrowed: list[Path] = []

    def examples(part: Path) -> Iterator[Mapping[str, Any]]:
        nonlocal source_bytes
        order = np.random.default_rng(seed).permutation(len(parts[part]))
        for file, (content, is_narrowed) in _read(Path(folder), [parts[part][index] for index in order], size, store):
            if (number := next(done)) % PROGRESS_EXAMPLES == 0:
                progressed(number, len(files))
            if isinstance(content, str):
                passed_over[content].append(file)
                continue
            narrowed.extend([file] if is_narrowed else [])
            source_bytes += (Path(folder) / file).stat().st_size
            name = _utf8(file.parts[0])
            counts[part][name] += 1
            yield {"image": content, "label": labels[name]}

    origin = {"origin": _utf8(Path(folder).name), **store.details()}
    try:
        for part in sorted(parts):
            write_tfrecords(part, examples(part), min(shards, len(parts[part])), features, seed, names, origin)
        progressed(len(files), len(files))
    finally:  # also if nothing could be written
        _report(counts, names, {**passed_over, NARROWED: narrowed}, report)
    if not store.is_plain:
        written = sum(file.stat().st_size for part in parts for file in part.glob("*.tfrecord"))
        sizes = f"{written / 1e6:,.1f} MB on disk, {written / source_bytes:.2f} times the {source_bytes / 1e6:,.1f} MB"
        report(f"stored as {store.kind}: {sizes} of the image files")
    return target


def _report(
    counts: Mapping[Path, Counter[str]],
    names: Sequence[str],
    noted: Mapping[str, Sequence[Path]],
    report: Callable[[str], object],
) -> None:
    for part, count in counts.items():
        report(f"{part}: {count.total():,} images: {some([f'{name} {count[name]:,}' for name in names], 20)}")
        if lacking := [name for name in names if not count[name]]:
            report(f"{part} has no image of {some(lacking)}")
    for reason, files in ((reason, files) for reason, files in noted.items() if files):
        what = reason if reason == NARROWED else f"passed over, {reason}"
        report(f"{what}: {len(files):,} ({some(sorted(file.as_posix() for file in files), 5)})")


def _listed(folder: Path) -> tuple[tuple[str, ...], list[Path], dict[str, list[Path]]]:
    """Returns the classes, the files that are called like images, and by reason the others. Paths begin in `folder`."""
    if not folder.is_dir():
        what = f"{folder} is no folder" if folder.exists() else f"no image folder {folder}"
        raise UsageError(f"{what}: it should hold one sub-folder for each class")
    entries = sorted(folder.iterdir())
    classes = tuple(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise UsageError(f"{folder} has no sub-folders: put the images of each class into a sub-folder of their own")
    if len(classes) > 1 and {name.lower() for name in classes} <= SPLITS:
        raise UsageError(
            f"the sub-folders of {folder} are called like splits, {', '.join(classes)}: convert each of them"
        )
    files: list[Path] = []
    passed_over: dict[str, list[Path]] = defaultdict(list)
    loops: list[Path] = []
    for entry in entries:
        is_class = entry.is_dir() and not entry.name.startswith(".")
        below = sorted(_below(entry, loops)) if is_class else [entry]
        for path, file in ((path, path.relative_to(folder)) for path in below):
            if any(part.startswith(".") for part in file.parts):
                passed_over[HIDDEN].append(file)
            elif is_class and path.exists() and not path.is_file():
                passed_over[NO_FILE].append(file)
            elif not is_class or file.suffix.lower() not in SUFFIXES:
                passed_over[NO_IMAGE if is_class else NO_CLASS].append(file)
            else:
                files.append(file)
        if is_class and (not files or files[-1].parts[0] != entry.name):
            reasons = [
                each for each, paths in passed_over.items() if any(path.parts[0] == entry.name for path in paths)
            ]
            why = f" (passed over: {', '.join(reasons)})" if reasons else ""
            raise UsageError(f"class {entry.name} has no images in {entry}{why}; images end in {', '.join(SUFFIXES)}")
    passed_over[LOOP] += [path.relative_to(folder) for path in loops]
    return classes, files, passed_over


def _below(folder: Path, loops: list[Path]) -> Iterator[Path]:
    """Yields the files below a folder, also in linked folders; folders that were read before join `loops`."""
    read = {folder.resolve()}
    for place, folders, files in os.walk(folder, followlinks=True):
        for name in list(folders):
            path = Path(place, name)
            if path.resolve() in read:
                folders.remove(name)
                loops.append(path)
            read.add(path.resolve())
        yield from (Path(place, name) for name in files)


def _utf8(name: str) -> str:
    """Returns a file's name as text, in any locale."""
    try:
        return os.fsencode(name).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"the name {name!r} is not UTF-8: rename the folder") from None


def _side(name: bytes, split: float) -> str:
    """Returns the side of an image, which only its name decides; also called the trainer's channel."""
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return "validation" if int.from_bytes(digest, "big") < split * 2**64 else "training"


def _read(
    folder: Path, files: Sequence[Path], size: tuple[int, int] | None, store: Store
) -> Iterator[tuple[Path, tuple[bytes | np.ndarray | str, bool]]]:
    """Yields each file with its image as it is stored, or why it is passed over, and whether bits are lost."""
    with ThreadPoolExecutor() as pool:
        for first in range(0, len(files), _AT_ONCE):
            group = files[first : first + _AT_ONCE]
            yield from zip(group, pool.map(lambda file: _content(folder / file, size, store), group), strict=True)


def _content(file: Path, size: tuple[int, int] | None, store: Store) -> tuple[bytes | np.ndarray | str, bool]:
    try:
        content = file.read_bytes()
        if not content.startswith(SIGNATURES):
            return NO_IMAGE, False
        is_narrowed = content.startswith(b"\x89PNG") and content[24:25] == b"\x10"
        if size is not None:
            return pixels(content, size), is_narrowed
        return store.content(content), is_narrowed
    except (OSError, DataError):
        return UNREADABLE, False
