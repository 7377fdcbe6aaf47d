"""Keeps what was read, for the next time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("cache")
@dataclass(frozen=True)
class Cache(Stream):
    """The records of a split, as the source gives them, are written down while they are read the first time, and read
    from there from then on. For sources that are far away; what the image stages make of a record is never kept.

    Each host has its own; the first pass of each fills it with the splits that it happens to get, so with several data
    workers it takes some passes until nearly all is there.
    """

    directory: str
    """An absolute path on every host that reads, or a URL that TensorFlow can write to."""

    setting: ClassVar[str] = "cache"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.directory.startswith("/") and "://" not in self.directory:
            self.refuse(f"directory is an absolute path, because other hosts use it too; not {self.directory!r}")

    @property
    def value(self) -> str:
        return self.directory
