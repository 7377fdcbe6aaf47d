"""Files in object stores and behind HTTP servers: listing, sizes, and reading of many ranges at the same time.

    urls = listed("s3://bucket/train/")
    contents = read(["s3://bucket/a.tar"] * 2, [512, 4096], [2048, 1024])

The client is obstore (the extra `object_store`), which only such URLs import. Its requests run without Python's lock,
with deadlines and bounded retries; fsspec has twice the CPU time per request, and its s3fs pins the version of boto3.
"""

from __future__ import annotations

import functools
import io
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from tfhet import extras
from tfhet.errors import DataError, UsageError
from tfhet.kernels import Contents
from tfhet.source.object_errors import replaced_error, request_error, store_error

obstore = extras.deferred("obstore")
stores = extras.deferred("obstore.store")
failures = extras.deferred("obstore.exceptions")

SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "http", "https", "memory")
REQUESTS = 128
"""Maximum number of requests at the same time in a process."""
REQUEST_S, RETRY_S, RETRIES = 30, 60, 4
"""Deadline of an attempt in seconds; the time after which, and the number after which, a request is not tried again."""
LIMIT_S = 150.0
"""Deadline of a request with its retries; a call fails if none of its requests ends within it."""
GAP_BYTES, PART_BYTES = 16 << 10, 8 << 20
"""Ranges of an object with at most this gap become one request, up to this size."""


class Facts(NamedTuple):
    """An object as it was found."""

    size: int
    """Bytes."""
    tag: str
    """Name of this content (a strong ETag); "" if the server has none."""
    modified_s: float
    """Time of the last change, seconds since 1970; 0 if the server does not state it."""

    @property
    def version(self) -> str:
        """Differs for another content of the object; "" if the server states nothing that would tell."""
        return self.tag or (f"modified {self.modified_s:g}" if self.modified_s else "")


def is_url(path: str) -> bool:
    """Whether this module reads a path. TensorFlow may read `gs://` where obstore is not installed."""
    scheme, mark, _ = path.partition("://")
    return bool(mark) and scheme in SCHEMES and (scheme != "gs" or extras.has("obstore"))


def facts(urls: Sequence[str]) -> list[Facts]:
    """Returns the size and version of objects. Raises DataError for one that cannot be read."""
    return _finished([(url, _submit(_look_at, url)) for url in urls])


def exists(url: str) -> bool:
    """Whether there is such an object. Raises DataError if the store cannot be reached, or refuses to answer."""
    try:
        facts([url])
    except DataError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
    return True


def listed(folder: str) -> list[str]:
    """Returns the URLs of all objects below a folder, sorted; [] if there is none.

    Raises:
        UsageError: The server of the URL has no listing: HTTP.
        DataError: The store cannot be reached, or refuses to list.
    """
    root, prefix = _parsed(folder)
    if root.startswith("http"):
        raise UsageError(f"{folder}: an HTTP server cannot be listed: pass the URLs of the files as a list")

    below = prefix.rstrip("/") + "/" if prefix else None
    listing = functools.partial(obstore.list, _store(root, os.getpid()), below, chunk_size=1000)
    pages = iter(_finished([(folder, _submit(listing))])[0])
    found: list[str] = []
    while page := _finished([(folder, _submit(next, pages, None))])[0]:  # each page has the deadline
        found += (f"{root}/{each['path']}" for each in page)
    return sorted(found)


def read(
    urls: Sequence[str],
    offsets: Sequence[int] | np.ndarray | None = None,
    lengths: Sequence[int] | np.ndarray | None = None,
    tags: Sequence[str] | None = None,
) -> Contents:
    """Reads objects, or ranges of them. Near ranges of an object become one request (GAP_BYTES, PART_BYTES).

    Args:
        urls: Object of each item, [n].
        offsets, lengths: First byte and number of bytes of each item, [n]; None: whole objects.
        tags: Version that each item's object must have, `Facts.tag`; "": any.

    Returns:
        The bytes of each item, [n].

    Raises:
        DataError: An object is missing, was replaced, is too short, cannot be read, or does not arrive in time. It has
            the URL.
    """
    if offsets is None or lengths is None:
        wholes = _finished([(url, _submit(_fetch, url)) for url in urls])
        return Contents(
            np.array([each.ctypes.data for each in wholes], np.uint64), np.array([*map(len, wholes)], np.int64), wholes
        )
    begins, sizes = np.asarray(offsets, np.int64), np.asarray(lengths, np.int64)
    requests = _coalesced(urls, begins, sizes)
    made = [(urls[items[0]], begin, end, tags[items[0]] if tags else "") for items, begin, end in requests]
    parts = _finished([(one[0], _submit(_fetch, *one)) for one in made])
    addresses = np.empty(len(urls), np.uint64)
    for (items, begin, _), part in zip(requests, parts, strict=True):
        addresses[items] = part.ctypes.data + begins[items] - begin
    return Contents(addresses, sizes, parts)


def write(url: str, content: bytes) -> None:
    """Writes an object, whole or not at all.

    Raises:
        UsageError: The URL is one of HTTP.
        DataError: The store cannot be reached, or refuses.
    """
    root, path = _parsed(url)
    if root.startswith("http"):
        raise UsageError(f"{url}: an HTTP server cannot be written to: use s3://, gs:// or az://")
    put = functools.partial(obstore.put, use_multipart=False)
    _finished([(url, _submit(put, _store(root, os.getpid()), path, content))], is_write=True)


