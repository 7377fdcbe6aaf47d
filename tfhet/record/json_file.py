"""JSON files: written whole or not at all, read with their kind and schema version checked.

Numbers that JSON does not have (a loss that became NaN) are written as the strings "NaN", "Infinity" and "-Infinity",
as in protobuf's JSON mapping, so that every JSON reader accepts the file.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from tfhet.errors import DataError, UsageError, shown

T = TypeVar("T")
MOST_NESTED = 100
"""Maximum depth of a document that is read; a deeper one could not be written again."""

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    **dict.fromkeys(("Mapping", "Spread"), (dict,)),
    **dict.fromkeys(("Sequence", "tuple"), (list, tuple)),
}
"""Types of a field's JSON value, by the first word of the field's annotation."""


def json_value(value: Any) -> Any:
    """`value` as JSON holds it: mappings with string keys, lists, finite numbers, strings, booleans and None.

    NumPy scalars and arrays become numbers and lists, objects with `to_json` what it returns, all others their text.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            if math.isfinite(value):
                return float(value)
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {str(key): json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [json_value(item) for item in value]
        case set() | frozenset():
            return sorted((json_value(item) for item in value), key=str)
    if hasattr(value, "tolist"):
        return json_value(value.tolist())
    return json_value(value.to_json()) if hasattr(value, "to_json") else str(value)


def json_number(value: Any) -> Any:
    """The float for one of the words that `json_value` writes; any other value unchanged."""
    return _WORDS.get(value, value) if isinstance(value, str) else value


def write_text(path: Path, content: str) -> Path:
    """Writes `content` (UTF-8) to `path` and makes its folders. A reader finds the old file or the new one, whole.

    A lone surrogate, which UTF-8 cannot encode (from a file name that is not UTF-8), is written as a JSON escape.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_json(path: Path, document: Mapping[str, Any]) -> Path:
    """Writes `document` as indented JSON, in the order of its keys, to `path`, whole or not at all."""
    return write_text(path, json.dumps(json_value(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """The JSON object in the file `path`. kind: name of the document ("run summary") in error messages.

    Raises UsageError for a file that is missing or may not be read, and DataError for anything but a JSON object of at
    most MOST_NESTED levels.
    """
    try:
        content = Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no {kind} at {path}: the file does not exist") from None
    except IsADirectoryError:
        raise UsageError(f"no {kind} at {path}: it is a folder; name the JSON file in it") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a {kind}: not UTF-8 text ({error.reason})", str(path), error.start) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"no {kind} at {path}: it cannot be read ({error})") from None
    try:
        document = json.loads(content)
        if _depth(document) > MOST_NESTED:
            raise ValueError(f"more than {MOST_NESTED} levels of lists and objects")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a {kind}: not JSON ({error})", str(path)) from None
    if not isinstance(document, dict):
        raise DataError(f"{path} is not a {kind}: its JSON is a {type(document).__name__}, not an object", str(path))
    return document


def _depth(value: Any) -> int:
    """Number of lists and objects around the innermost value."""
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


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
