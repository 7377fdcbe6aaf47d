"""Image files in Parquet files as a source: a split is one file. It needs PyArrow (the extra `parquet`).

source = ParquetSource("data/train-*.parquet")                              # Hugging Face's layout
source = ParquetSource("table", image="picture", label="class_id")

Parquet is read by row groups, so an example costs the reading of its whole row group, unless that is in the cache.
Write row groups of about 100 rows for `shuffle=True`; for larger ones use `shuffle=N`, with N rows that fit the cache.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tfhet import extras
from tfhet.errors import DataError, UsageError
from tfhet.source import object_store
from tfhet.source.array_spec import ArraySpec
from tfhet.source.files import Files, absolute, identities, is_remote, readable_files_of, readers
from tfhet.source.indexed import Indexed

pa = extras.deferred("pyarrow")
pq = extras.deferred("pyarrow.parquet")
log = logging.getLogger("tfhet")
T = TypeVar("T")

CACHE_BYTES = 256 << 20
"""Default size of the cache of decoded row groups, in bytes."""
LARGE_BYTES = 64 << 20
"""Size of row groups, in bytes, from which a warning is logged if each example of a batch needs its own."""
_TOGETHER = 4
"""Number of row groups of objects that a thread reads at the same time."""
_FEWEST = 2
"""Number of row groups that stay in the cache whatever their size: a batch may begin in one and end in the next."""


class _RowGroup(NamedTuple):
    images: Any
    """Arrow array of binary [rows]."""
    labels: np.ndarray
    """int64 [rows]."""
    size: int
    """Bytes in memory."""


_NONE = _RowGroup(None, np.empty(0, np.int64), 0)
"""A row group that is not read yet."""


class _Entry:
    """Place of a row group in the cache, which the first thread that needs it reads."""

    def __init__(self) -> None:
        self.lock, self.group = threading.Lock(), _NONE


class ParquetSource(Indexed):
    """Parquet files with a column of image files and a column of integer labels. Splits are the files, ordered by name.

    The cache of decoded row groups has at most `cache_bytes` in each process, or two row groups if these are larger. A
    thread that loads examples holds one more.
    """

    name = "parquet"

    def __init__(
        self, files: Files, image: str = "image", label: str = "label", cache_bytes: int = CACHE_BYTES
    ) -> None:
        """
        Args:
            files: Paths, a directory (its `*.parquet`), or a glob pattern; local, or URLs of an object store.
            image: Column of the contents of image files: binary, or Hugging Face's struct of `bytes` and `path`.
            label: Column of integers.
            cache_bytes: Size of the cache of decoded row groups.

        Raises:
            UsageError: No file is found, one is named twice, or cannot be read from here.
            MissingPackage: PyArrow is not installed.
        """
        extras.check(["pyarrow"], "ParquetSource")
        self.files, self.image, self.label = readable_files_of(files, "*.parquet", "Parquet"), image, label
        self.cache_bytes, self._has_warned = cache_bytes, False
        self._lock, self._entries = threading.Lock(), dict[int, _Entry]()

    def __reduce__(self) -> tuple:
        return ParquetSource, (self.files, self.image, self.label, self.cache_bytes)

    def sizes(self) -> np.ndarray:
        """Returns the number of rows of each file, int64 [files]. The first call reads the metadata of all files.

        Raises:
            DataError: A file is missing, cut, or no Parquet file.
            UsageError: A file lacks a column, or it has another type.
        """
        return self._sizes

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the image files of these ids, int64 [n], and their labels, int64 [n]."""
        rows = self.rows(ids)
        groups = np.searchsorted(self._ends, rows, side="right")
        images, labels, new = [b""] * len(rows), np.empty(len(rows), np.int64), list[int]()
        for number, group in self._each(np.unique(groups).tolist(), new):
            first = self._ends[number] - len(group.labels)
            for at in np.flatnonzero(groups == number).tolist():
                place = int(rows[at] - first)
                content = group.images[place].as_py()
                if content is None:
                    file, group_number = self._groups[number]
                    raise DataError(
                        f"{self.files[file]}: column {self.image} has no bytes in row {place} of row group "
                        f"{group_number}: store the image files themselves, not their paths",
                        self.files[file],
                    )
                images[at], labels[at] = content, group.labels[place]
        self._warn(len(rows), new)
        return {"image": images, "label": labels}

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        """Returns the file of each id, and the byte at which the images of its row group start."""
        found = []
        for number in np.searchsorted(self._ends, self.rows(ids), side="right").tolist():
            file, group = self._groups[number]
            described = self._metadata[file].row_group(group)
            columns = map(described.column, range(described.num_columns))
            column = next(each for each in columns if each.path_in_schema in (self.image, f"{self.image}.bytes"))
            found.append((self.files[file], int(column.dictionary_page_offset or column.data_page_offset)))
        return found

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """Labels of all examples, int64 [examples], which are read alone."""
        columns = [
            self._opened(file, lambda opened: opened.read([self.label], use_threads=False)) for file in self.files
        ]
        return np.concatenate([self._labels(table, file) for table, file in zip(columns, self.files, strict=True)])

    @property
    def spec(self) -> dict[str, ArraySpec]:
        return {"image": ArraySpec((None,), "string"), "label": ArraySpec((None,), "int64")}

    def fingerprint(self) -> str:
        """Returns a hex digest of the names, sizes and ends of the files, and of the columns."""
        return self._fingerprint

    def as_json(self) -> dict[str, Any]:
        columns = {"image": self.image, "label": self.label, "cache_bytes": self.cache_bytes}
        return {"files": list(map(absolute, self.files)), **columns}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ParquetSource:
        return cls(**document)

    @functools.cached_property
    def _fingerprint(self) -> str:
        document = json.dumps([self.name, identities(self.files), self.image, self.label])
        return hashlib.blake2b(document.encode(), digest_size=16).hexdigest()

    @functools.cached_property
    def _facts(self) -> dict[str, object_store.Facts]:
        """The sizes and versions of the files that are objects."""
        urls = list(filter(object_store.is_url, self.files))
        return dict(zip(urls, object_store.facts(urls), strict=True))

    @functools.cached_property
    def _metadata(self) -> list[Any]:
        """The metadata of each file, after a check of its columns."""
        with readers(self.files) as pool:
            return list(pool.map(self._described, self.files))

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        return np.array([each.num_rows for each in self._metadata], np.int64)

    @functools.cached_property
    def _groups(self) -> list[tuple[int, int]]:
        """The row groups of all files: number of the file, and of the group in it."""
        counts = [each.num_row_groups for each in self._metadata]
        return [(file, group) for file, count in enumerate(counts) for group in range(count)]

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """Row after each row group, among the rows of all files; int64 [groups]."""
        return np.cumsum([self._metadata[file].row_group(group).num_rows for file, group in self._groups])

    def _described(self, file: str) -> Any:
        """Returns a file's metadata. Raises like `sizes`."""
        schema, metadata = self._opened(file, lambda opened: (opened.schema_arrow, opened.metadata))
        for name in (self.image, self.label):
            if name not in schema.names:
                raise UsageError(f"{file} has no column {name!r}, only {', '.join(schema.names)}")
        image, label = schema.field(self.image).type, schema.field(self.label).type
        if pa.types.is_struct(image) and image.get_field_index("bytes") >= 0:
            image = image.field("bytes").type
        if not (pa.types.is_binary(image) or pa.types.is_large_binary(image)):
            raise UsageError(f"{file}: column {self.image} has {image}, not the bytes of image files")
        if not pa.types.is_integer(label):
            raise UsageError(f"{file}: column {self.label} has {label}, not integers")
        return metadata

    def _each(self, numbers: list[int], new: list[int]) -> Iterator[tuple[int, _RowGroup]]:
        """Yields row groups; of objects a few at a time, which are read together."""
        if not self.is_remote:
            yield from ((number, self._cached(number, new)) for number in numbers)
            return
        with ThreadPoolExecutor(_TOGETHER) as pool:
            for at in range(0, len(numbers), _TOGETHER):
                few = numbers[at : at + _TOGETHER]
                yield from zip(few, pool.map(lambda number: self._cached(number, new), few), strict=True)

    @functools.cached_property
    def is_remote(self) -> bool:
        """See `Indexed`."""
        return is_remote(self.files)

    def _opened(self, path: str, use: Callable[[Any], T]) -> T:
        """Returns the result of `use` for an opened file. Raises DataError if it cannot be read."""
        found = self._facts.get(path)
        try:
            with pq.ParquetFile(path if found is None else object_store.RemoteFile(path, found)) as opened:
                return use(opened)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}", path) from None

    def _cached(self, number: int, new: list[int]) -> _RowGroup:
        """Returns a row group; adds its size to `new` if it had to be read."""
        with self._lock:
            entry = self._entries[number] = self._entries.pop(number, _Entry())  # the latest is the last
        with entry.lock:
            if entry.group is _NONE:
                entry.group = self._read(*self._groups[number])
                new.append(entry.group.size)
        with self._lock:
            size = sum(each.group.size for each in self._entries.values())
            while size > self.cache_bytes and len(self._entries) > _FEWEST:
                size -= self._entries.pop(next(iter(self._entries))).group.size
        return entry.group

    def _read(self, file: int, group: int) -> _RowGroup:
        path = self.files[file]
        try:
            found = self._facts.get(path)
            place = path if found is None else object_store.RemoteFile(path, found)
            with pq.ParquetFile(place, metadata=self._metadata[file], pre_buffer=found is not None) as opened:
                is_struct = pa.types.is_struct(opened.schema_arrow.field(self.image).type)
                columns = [f"{self.image}.bytes" if is_struct else self.image, self.label]
                table = opened.read_row_group(group, columns=columns, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: row group {group} cannot be read: {error}", path) from None
        images = table.column(self.image)
        return _RowGroup(images.flatten()[0] if is_struct else images, self._labels(table, path), table.nbytes)

    def _labels(self, table: Any, path: str) -> np.ndarray:
        labels = table.column(self.label)
        if labels.null_count:
            raise DataError(f"{path}: column {self.label} has rows without a value", path)
        return labels.to_numpy().astype(np.int64)

    def _warn(self, examples: int, new: list[int]) -> None:
        """Logs once that most examples of a batch needed a large row group of their own."""
        if self._has_warned or not len(new) * 2 > examples >= 4 or sum(new) <= LARGE_BYTES * len(new):
            return
        self._has_warned = True
        log.warning(
            "%s: a batch of %d examples read %d row groups with %d MiB: use shuffle=N with a window of a few row "
            "groups instead of shuffle=True, or write row groups of about 100 rows",
            *(self.files[0], examples, len(new), sum(new) >> 20),
        )
