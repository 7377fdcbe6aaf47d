"""Messages as frozen dataclasses: what each kind holds, written as JSON values and checked when they are read.

    @dataclass(frozen=True)
    class Restarted:
        host: str
        code: int | None = None

    grammar = Grammar({"restarted": Restarted})
    grammar.to_json(Restarted("algo-1", -9))       # {"type": "restarted", "host": "algo-1", "code": -9}
    grammar.parse({"type": "restarted"})           # MessageError: restarted: host is missing

A class adds conditions of its own in `__post_init__`, by raising MessageError.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from tfhet.errors import TfhetError, shown

MAX_NUMBER = 2**53
"""Whole numbers lie within +-2**53, which every JSON reader keeps exact."""
MAX_CODE = 255
"""Exit codes lie within +-255; the operating system cuts a larger one, and 256 would become success."""
ANY_FLOAT = {"any_float": True}
"""Metadata of a field that may also be nan or infinite."""


class MessageError(TfhetError, ValueError):
    """Values that are not a message; the text names the kind and the field that is wrong."""


class UnknownKind(MessageError):
    """A message of a kind that the grammar does not have, perhaps of a later version."""


class Grammar:
    """All kinds of message that one process may send to another.

    kinds: a frozen dataclass by the name that stands under "type". Its fields may be str, int, float, bool,
    `tuple[str, ...]`, `Mapping[str, Any]` (JSON values that pass unchecked) and each of these or None.
    """

    def __init__(self, kinds: Mapping[str, type[Any]]):
        self.kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}
        self._fields = {name: _readers(kind) for name, kind in kinds.items()}

    def to_json(self, message: object) -> dict[str, Any]:
        """The JSON values that `parse` reads. Raises KeyError for an object of another grammar."""
        values = {item.name: getattr(message, item.name) for item in fields(message)}  # type: ignore[arg-type]
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"type": self._names[type(message)], **plain}

    def parse(self, values: object) -> Any:
        """The message in some JSON values; fields that its kind does not have are ignored.

        Raises MessageError, and nothing else, for whatever is not a message; UnknownKind where only the kind is new.
        """
        if not isinstance(values, Mapping):
            raise MessageError(f"a message is an object, not {shown(values)}")
        name = values.get("type")
        if not isinstance(name, str):
            raise MessageError(f"the type of a message is a text, not {shown(name)}")
        if name not in self.kinds:
            raise UnknownKind(f"unknown type of message {shown(name)}; known: {', '.join(sorted(self.kinds))}")
        found = {}
        for item, reader in self._fields[name]:
            if item.name in values:
                try:
                    found[item.name] = reader(values[item.name])
                except ValueError as error:
                    raise MessageError(f"{name}: {item.name} {error}, not {shown(values[item.name])}") from None
            elif item.default is MISSING and item.default_factory is MISSING:
                raise MessageError(f"{name}: {item.name} is missing")
        try:
            return self.kinds[name](**found)
        except MessageError as error:
            raise MessageError(f"{name}: {error}") from None


def encode(values: Mapping[str, Any]) -> bytes:
    """JSON values as bytes without a line end. Raises MessageError for what JSON cannot hold."""
    try:
        return json.dumps(values, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"a message holds JSON values only: {error}") from error


def decode(data: bytes) -> dict[str, Any]:
    """The object in some bytes. Raises MessageError, and nothing else, for whatever is not one."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message is JSON, not {data[:40]!r}") from error
    if not isinstance(values, dict):
        raise MessageError(f"a message is an object, not {shown(values)}")
    return values


def check_code(code: int) -> None:
    """Raises MessageError for a number with which no process exits."""
    if not -MAX_CODE <= code <= MAX_CODE:
        raise MessageError(f"no process exits with code {shown(code)}")


def check_amounts(**amounts: float | None) -> None:
    """Raises MessageError for an amount below zero; None passes."""
    for name, value in amounts.items():
        if value is not None and value < 0:
            raise MessageError(f"{name} is an amount, not {shown(value)}")


def _readers(kind: type[Any]) -> list[tuple[Field[Any], Callable[[Any], Any]]]:
    hints = typing.get_type_hints(kind)
    return [(item, _reader(hints[item.name], bool(item.metadata.get("any_float")))) for item in fields(kind)]


def _reader(hint: Any, any_float: bool) -> Callable[[Any], Any]:
    """The function that checks a value of a field; it raises ValueError with the words for what it should be."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (inner,) = (each for each in typing.get_args(hint) if each is not type(None))
        read = _reader(inner, any_float)
        return lambda value: None if value is None else read(value)
    if any_float and hint is float:
        return _any_float
    return _READERS[hint]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is a text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is true or false")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise ValueError("is a whole number within 2**53")
    return value


def _any_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("is a number")
    return float(value) if isinstance(value, float) or -MAX_NUMBER <= value <= MAX_NUMBER else math.inf


def _number(value: object) -> float:
    number = _any_float(value)
    if not math.isfinite(number):
        raise ValueError("is a finite number")
    return number


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise ValueError("is a list of texts")
    return tuple(value)


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("is an object")
    return dict(value)


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    bool: _flag,
    int: _whole,
    float: _number,
    tuple[str, ...]: _texts,
    Mapping[str, Any]: _object,
}
