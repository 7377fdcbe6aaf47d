"""Keeps records on local disk after the first reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("cache")
@dataclass(frozen=True)
class Cache(Stream):
    """Writes the records of a split to a directory at the first reading, and reads them from there afterwards.

    It is for slow or remote sources; the results of image stages are never kept. Each host has a cache of its own with
    the splits that its workers have read, so with several data workers it takes some passes until it holds nearly all
    of them.
    """

    directory: str
    """Absolute path on every reading host, or a URL that TensorFlow can write to."""

    setting: ClassVar[str] = "cache"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.directory.startswith("/") and "://" not in self.directory:
            self.refuse(f"directory is an absolute path, because other hosts use it too; not {self.directory!r}")

    @property
    def value(self) -> str:
        return self.directory
