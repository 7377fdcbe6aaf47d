"""A part of a YAML file with its line, so that a message can name the place of a fault; and kinds of single values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tfhet.errors import UsageError, shown


@dataclass(frozen=True)
class Kind:
    """The values that a field may have."""

    parse: Callable[[str], Any]
    """Returns the value of a text. Raises ValueError for any other."""
    wanted: str
    """The allowed values in words."""


def matching(pattern: str, wanted: str, most: int | None = None) -> Kind:
    """Text that a regular expression matches, with at most `most` characters."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text) or (most is not None and len(text) > most):
            raise ValueError
        return text

    return Kind(parse, wanted if most is None else f"{wanted}, at most {most} characters")


def named(known: Mapping[str, Any], wanted: str = "") -> Kind:
    """The values of `known`, by their names."""

    def parse(text: str) -> Any:
        if text not in known:
            raise ValueError
        return known[text]

    return Kind(parse, wanted or f"one of {', '.join(known)}")


def one_of(words: Sequence[str]) -> Kind:
    return named({word: word for word in words})


def whole(low: int, high: int, what: str = "a whole number") -> Kind:
    """A whole number, ends included."""
    return _between(int, low, high, f"{what} from {low} to {high}")


def number(low: float, high: float, wanted: str = "") -> Kind:
    """A number, ends included."""
    return _between(float, low, high, wanted or f"a number from {low:g} to {high:g}")


def _between(kind: Callable[[str], float], low: float, high: float, wanted: str) -> Kind:
    def parse(text: str) -> float:
        if not low <= (value := kind(text)) <= high:
            raise ValueError
        return value

    return Kind(parse, wanted)


NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, '.', '_' and '-'", 64)
REGION_NAME = matching(r"[a-z]{2}(-[a-z]+)+-[0-9]+", "the name of a region, like us-east-1")


@dataclass(frozen=True)
class Node:
    """One value, mapping or list of a YAML file."""

    name: str
    """Name in messages; "" for the whole file."""
    file: str
    at: yaml.Node

    @classmethod
    def parse(cls, text: str, file: str) -> Node | None:
        """Returns a whole file; None for an empty one. Raises UsageError for a text that is not YAML."""
        try:
            top = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise UsageError(f"{file}: not YAML: {' '.join(str(error).split())[:500]}") from None
        return None if top is None else cls("", file, top)

    @property
    def line(self) -> int:
        """Number of its line, from 1."""
        return int(self.at.start_mark.line) + 1

    @property
    def is_null(self) -> bool:
        return self.at.tag.endswith(":null")

    def refused(self, wanted: str) -> UsageError:
        """Returns an error that says where this part is, and what it must be."""
        return UsageError(f"{self.file}:{self.line}: {self.name or 'the file'} must be {wanted}")

    def value(self, kind: Kind) -> Any:
        """Returns the single value. Raises UsageError for a value that is not of that kind."""
        if isinstance(self.at, yaml.ScalarNode) and not self.is_null:
            try:
                return kind.parse(self.at.value)
            except ValueError:
                pass
        given = shown(self.at.value) if isinstance(self.at, yaml.ScalarNode) else "not a single value"
        raise self.refused(f"{kind.wanted}; it is {given}")

    def values(self, kinds: Mapping[str, Kind], needed: Sequence[str] = ()) -> dict[str, Any]:
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

    def named(self, names: Kind) -> dict[str, Node]:
        """Returns the parts of a mapping under names that the user chose. Raises UsageError for other names."""
        found = self.mapping()
        for name, part in found.items():
            try:
                names.parse(name)
            except ValueError:
                raise part.refused(f"called by {names.wanted}") from None
        return found

    def items(self) -> Iterator[Node]:
        """Yields the parts of a list. Raises UsageError for anything else."""
        if not isinstance(self.at, yaml.SequenceNode):
            raise self.refused("a list")
        for item in self.at.value:
            yield Node(self.name, self.file, item)

    def _part(self, name: str, at: yaml.Node) -> Node:
        return Node(f"{self.name}: {name}" if self.name else name, self.file, at)


def read_text(path: Path, kind: str) -> str:
    """Returns the text of a file. Raises UsageError for one that cannot be read. kind: what the file is."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: this {kind} cannot be read: {error}") from None
