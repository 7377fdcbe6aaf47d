"""JSON files, written whole or not at all, and the values that they hold.

Numbers that JSON does not have (a loss that became NaN) are written as the strings "NaN", "Infinity" and "-Infinity",
as in protobuf's JSON mapping, so that every JSON reader accepts the file.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from tfhet.errors import DataError, UsageError


def json_value(value: Any) -> Any:
    """`value` as JSON has it, with string keys. NumPy scalars and arrays become numbers and lists, dataclasses
    mappings, objects with `to_json` its result, all others their text."""
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
    if hasattr(value, "to_json"):
        return json_value(value.to_json())
    if is_dataclass(value):  # not vars(): an object that msgspec made holds no defaults itself
        return {item.name: json_value(getattr(value, item.name)) for item in fields(value)}
    return str(value)


def write_text(path: Path, content: str) -> Path:
    """Writes `content` (UTF-8) to `path` and makes its folders. A reader finds the old file or the new one, whole. A
    lone surrogate, which UTF-8 cannot encode (from a file name that is not UTF-8), is written as a JSON escape. A
    device or a pipe is written to, and not replaced."""
    path = Path(path)
    if path.exists() and not path.is_file():
        path.write_text(content, encoding="utf-8", errors="backslashreplace")
        return path
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
    """The JSON object in the file `path`. kind: name of the document ("run summary") in error messages. Raises
    UsageError for a file that is missing or may not be read, and DataError for anything but a JSON object."""
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
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a {kind}: not JSON ({error})", str(path)) from None
    if not isinstance(document, dict):
        raise DataError(f"{path} is not a {kind}: its JSON is a {type(document).__name__}, not an object", str(path))
    return document
