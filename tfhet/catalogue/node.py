"""A part of a YAML file with its line, so that a message can name the place of a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tfhet.errors import UsageError, shown

MOST_CHARACTERS = 1_000_000
"""Maximum number of characters of a file."""


@dataclass(frozen=True)
class Kind:
    """The values that a field may have."""

    parse: Callable[[str], Any]
    """Returns the value of a text. Raises ValueError for any other."""
    wanted: str
    """The allowed values in words."""


@dataclass(frozen=True)
class Node:
    """One value, mapping or list of a YAML file."""

    name: str
    """Name in messages; "" for the whole file."""
    file: str
    at: yaml.Node

    @classmethod
    def parse(cls, text: str, file: str) -> Node | None:
        """Returns a whole file; None for an empty one. Raises UsageError for a text that is not YAML, or too long."""
        if len(text) > MOST_CHARACTERS:
            raise UsageError(f"{file}: {len(text)} characters; a file has at most {MOST_CHARACTERS}")
        try:
            top = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise UsageError(f"{file}: not YAML: {' '.join(str(error).split())[:500]}") from None
        return None if top is None else cls("", file, top)

    @property
    def line(self) -> int:
        """Number of its line, from 1."""
        return int(self.at.start_mark.line) + 1

    def refused(self, wanted: str) -> UsageError:
        """Returns an error that says where this part is, and what it must be."""
        return UsageError(f"{self.file}:{self.line}: {self.name or 'the file'} must be {wanted}")

    def value(self, kind: Kind) -> Any:
        """Returns the single value. Raises UsageError for a value that is not of that kind."""
        if isinstance(self.at, yaml.ScalarNode) and not self.at.tag.endswith(":null"):
            try:
                return kind.parse(self.at.value)
            except (ValueError, OverflowError):
                pass
        given = shown(self.at.value) if isinstance(self.at, yaml.ScalarNode) else "not a single value"
        raise self.refused(f"{kind.wanted}; it is {given}")

    def values(self, kinds: dict[str, Kind], needed: Sequence[str]) -> dict[str, Any]:
        """Returns the single values of a mapping by name. Raises UsageError for other names, and for missing ones."""
        parts = self.mapping(tuple(kinds), needed)
        return {name: part.value(kinds[name]) for name, part in parts.items()}

    def mapping(self, known: Sequence[str] = (), needed: Sequence[str] = ()) -> dict[str, Node]:
        """Returns the parts of a mapping by name. Raises UsageError for a name not in `known`, or a missing one."""
        if not isinstance(self.at, yaml.MappingNode):
            raise self.refused(f"a mapping of {', '.join(known)}" if known else "a mapping of NAME: VALUE")
        found: dict[str, Node] = {}
        for key, value in self.at.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if not isinstance(name, str) or (known and name not in known) or name in found:
                wanted = f"one of {', '.join(known)}" if known else "a word"
                raise self._part(f"the name {shown(name)}", key).refused("given once" if name in found else wanted)
            found[name] = self._part(name, value)
        for name in needed:
            if name not in found:
                raise self._part(name, self.at).refused("given")
        return found

    def _part(self, name: str, at: yaml.Node) -> Node:
        return Node(f"{self.name}: {name}" if self.name else name, self.file, at)

    def items(self) -> Iterator[Node]:
        """Yields the parts of a list. Raises UsageError for anything else."""
        if not isinstance(self.at, yaml.SequenceNode):
            raise self.refused("a list")
        for item in self.at.value:
            yield Node(self.name, self.file, item)


def number(text: str) -> float:
    """Returns a number above 0, up to a million. Raises ValueError."""
    value = float(text)
    if not 0.0 < value <= 1e6:
        raise ValueError
    return value


def count(text: str) -> int:
    """Returns a whole number from 0 to a million. Raises ValueError."""
    value = int(text)
    if not 0 <= value <= 1_000_000:
        raise ValueError
    return value


def words(text: str) -> str:
    """Returns text on one line that is not empty, of at most 200 characters. Raises ValueError."""
    if not text.strip() or len(text) > 200 or not text.isprintable():
        raise ValueError
    return text
