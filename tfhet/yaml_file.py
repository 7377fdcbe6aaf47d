"""YAML files as typed classes (`tfhet.schema`).

    @dataclass(frozen=True)
    class ClusterFile:
        name: Name
        groups: Mapping[Name, Group]
        hosts: Annotated[int, whole(0, 100)] = 1

    YamlFile(read_text(path, "cluster file"), str(path)).read(ClusterFile)

`read` raises all mistakes at once, each with its line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from msgspec import Meta

from tfhet.errors import Mistakes, UsageError, nearest, shown
from tfhet.schema import bare, converted

T = TypeVar("T")
Key = Annotated[str, "key"]
"""The name under which a part of a YAML file stands; the part itself does not hold it."""


def read_text(path: Path, kind: str) -> str:
    """Returns the text of a file. Raises UsageError for one that cannot be read. kind: what the file is."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: this {kind} cannot be read: {error}") from None


_NULL = "tag:yaml.org,2002:null"
_LOADER = yaml.SafeLoader("")
_CONSTRUCT = {
    f"tag:yaml.org,2002:{kind}": getattr(_LOADER, f"construct_yaml_{kind}") for kind in ("int", "float", "bool")
}
Names = Mapping[Any, Callable[[str], Any]]


class YamlFile:
    """The text of a YAML file, and the line of each part of it that was read."""

    def __init__(self, text: str, path: str):
        """path: its name in messages. Raises UsageError for a text that is not YAML."""
        try:
            top = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise UsageError(f"{path}: not YAML: {' '.join(str(error).split())[:500]}") from None
        self.path = path
        self._top: Any = top or yaml.compose("{}", Loader=yaml.SafeLoader)
        self._lines: dict[str, int] = {}
        self._wrong: list[tuple[int, UsageError]] = []
        self._names: Names = {}

    def read(self, cls: type[T], names: Names | None = None) -> T:
        """Returns the content of the file.

        Raises UsageError with all mistakes: values that do not fit their annotation, missing and unknown fields, texts
        that are twice in a list, and the ValueErrors of the classes themselves.

        A field without value has its default. A field whose name in the file is another one has it in its metadata, as
        "name". A field of the type `Key` is the name of its part, one of the type `YamlFile` is this file.

        Args:
            names: Functions that return the value of a text, by the annotation of the fields that have such values;
                they raise ValueError for an unknown text.
        """
        self._names, self._wrong = names or {}, []
        found: T = self._value(cls, self._top, "")
        with Mistakes(error for _, error in sorted(self._wrong, key=operator.itemgetter(0))):
            return found

    def line(self, where: str) -> int:
        """The line, from 1, of a part such as `groups: dnn_group: count`, or of the nearest part above it."""
        while where and where not in self._lines:
            where = where.rpartition(": ")[0]
        return self._lines.get(where, 1)

    def mistake(self, where: str, why: str) -> UsageError:
        """Returns an error that names the file, the line of a part, the part, and `why`."""
        return UsageError(f"{self.path}:{self.line(where)}: {where or 'the file'} {why}")

    def _refused(self, node: yaml.Node, where: str, wanted: str) -> None:
        line = node.start_mark.line + 1
        self._wrong.append((line, UsageError(f"{self.path}:{line}: {where or 'the file'} must be {wanted}")))

    def _value(self, kind: Any, node: Any, where: str, key: str = "") -> Any:
        """The value of the part `key`; None if it is wrong."""
        self._lines.setdefault(where, node.start_mark.line + 1)
        inner, meta = bare(kind)
        arguments, mistakes = typing.get_args(inner), len(self._wrong)
        if typing.get_origin(inner) is Mapping:
            parts = self._parts(node, where, names=arguments[0])
            return {name: self._value(arguments[1], part, _joined(where, name), name) for name, part in parts.items()}
        if typing.get_origin(inner) is tuple:
            items = self._items(node, where, meta)
            return tuple(self._value(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(items))
        try:
            if dataclasses.is_dataclass(inner):
                fields = self._fields(inner, node, where, key)
                return inner(**fields) if len(self._wrong) == mistakes else None  # type: ignore[operator]
            if kind in self._names and isinstance(node, yaml.ScalarNode):
                return self._names[kind](node.value)
            return converted(_single(node, inner), kind)
        except ValueError as error:
            it_is = f"; it is {shown(node.value)}" if isinstance(node, yaml.ScalarNode) else ""
            return self._refused(node, where, f"{error}{it_is}")

    def _fields(self, cls: Any, node: yaml.Node, where: str, key: str) -> dict[str, Any]:
        """The values of a dataclass's fields."""
        kinds = _hints(cls)
        given = {Key: key, YamlFile: self}
        found = {name: given[kind] for name, kind in kinds.items() if kind in given}
        fields = {item.metadata.get("name", item.name): item for item in dataclasses.fields(cls)}
        known = [name for name, item in fields.items() if item.name not in found]
        mistakes, parts = len(self._wrong), self._parts(node, where, known)
        for name in known if parts or len(self._wrong) == mistakes else ():
            item = fields[name]
            is_needed = item.default is item.default_factory is dataclasses.MISSING
            if name in parts and (is_needed or parts[name].tag != _NULL):
                found[item.name] = self._value(kinds[item.name], parts[name], _joined(where, name), name)
            elif is_needed:
                self._refused(node, _joined(where, name), "given")
        return found

    def _parts(self, node: Any, where: str, known: Sequence[str] = (), names: Any = str) -> dict[str, yaml.Node]:
        """The parts of a mapping by name. known: the names that it may have, or else `names`: the type of all names."""
        if not isinstance(node, yaml.MappingNode) and node.tag != _NULL:
            self._refused(node, where, f"a mapping of {', '.join(known) or 'NAME: VALUE'}")
        found: dict[str, yaml.Node] = {}
        for at, part in node.value if isinstance(node, yaml.MappingNode) else ():
            name = at.value if isinstance(at, yaml.ScalarNode) else None
            if name in found or (known and name not in known):
                wanted = "given once" if name in found else f"one of {', '.join(known)}{nearest(name, known)}"
                self._refused(at, _joined(where, f"the name {shown(name)}"), wanted)
                continue
            try:
                found[converted(name, names)] = part
            except ValueError as error:
                self._refused(part, _joined(where, str(name)), f"called by {error}")
        return found

    def _items(self, node: Any, where: str, meta: Meta | None) -> list[yaml.Node]:
        """The parts of a list; none if it is wrong."""
        items = node.value if isinstance(node, yaml.SequenceNode) else []
        texts = [item.value for item in items if isinstance(item, yaml.ScalarNode)]
        least, most = (meta and meta.min_length) or 0, (meta and meta.max_length) or len(items)
        if isinstance(node, yaml.SequenceNode) and least <= len(items) <= most and len({*texts}) == len(texts):
            return items
        self._refused(node, where, f"a list{f' of {meta.description}' if meta else ''}, each of them once")
        return []


_hints = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))


def _joined(where: str, name: str) -> str:
    return f"{where}: {name}" if where else name


def _single(node: Any, kind: Any) -> Any:
    """The value of a single part: a number, true or false, unless a text is wanted; an empty one for other parts."""
    if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL:
        return None if node.tag == _NULL else {} if isinstance(node, yaml.MappingNode) else []
    with contextlib.suppress(ValueError, LookupError):  # such as a text that is tagged as a number
        if kind is not str and node.tag in _CONSTRUCT:
            return _CONSTRUCT[node.tag](node)
    return node.value
