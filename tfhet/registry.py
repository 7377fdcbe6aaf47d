"""A registry: implementations of one protocol by name, with those of third parties by entry points."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from tfhet.errors import UsageError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Implementations by name. Each is imported on first use."""

    def __init__(self, kind: str, group: str, own: Mapping[str, str], others: tuple[str, ...] = ()):
        """kind: their name in error messages. group: of the entry points of third parties. own: by name the
        `module:attribute` of each that tfhet ships. others: words that may stand for a name, like `auto`."""
        self._kind, self._group, self._own, self._others = kind, group, dict(own), others

    def names(self) -> tuple[str, ...]:
        """All names, those of third parties last."""
        return tuple({**self._own, **dict.fromkeys(_points(self._group), "")})

    def get(self, name: str) -> T:
        """The implementation of that name. Raises UsageError for an unknown name, listing the known names and `others`,
        and when the module of a third party cannot be imported."""
        if name in self._own:
            module, _, attribute = self._own[name].partition(":")
            return cast("T", getattr(importlib.import_module(module), attribute))
        points: Mapping[str, Any] = _points(self._group)
        if name not in points:
            unknown(self._kind, name, (*self._others, *self.names()))
        try:
            return cast("T", points[name].load())
        except (ImportError, AttributeError) as error:
            what = f"the {self._kind} {name!r} of another package"
            raise UsageError(f"{what} cannot be loaded: {points[name].value}: {error}") from error


@functools.cache
def _points(group: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