def opened(url: str, buffer_bytes: int, found: Facts | None = None) -> io.BufferedReader:
    """Returns an object as a file that is read in ranges of `buffer_bytes`. Raises DataError, also when it is read."""
    return io.BufferedReader(RemoteFile(url, found), buffer_bytes)


class RemoteFile(io.RawIOBase):
    """An object as a file; each read is a request, a large one several at the same time."""

    def __init__(self, url: str, found: Facts | None = None) -> None:
        self.name, self.facts, self._at = url, found or facts([url])[0], 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self.facts.size)[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        size = max(0, min(len(view), self.facts.size - self._at))
        begins = list(range(self._at, self._at + size, PART_BYTES))
        sizes = [min(PART_BYTES, self._at + size - begin) for begin in begins]
        urls, tags = [self.name] * len(begins), [self.facts.tag] * len(begins)
        for place, part in zip(begins, read(urls, begins, sizes, tags), strict=True):
            view[place - self._at : place - self._at + len(part)] = part
        self._at += size
        return size


def _coalesced(urls: Sequence[str], begins: np.ndarray, sizes: np.ndarray) -> list[tuple[list[int], int, int]]:
    """Returns requests: the numbers of their items, and their first byte and the byte after them."""
    order = sorted(range(len(urls)), key=lambda item: (urls[item], begins[item]))
    found: list[tuple[list[int], int, int]] = []
    for item, begin, end in zip(order, begins[order].tolist(), (begins + sizes)[order].tolist(), strict=True):
        if found:
            items, first, last = found[-1]
            is_near = urls[items[0]] == urls[item] and begin - last <= GAP_BYTES
            if is_near and (end <= last or end - first <= PART_BYTES):
                items.append(item)
                found[-1] = items, first, max(end, last)
                continue
        found.append(([item], begin, end))
    return found


def _look_at(url: str) -> Facts:
    root, path = _parsed(url)
    found = obstore.head(_store(root, os.getpid()), path)
    tag = found["e_tag"] or ""
    tag = "" if tag.startswith("W/") else tag  # a weak one never matches
    return Facts(int(found["size"]), tag, found["last_modified"].timestamp())


def _fetch(url: str, begin: int = 0, end: int | None = None, tag: str = "") -> np.ndarray:
    """Returns a range of an object, uint8 [bytes]; end None: all of it."""
    root, path = _parsed(url)
    options: dict[str, Any] = {} if end is None else {"range": (begin, end)}
    options |= {"if_match": tag} if tag else {}
    if end == begin:
        return np.empty(0, np.uint8)
    answer = obstore.get(_store(root, os.getpid()), path, options=options)
    if tag and answer.meta["e_tag"] not in (tag, None):  # a server that ignores If-Match
        raise replaced_error(url)
    wanted = answer.meta["size"] if end is None else end - begin
    content = np.frombuffer(answer.bytes(), np.uint8)
    if len(content) != wanted or (end is not None and tuple(answer.range) != (begin, end)):
        raise DataError(
            f"{url}: {len(content)} of {wanted} bytes from byte {begin} on arrived: the object is shorter than its "
            "index, or the server cut it: upload it again",
            url,
            begin,
        )
    return content


@functools.lru_cache(maxsize=64)
def _parsed(url: str) -> tuple[str, str]:
    """Returns the store of a URL, and the path in it."""
    parts = urlsplit(url, allow_fragments=False)
    is_http = parts.scheme in ("http", "https")
    if is_http and parts.query:
        raise UsageError(
            f"{url.partition('?')[0]}: a URL with a query (?...) cannot be read: use s3:// or gs:// with credentials"
        )
    root = f"{parts.scheme}://{parts.netloc}"
    path = url[len(root) :].lstrip("/")
    return root, unquote(path) if is_http else path


@functools.lru_cache(maxsize=64)
def _store(root: str, process: int) -> Any:
    extras.check(["obstore"], f"{root}/")
    retries = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
    options = {"timeout": f"{REQUEST_S}s", "connect_timeout": "5s", "allow_http": True}
    try:
        if root.startswith("memory"):
            return stores.MemoryStore()
        # from_url reads https:// URLs of cloud providers as buckets, and needs credentials for them
        make = stores.HTTPStore.from_url if root.startswith("http") else stores.from_url
        return make(root, client_options=options, retry_config=retries)
    except failures.BaseError as error:
        raise store_error(root, error) from None


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(REQUESTS, "tfhet-object-store")


_FIRST_PROCESS: list[int] = []


def _submit(work: Callable[..., Any], *args: Any) -> Future[Any]:
    extras.check(["obstore"], "reading of s3://, gs:// and https:// URLs")
    if (process := os.getpid()) not in (_FIRST_PROCESS or [process]):  # the client's threads were not forked
        raise UsageError("this process was forked after it had read from an object store: start it by spawn instead")
    _FIRST_PROCESS[:] = [process]
    return _pool(process).submit(_request, work, *args)


def _request(work: Callable[..., Any], *args: Any) -> Any:
    if not threading.main_thread().is_alive():
        raise UsageError("the program ends, so it makes no further requests")
    return work(*args)


def _finished(requests: Iterable[tuple[str, Future[Any]]], is_write: bool = False) -> list[Any]:
    """Returns the results of requests. Raises DataError, with the URL, for the first that failed."""
    waiting, results = list(requests), []
    try:
        for url, future in waiting:
            try:
                results.append(future.result(LIMIT_S))
            except (DataError, UsageError):
                raise
            except Exception as error:
                raise request_error(url, error, LIMIT_S, is_write) from error
    finally:
        for _, future in waiting[len(results) :]:
            future.cancel()
    return results
