"""A JSON document on disk: written whole or not at all, read with its kind and schema version checked.

Numbers that JSON does not have (a loss that became NaN) are written as the strings "NaN", "Infinity" and "-Infinity",
as in protobuf's JSON mapping, so that every JSON reader accepts the file.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfhet.errors import DataError, UsageError, shown

MOST_NESTED = 100
"""Maximum depth of a document that is read; a deeper one could not be written again."""

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain(value: Any) -> Any:
    """`value` as JSON holds it: mappings with string keys, lists, finite numbers, strings, booleans and None.

    NumPy scalars and arrays become numbers and lists; any other object becomes its text.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def number(value: Any) -> Any:
    """The float for one of the words that `plain` writes; any other value unchanged."""
    return _WORDS.get(value, value) if isinstance(value, str) else value


def text(document: Mapping[str, Any]) -> str:
    """The document as indented JSON in the order of its keys, ending with a line break."""
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


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


def write(path: Path, document: Mapping[str, Any]) -> Path:
    """Writes `document` as JSON to `path`, whole or not at all."""
    return write_text(path, text(document))


def read(path: Path, kind: str) -> dict[str, Any]:
    """The JSON object in the file `path`. kind: name of the document ("run summary") in error messages.

    Raises UsageError for a file that is missing or may not be read, and DataError for anything but a JSON object of at
    most MOST_NESTED levels.
    """
    path = Path(path)
    try:
        content = path.read_text(encoding="utf-8")
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
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not a {kind}: not JSON ({error})", str(path), error.pos) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        raise DataError(f"{path} is not a {kind}: {str(error)[:200]}", str(path)) from None
    if not isinstance(document, dict):
        raise DataError(f"{path} is not a {kind}: its JSON is a {type(document).__name__}, not an object", str(path))
    if _levels(document) > MOST_NESTED:
        raise DataError(f"{path} is not a {kind}: more than {MOST_NESTED} levels of lists and objects", str(path))
    return document


def _levels(document: Any) -> int:
    count, level = 0, [document]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        count += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return count


def check_schema(document: Mapping[str, Any], kind: str, schema: int, where: str = "") -> None:
    """Raises UsageError unless the document has the schema version that this code reads."""
    found = document.get("schema")
    if found != schema or isinstance(found, bool):
        place = f" in {where}" if where else ""
        version = "no schema version" if found is None else f"schema {shown(found)}"
        raise UsageError(
            f"{kind}{place} has {version}; this tfhet reads schema {schema}: "
            "read it with the tfhet that wrote it, or run again to write it anew"
        )
