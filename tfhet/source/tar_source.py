"""Image files in WebDataset tars as a source: a split is one tar.

source = TarSource("shards/*.tar")                           # 0001.jpg with 0001.cls, ...
source = TarSource("shards/*.tar", label="json:class_id")    # 0001.jpg with {"class_id": 7} in 0001.json

An index of each tar is made once (`index_file`): the byte and the length of each image, and the labels.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfhet.errors import DataError, UsageError, shown
from tfhet.source.array_spec import ArraySpec
from tfhet.source.files import (
    READERS,
    Files,
    absolute,
    identities,
    is_remote,
    opened,
    read_files,
    readable_files_of,
    readers,
)
from tfhet.source.index_file import IndexRequest, indexed
from tfhet.source.indexed import Indexed
from tfhet.source.source import split_of
from tfhet.source.tar import grouped

VERSION = 1
"""Version of the index; other versions are made again."""
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
"""First bytes of the files of gzip, bzip2, xz, zstd and lz4."""


class _Index(NamedTuple):
    """The examples of one tar; int64 [n] each."""

    offsets: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray


class TarSource(Indexed):
    """WebDataset tars of image files, not compressed. Splits are the tars, ordered by name."""

    name = "tar"

    def __init__(self, tars: Files, image: str = "jpg;jpeg;png;webp", label: str = "cls") -> None:
        """
        Args:
            tars: Paths, a directory (its `*.tar`), or a glob pattern; local, or URLs of an object store.
            image: Extensions of image files, separated by `;`. The first one that a sample has is its image. Case does
                not matter.
            label: Extension of the files whose content is the label, an integer; or `json:KEY`, the key of the label in
                the `.json` file.

        Raises:
            UsageError: No tar is found, one is named twice, or cannot be read from here.
        """
        self.tars, self.image, self.label = readable_files_of(tars, "*.tar", "tar"), image, label

    def sizes(self) -> np.ndarray:
        """Returns the number of samples of each tar, int64 [tars]. The first call reads the indexes or makes them.

        Raises:
            DataError: A tar is missing, broken, cut or compressed, or a sample cannot be used. The message has the name
                of the tar and of the file in it, or the byte.
        """
        return self._sizes

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the image files of these ids, int64 [n], and their labels, int64 [n]."""
        rows, tars = self.rows(ids), [self.tars[split] for split in split_of(np.asarray(ids)).tolist()]
        offsets, lengths, labels = (column[rows] for column in self._index)
        tags = [self._tags[split] for split in split_of(np.asarray(ids)).tolist()]
        return {"image": read_files(tars, offsets, lengths, threads=READERS, tags=tags), "label": labels}

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        """Returns the tar and the byte at which the image file of each id starts."""
        offsets = self._index.offsets[self.rows(ids)].tolist()
        return [(self.tars[split], at) for split, at in zip(split_of(np.asarray(ids)).tolist(), offsets, strict=True)]

    def index_request(self, tar: str) -> IndexRequest:
        """Returns the request for the index of a tar."""

        def make() -> list[np.ndarray]:
            columns = np.array(list(self._walked(tar)), np.int64).reshape(-1, 3).T
            return list(map(np.ascontiguousarray, columns))

        return IndexRequest(tar, _Index._fields, [VERSION, self.image, self.label], make)

    @property
    def labels(self) -> np.ndarray:
        """Labels of all examples, int64 [examples]."""
        return self._index.labels

    @property
    def spec(self) -> dict[str, ArraySpec]:
        return {"image": ArraySpec((None,), "string"), "label": ArraySpec((None,), "int64")}

    def fingerprint(self) -> str:
        """Returns a hex digest of the names, sizes and ends of the tars, and of the indexes."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.blake2b(json.dumps(identities(self.tars)).encode(), digest_size=16)
        for column in (self._sizes, *self._index):
            digest.update(column.tobytes())
        return digest.hexdigest()

    def as_json(self) -> dict[str, Any]:
        return {"tars": list(map(absolute, self.tars)), "image": self.image, "label": self.label}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TarSource:
        return cls(**document)

    @functools.cached_property
    def is_remote(self) -> bool:
        """See `Indexed`."""
        return is_remote(self.tars)

    @functools.cached_property
    def _parts(self) -> list[tuple[_Index, str]]:
        with readers(self.tars) as pool:
            parts = list(pool.map(self._indexed, self.tars))
        if not any(len(part.labels) for part, _ in parts):
            raise UsageError(f"no samples in {len(self.tars)} tars, the first of them {self.tars[0]}")
        return parts

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        return np.array([len(part.labels) for part, _ in self._parts], np.int64)

    @functools.cached_property
    def _tags(self) -> list[str]:
        """The version of each tar, if it is an object."""
        return [tag for _, tag in self._parts]

    @functools.cached_property
    def _index(self) -> _Index:
        return _Index(*map(np.concatenate, zip(*(part for part, _ in self._parts), strict=True)))

    def _indexed(self, tar: str) -> tuple[_Index, str]:
        """Returns the index of a tar, stored or new, and the version of its object."""
        columns, tag = indexed(self.index_request(tar))
        return _Index(*columns), tag

    def _walked(self, tar: str) -> Iterator[tuple[int, int, int]]:
        """Yields the byte, the length and the label of each image in a tar."""
        with opened(tar) as file:
            if file.read(6).startswith(_COMPRESSED):
                raise DataError(
                    f"{tar} is compressed, so its files cannot be read in any order: unpack it (gzip -d), or write "
                    "TFRecord files from tfhet.source.tar_samples",
                    tar,
                )
        images = self.image.lower().split(";")
        kind, _, key = self.label.partition(":")
        kind = kind.lower()

        def use(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[tarfile.TarInfo, bytes]:
            extension = member.name.rpartition("/")[2].partition(".")[2].lower()
            if extension not in (*images, kind):
                return member, b""
            if not member.isfile() or member.issparse():
                what = "sparse file" if member.isfile() else f"link to {member.linkname}"
                raise DataError(
                    f"{tar}: {member.name} is a {what}: write the tar with whole files (tar --hard-dereference -h)",
                    tar,
                    member.offset,
                )
            content = archive.extractfile(member) if extension == kind else None
            return member, b"" if content is None else content.read()

        for name, sample in grouped(tar, use, "r:"):
            files = {extension.lower(): file for extension, file in sample.items()}
            image = next((files[extension][0] for extension in images if extension in files), None)
            if image is None or kind not in files:
                lacked = f"label {name}.{kind}" if image is not None else f"image {name}.({'|'.join(images)})"
                raise DataError(f"{tar}: sample {name} has no {lacked}, only {', '.join(sample)}", tar)
            member, content = files[kind]
            yield image.offset_data, image.size, _label(content, key, f"{tar}: {member.name}", tar)


def _label(content: bytes, key: str, where: str, tar: str) -> int:
    """Returns the label that a file has, under a key if it is JSON. where: name of the file, for errors."""
    try:
        value = json.loads(content)[key] if key else int(content)
        if type(value) is int and -(2**63) <= value < 2**63:
            return value
        raise ValueError
    except (ValueError, LookupError, TypeError):
        wanted = f"an integer {key!r} in a JSON object" if key else "an integer"
        raise DataError(f"{where} is not {wanted}, but {shown(content[:40])}", tar) from None
