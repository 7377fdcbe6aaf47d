"""Objects of JSON as dataclasses: their fields, and their schema version, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from tfhet.errors import DataError, UsageError, shown
from tfhet.record.json_file import json_number

T = TypeVar("T")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    **dict.fromkeys(("Mapping", "Spread"), (dict,)),
    **dict.fromkeys(("Sequence", "tuple"), (list, tuple)),
}
"""Types of a field's JSON value, by the first word of the field's annotation."""


def check_schema(document: Mapping[str, Any], kind: str, schema: int, where: str = "") -> None:
    """Raises UsageError unless the document has the schema version that this code reads. where: path for the error."""
    found = document.get("schema")
    if found != schema or isinstance(found, bool):
        place = f" in {where}" if where else ""
        version = "no schema version" if found is None else f"schema {shown(found)}"
        raise UsageError(
            f"{kind}{place} has {version}; this tfhet reads schema {schema}: "
            "read it with the tfhet that wrote it, or run again to write a new one"
        )


def from_json_object(cls: type[T], content: Any, what: str, where: str = "") -> T:
    """The dataclass `cls` made of a JSON object; a field that is missing, or null and not optional, takes its default.

    what, where: name of the object, and path of its file, for error messages. Raises DataError for a value that does
    not fit the annotation of its field, and for a missing field without a default.
    """
    place = f"{what} {where}".rstrip()
    found = content if isinstance(content, Mapping) else {}
    values: dict[str, Any] = {}
    for item in fields(cls):  # type: ignore[arg-type]
        given, annotation = found.get(item.name), str(item.type)
        try:
            if given is not None or (item.name in found and annotation.endswith(" | None")):
                values[item.name] = _typed(given, annotation)
        except ValueError:
            raise DataError(f"{place}: `{item.name}` is {shown(given)}, not {annotation}", where or None) from None
    try:
        return cls(**values)
    except TypeError as error:
        raise DataError(f"{place} cannot be read: {error}", where or None) from None


def _typed(value: Any, annotation: str) -> Any:
    """A JSON value as a field with this annotation holds it. Raises ValueError if it does not fit."""
    if value is None and annotation.endswith(" | None"):
        return None
    outer, _, inner = annotation.removesuffix(" | None").removesuffix("]").partition("[")
    if outer in ("Any", "float"):
        value = json_number(value)
    kinds: tuple[type[Any], ...] = _TYPES.get(outer, (object,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and outer in _TYPES):
        raise ValueError(value)
    if outer == "Mapping":
        return {key: _typed(item, inner.removeprefix("str, ")) for key, item in value.items()}
    if outer in ("Sequence", "tuple"):
        return tuple(_typed(item, inner.removesuffix(", ...")) for item in value)
    if outer in ("int", "float") and isinstance(value, int) and abs(value) > 2**63:
        raise ValueError(value)  # every reader can convert smaller numbers to floats
    return value
