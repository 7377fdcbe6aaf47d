"""A part of a YAML file with its line, so that a message can name the place of a fault; and how its values are read:
by kinds of single values, and by what the fields of a dataclass are annotated with. All mistakes are raised at once."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import yaml

from tfhet.errors import Mistakes, UsageError, shown

T = TypeVar("T")
Reader = Callable[["Node"], Any]
"""Returns the value of a part. Raises UsageError for a part that may not be there so."""


@dataclass(frozen=True)
class Kind:
    """The values that a field may have; the reader of a single one."""

    parse: Callable[[str], Any]
    """Returns the value of a text. Raises ValueError or LookupError for a text that is none."""
    wanted: str
    """The allowed values in words."""
    allows: Callable[[Any], object] = lambda value: True
    """Whether a value is allowed."""

    def __call__(self, node: Node) -> Any:
        is_single = isinstance(node.at, yaml.ScalarNode)
        if is_single and not node.is_null:
            with contextlib.suppress(ValueError):
                return self.of(node.at.value)
        raise node.refused(f"{self.wanted}; it is {shown(node.at.value) if is_single else 'not a single value'}")

    def of(self, text: str) -> Any:
        """Returns the value of a text. Raises ValueError for one that is not allowed."""
        with contextlib.suppress(LookupError):
            if self.allows(value := self.parse(text)):
                return value
        raise ValueError(text)


def matching(pattern: str, wanted: str, most: int | None = None) -> Kind:
    """Text that a regular expression matches, with at most `most` characters."""
    limit = "" if most is None else f", at most {most} characters"
    return Kind(str, wanted + limit, lambda text: re.fullmatch(pattern, text) and (most is None or len(text) <= most))


def named(known: Mapping[str, Any], wanted: str = "") -> Kind:
    """The values of `known`, by their names."""
    return Kind(known.__getitem__, wanted or f"one of {', '.join(known)}")


def one_of(words: Sequence[str]) -> Kind:
    return named({word: word for word in words})


def whole(low: int, high: int, what: str = "a whole number") -> Kind:
    """A whole number, ends included."""
    return Kind(int, f"{what} from {low} to {high}", lambda value: low <= value <= high)


def number(low: float, high: float, wanted: str = "") -> Kind:
    """A number, ends included."""
    return Kind(float, wanted or f"a number from {low:g} to {high:g}", lambda value: low <= value <= high)


NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, '.', '_' and '-'", 64)
REGION_NAME = matching(r"[a-z]{2}(-[a-z]+)+-[0-9]+", "the name of a region, like us-east-1")


def made(cls: type) -> Reader:
    """The reader of a part that is a dataclass."""
    return lambda node: node.made(cls)


def each(names: Kind, reader: Reader) -> Reader:
    """The reader of parts under names that the user chose."""
    return lambda node: read_each(node.named(names), lambda _: reader)


def listed(kind: Kind, wanted: str, most: float = float("inf")) -> Reader:
    """The reader of a list of at least one and at most `most` different values. wanted: these in words."""

    def read(node: Node) -> tuple[Any, ...]:
        found = tuple(read_each({str(at): part for at, part in enumerate(node.items())}, lambda _: kind).values())
        if not 1 <= len(set(found)) == len(found) <= most:
            raise node.refused(f"a list of {wanted}, each of them once")
        return found

    return read


def read_each(parts: Mapping[str, Node], reader_of: Callable[[str], Reader]) -> dict[str, Any]:
    """Returns what is read of parts, by their names."""
    found = {}
    with Mistakes() as mistakes:
        for name, part in parts.items():
            with mistakes.noted():
                found[name] = reader_of(name)(part)
    return found


@functools.cache
def readers(cls: type) -> Mapping[str, Reader]:
    """The readers that a dataclass's fields are annotated with, by name: `field: Annotated[str, NAME]`."""
    hints = get_type_hints(cls, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if hasattr(hint, "__metadata__")}


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

    def values(self, readers: Mapping[str, Reader], needed: Sequence[str] = ()) -> dict[str, Any]:
        """Returns what is read of a mapping by name. Raises UsageError for other names, and for missing ones."""
        with Mistakes() as mistakes:
            return read_each(self.mapping(tuple(readers), needed, mistakes), readers.__getitem__)

    def made(self, cls: Callable[..., T], **given: Any) -> T:
        """Returns a dataclass, of `given` and of a mapping with its annotated fields. Those without a default must be
        there."""
        known = readers(cls)
        bare = [each.name for each in fields(cls) if each.default is each.default_factory is MISSING]  # type: ignore[arg-type]
        return cls(**given, **self.values(known, [name for name in bare if name in known]))

    def mapping(
        self, known: Sequence[str] = (), needed: Sequence[str] = (), mistakes: Mistakes | None = None
    ) -> dict[str, Node]:
        """Returns the parts of a mapping by name. Raises UsageError, or leaves it to `mistakes`, for a name not in
        `known`, or a missing one."""
        if mistakes is None:
            with Mistakes() as mistakes:
                return self.mapping(known, needed, mistakes)
        if not isinstance(self.at, yaml.MappingNode):
            raise self.refused(f"a mapping of {', '.join(known)}" if known else "a mapping of NAME: VALUE")
        found: dict[str, Node] = {}
        for key, value in self.at.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if isinstance(name, str) and name not in found and (not known or name in known):
                found[name] = self._part(name, value)
                continue
            wanted = f"one of {', '.join(known)}" if known else "a word"
            wrong = self._part(f"the name {shown(name)}", key)
            mistakes.add(wrong.refused("given once" if name in found else wanted))
        for name in needed:
            if name not in found:
                mistakes.add(self._part(name, self.at).refused("given"))
        return found

    def named(self, names: Kind) -> dict[str, Node]:
        """Returns the parts of a mapping under names that the user chose. Raises UsageError for other names."""
        found = self.mapping()
        with Mistakes() as mistakes:
            for name, part in found.items():
                try:
                    names.of(name)
                except ValueError:
                    mistakes.add(part.refused(f"called by {names.wanted}"))
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
