"""Objects of JSON as dataclasses: their fields, and their schema version, checked."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from tfhet.errors import DataError, UsageError, shown
from tfhet.record.json_file import json_number

T = TypeVar("T")
_JSON: Mapping[Any, Any] = {
    **{kind: (kind,) for kind in (str, int, bool)},
    float: (float, int),
    Mapping: (dict,),
    **dict.fromkeys((Sequence, tuple), (list, tuple)),
}
"""Types of a field's JSON value, by the type of the field; that of a dataclass is an object."""


@dataclass(frozen=True)
class Check:
    """Says which values a field declared as `Annotated[int, Check("a TCP port", lambda n: 1 <= n <= 65535)]` takes: in
    words for errors, and whether a value of the type is one. convert: makes the field's value of the JSON value."""

    words: str
    holds: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


_types_of = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))


def check_schema(document: Mapping[str, Any], kind: str, schema: int, where: str = "") -> None:
    """Raises UsageError unless the document has the schema version that this code reads. where: path for the error."""
    found = document.get("schema")
    if found != schema or isinstance(found, bool):
        place = f" in {where}" if where else ""
        version = "no schema version" if found is None else f"schema {shown(found)}"
        cure = "read it with the tfhet that wrote it, or run again to write a new one"
        raise UsageError(f"{kind}{place} has {version}; this tfhet reads schema {schema}: {cure}")


def from_json_object(cls: type[T], content: Any, what: str, where: str = "", *, strict: bool = False) -> T:
    """The dataclass `cls` made of a JSON object, and those in its fields of the objects in it; a field that is missing,
    or, unless `strict`, null and not optional, takes its default. what, where: name of the object, and path of its
    file, for error messages. Raises DataError for a value that does not fit the annotation of its field, and for a
    missing field without a default."""
    place = f"{what} {where}".rstrip()
    found = content if isinstance(content, Mapping) else {}
    kinds = _types_of(cls)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for item in fields(cls):  # type: ignore[arg-type]
        given, kind = found.get(item.name), kinds[item.name]
        is_needed = item.default is MISSING and item.default_factory is MISSING
        if item.name not in found:
            if is_needed:
                raise DataError(f"{place}: `{item.name}` is missing", where or None)
            continue
        try:
            if given is not None or is_needed or strict or types.NoneType in typing.get_args(kind):
                values[item.name] = _typed(given, kind, f"{place}: {item.name}")
        except ValueError as error:
            wanted = error.args[0] or item.type
            raise DataError(f"{place}: `{item.name}` is {shown(given)}, not {wanted}", where or None) from None
    return cls(**values)


def _typed(value: Any, kind: Any, what: str) -> Any:
    """A JSON value as a field of type `kind` holds it. Raises ValueError if it does not fit, with words for what does,
    or ""."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):  # with None
        return None if value is None else _typed(value, kind.__args__[0], what)
    check: Check = getattr(kind, "__metadata__", [_ANYTHING])[0]
    outer = getattr(kind, "__origin__", kind)
    if outer in (float, Any):
        value = json_number(value)
    if outer is Any:
        return value
    if not isinstance(value, _JSON.get(outer, dict)) or (isinstance(value, bool) and outer is not bool):
        raise ValueError(check.words)
    if outer is Mapping:
        return {key: _typed(item, kind.__args__[1], f"{what} {shown(key)}") for key, item in value.items()}
    if outer in (Sequence, tuple):
        return tuple(_typed(item, kind.__args__[0], what) for item in value)
    if (outer in (int, float) and isinstance(value, int) and abs(value) > 2**63) or not check.holds(value):
        raise ValueError(check.words)  # every reader can convert smaller numbers to floats
    return check.convert(value) if outer in _JSON else from_json_object(outer, value, what)


_ANYTHING = Check("", lambda value: True)
