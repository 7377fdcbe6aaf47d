"""Image files as a source, as they are: a folder with one sub-folder for each class, or a list of paths and labels.

source = ImageFolder("photos/train")                           # photos/train/CLASS/**/*.jpg
source = FileList([("photos/1.jpg", 0), ("https://example.com/2.jpg", 1)])
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfhet.errors import UsageError, some
from tfhet.source import object_store
from tfhet.source.array_spec import ArraySpec
from tfhet.source.files import absolute, check_readable, exists, is_remote, read_files
from tfhet.source.indexed import Indexed

log = logging.getLogger("tfhet")

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif")


class FileList(Indexed):
    """Image files and their labels. An example's id is its place in the list."""

    name = "file_list"

    def __init__(self, pairs: Sequence[tuple[str | os.PathLike[str], int]]) -> None:
        """Raises UsageError for an empty list, and labels that are not integers."""
        self.paths = [os.fspath(path) for path, _ in pairs]
        labels = [label for _, label in pairs]
        self.labels = np.asarray(labels)
        if not self.paths:
            raise UsageError("the list of image files is empty")
        check_readable(self.paths[0], "image")
        if self.labels.dtype.kind not in "iu" or self.labels.ndim != 1:
            raise UsageError(f"labels of image files are integers, not such as {labels[0]!r}")
        self.labels = self.labels.astype(np.int64)

    @functools.cached_property
    def is_remote(self) -> bool:
        """See `Indexed`."""
        return is_remote(self.paths)

    def sizes(self) -> np.ndarray:
        return np.array([len(self.paths)], np.int64)

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the files of these ids, int64 [n], and their labels, int64 [n]."""
        rows = self.rows(ids)
        return {"image": read_files([self.paths[row] for row in rows.tolist()]), "label": self.labels[rows]}

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        return [(self.paths[row], 0) for row in self.rows(ids).tolist()]

    @property
    def spec(self) -> dict[str, ArraySpec]:
        return {"image": ArraySpec((None,), "string"), "label": ArraySpec((None,), "int64")}

    def fingerprint(self) -> str:
        """Returns a hex digest of the labels, and of the paths below the folder that all have in common, which may have
        another name on another host."""
        common = os.path.commonprefix([min(self.paths), max(self.paths)]).rfind("/") + 1
        digest = hashlib.blake2b(self.labels.tobytes(), digest_size=16)
        for path in self.paths:
            digest.update(os.fsencode(path[common:]) + b"\0")
        return digest.hexdigest()

    def check(self) -> None:
        """Raises UsageError if the first or the last file does not exist."""
        for path in (self.paths[0], self.paths[-1]):
            if not (exists if object_store.is_url(path) else os.path.isfile)(path):
                raise UsageError(f"no such image file: {path}")

    def as_json(self) -> dict[str, Any]:
        """Returns the arguments of `from_json`, for other hosts."""
        return {"paths": self.paths, "labels": self.labels.tolist()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> FileList:
        return FileList(list(zip(document["paths"], document["labels"], strict=True)))


class ImageFolder(FileList):
    """A folder of images with one sub-folder for each class; labels number the classes in the order of their names."""

    name = "image_folder"

    def __init__(self, folder: str | os.PathLike[str], classes: Sequence[str] = ()) -> None:
        """
        Args:
            folder: Its sub-folders are the classes; their images may lie in folders of their own. Hidden files and
                files that are not called like images (`SUFFIXES`) are no data.
            classes: The classes in the order of their labels, such as the training data's for validation data.

        Raises:
            UsageError: The folder does not exist, has no sub-folders, or one of them has no images or is not among
                `classes`.
        """
        self.folder = absolute(os.fspath(folder)).rstrip("/") or "/"
        check_readable(self.folder, "image")
        objects = _objects(self.folder) if object_store.is_url(self.folder) else None
        found = _classes(self.folder) if objects is None else tuple(objects)
        self.classes = tuple(classes) or found
        if others := [name for name in found if name not in self.classes]:
            raise UsageError(f"{self.folder} has classes that are not among `classes`: {some(others)}")
        numbers = {name: number for number, name in enumerate(self.classes)}
        pairs, others = list[tuple[str, int]](), list[str]()
        for name in found:
            if objects is None:
                files = sorted(_images(os.path.join(self.folder, name), others))
            else:
                files = [url for url in objects[name] if url.lower().endswith(SUFFIXES)]
                others += [url for url in objects[name] if not url.lower().endswith(SUFFIXES)]
            if not files:
                raise UsageError(
                    f"class {name} has no images in {self.folder}/{name}; images end in {', '.join(SUFFIXES)}"
                )
            pairs.extend(zip(files, itertools.repeat(numbers[name])))
        if others:
            log.warning(
                "%s: %d files are not called like images: %s", self.folder, len(others), some(sorted(others), 5)
            )
        super().__init__(pairs)

    def as_json(self) -> dict[str, Any]:
        return {"folder": self.folder, "classes": list(self.classes)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ImageFolder:
        return cls(document["folder"], document["classes"])


def _classes(folder: str) -> tuple[str, ...]:
    if not os.path.isdir(folder):
        what = f"{folder} is no folder" if os.path.exists(folder) else f"no image folder {folder}"
        raise UsageError(f"{what}: it should hold one sub-folder for each class")
    with os.scandir(folder) as entries:
        found = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if not found:
        raise UsageError(f"{folder} has no sub-folders: put the images of each class into a sub-folder of their own")
    return tuple(found)


def _objects(folder: str) -> dict[str, list[str]]:
    """Returns the objects of each class, without hidden ones."""
    found: dict[str, list[str]] = {}
    for url in object_store.listed(folder):
        name, *rest = url[len(folder) + 1 :].split("/")
        if rest and not any(part.startswith(".") for part in (name, *rest)):
            found.setdefault(name, []).append(url)
    if not found:
        raise UsageError(f"{folder} has no sub-folders: put the images of each class into a sub-folder of their own")
    return dict(sorted(found.items()))


def _images(folder: str, others: list[str]) -> Iterator[str]:
    """Yields the images below a folder, also in linked folders, each once. Files with other names join `others`."""
    waiting, read = [folder], {os.path.realpath(folder)}
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    if not entry.is_symlink():
                        waiting.append(entry.path)
                    elif (target := os.path.realpath(entry.path)) not in read:
                        read.add(target)
                        waiting.append(entry.path)
                elif not entry.name.lower().endswith(SUFFIXES):
                    others.append(entry.path)
                elif entry.is_file():
                    yield entry.path
