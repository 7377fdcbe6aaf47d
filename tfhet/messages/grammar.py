"""Messages as frozen dataclasses: their annotations say which JSON values a field takes, and one reader checks them."""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Generic, TypeVar

from tfhet.errors import TfhetError, shown

MAX_NUMBER = 2**53
"""Whole numbers lie within +-2**53, which every JSON reader keeps exact."""
MAX_CODE = 255
"""Exit codes lie within +-255; the operating system cuts a larger one, and 256 would become success."""

M = TypeVar("M")


class MessageError(TfhetError, ValueError):
    """Values that are not a message; the text names the kind and the field that is wrong."""


class UnknownKind(MessageError):
    """A message of a kind that the grammar does not have, perhaps of a later version."""


@dataclass(frozen=True)
class Check:
    """The JSON values that a field takes: what they are called in errors, and whether a value is one of them."""

    words: str
    holds: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (type(value) is int and -MAX_NUMBER <= value <= MAX_NUMBER)


Text = Annotated[str, Check("a text that is not empty", lambda value: isinstance(value, str) and value != "")]
Count = Annotated[int, Check("a whole number from 0 to 2**53", lambda n: type(n) is int and 0 <= n <= MAX_NUMBER)]
Code = Annotated[int, Check("an exit code within +-255", lambda n: type(n) is int and -MAX_CODE <= n <= MAX_CODE)]
Port = Annotated[int, Check("a TCP port", lambda n: type(n) is int and 1 <= n <= 65535)]
Amount = Annotated[float, Check("a number not below 0", lambda x: _is_number(x) and 0 <= x < math.inf, float)]
AnyFloat = Annotated[float, Check("a number", _is_number, float)]
"""It may be nan or infinite."""

_CHECKS: Mapping[Any, Check] = {
    str: Check("a text", lambda value: isinstance(value, str)),
    int: Check("a whole number", lambda value: type(value) is int),
    bool: Check("true or false", lambda value: isinstance(value, bool)),
    tuple[str, ...]: Check(
        "a list of texts",
        lambda value: isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value),
        tuple,
    ),
    Mapping[str, Any]: Check("an object", lambda value: isinstance(value, Mapping), dict),
}


class Grammar(Generic[M]):
    """All kinds of message that one process may send to another.

    kinds: a frozen dataclass by the name that stands under "type". Its fields may be str, int, bool, `tuple[str, ...]`,
    `Mapping[str, Any]` (JSON values that pass unchecked), one of the annotated types above, and each of these or None.
    """

    def __init__(self, kinds: Mapping[str, type[M]]):
        self.kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}
        self._checks = {name: _checks(kind) for name, kind in kinds.items()}

    def to_json(self, message: M) -> dict[str, Any]:
        """The JSON values that `parse` reads. Raises KeyError for an object of another grammar."""
        return {"type": self._names[type(message)], **vars(message)}

    def parse(self, values: object) -> M:
        """The message in some JSON values; fields that its kind does not have are ignored.

        Raises MessageError, and nothing else, for values that are not a message; UnknownKind for a new kind.
        """
        if not isinstance(values, Mapping):
            raise MessageError(f"a message is an object, not {shown(values)}")
        name = values.get("type")
        if not isinstance(name, str):
            raise MessageError(f"the type of a message is a text, not {shown(name)}")
        if name not in self.kinds:
            raise UnknownKind(f"unknown type of message {shown(name)}; known: {', '.join(sorted(self.kinds))}")
        kind, found = self.kinds[name], {}
        for item in fields(kind):  # type: ignore[arg-type]
            if item.name in values:
                value = values[item.name]
                check, optional = self._checks[name][item.name]
                if not check.holds(value) and not (optional and value is None):
                    raise MessageError(f"{name}: {item.name} is {check.words}, not {shown(value)}")
                found[item.name] = None if value is None else check.convert(value)
            elif item.default is MISSING and item.default_factory is MISSING:
                raise MessageError(f"{name}: {item.name} is missing")
        return kind(**found)


def _checks(kind: type[Any]) -> dict[str, tuple[Check, bool]]:
    """The check of each field, and whether it may be None."""
    found = {}
    hints = typing.get_type_hints(kind, include_extras=True)
    for item in fields(kind):
        hint = hints[item.name]
        optional = typing.get_origin(hint) in (types.UnionType, typing.Union)
        if optional:
            (hint,) = (each for each in typing.get_args(hint) if each is not type(None))
        found[item.name] = (hint.__metadata__[0] if typing.get_origin(hint) is Annotated else _CHECKS[hint], optional)
    return found


def encode(values: Mapping[str, Any]) -> bytes:
    """JSON values as bytes without a line end. Raises MessageError for what JSON cannot hold."""
    try:
        return json.dumps(values, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"a message holds JSON values only: {error}") from error


def decode(data: bytes) -> dict[str, Any]:
    """The object in some bytes. Raises MessageError, and nothing else, for bytes that are not one."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message is JSON, not {data[:40]!r}") from error
    if not isinstance(values, dict):
        raise MessageError(f"a message is an object, not {shown(values)}")
    return values
