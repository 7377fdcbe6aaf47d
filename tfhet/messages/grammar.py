"""Messages as frozen dataclasses: their annotations say which JSON values a field takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeVar

from tfhet.errors import DataError, TfhetError, shown
from tfhet.record import Check, from_json_object

MAX_NUMBER = 2**53
"""Whole numbers lie within +-2**53, which every JSON reader keeps exact."""
MAX_CODE = 255
"""Exit codes lie within +-255; the operating system cuts a larger one, and 256 would become success."""

M = TypeVar("M")


class MessageError(TfhetError, ValueError):
    """Values that are not a message; the text names the kind and the field that is wrong."""


class UnknownKind(MessageError):
    """A message of a kind that the grammar does not have, perhaps of a later version."""


Text = Annotated[str, Check("a text that is not empty", bool)]
Count = Annotated[int, Check("a whole number from 0 to 2**53", lambda n: 0 <= n <= MAX_NUMBER)]
Code = Annotated[int, Check("an exit code within +-255", lambda n: -MAX_CODE <= n <= MAX_CODE)]
Port = Annotated[int, Check("a TCP port", lambda n: 1 <= n <= 65535)]
Amount = Annotated[float, Check("a number not below 0", lambda x: 0 <= x < math.inf, float)]
AnyFloat = Annotated[float, Check("a number", lambda x: True, float)]
"""It may be nan or infinite."""


class Grammar(Generic[M]):
    """All kinds of message that one process may send to another. kinds: a frozen dataclass by the name that stands
    under "type", with fields that `from_json_object` reads."""

    def __init__(self, kinds: Mapping[str, type[M]]):
        self.kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}

    def to_json(self, message: M) -> dict[str, Any]:
        """The JSON values that `parse` reads. Raises KeyError for an object of another grammar."""
        return {"type": self._names[type(message)], **vars(message)}

    def parse(self, values: object) -> M:
        """The message in some JSON values; fields that its kind does not have are ignored. Raises MessageError, and
        nothing else, for values that are not a message; UnknownKind for a new kind."""
        if not isinstance(values, Mapping):
            raise MessageError(f"a message is an object, not {shown(values)}")
        name = values.get("type")
        if not isinstance(name, str):
            raise MessageError(f"the type of a message is a text, not {shown(name)}")
        if name not in self.kinds:
            raise UnknownKind(f"unknown type of message {shown(name)}; known: {', '.join(sorted(self.kinds))}")
        try:
            return from_json_object(self.kinds[name], values, name, strict=True)
        except DataError as error:
            raise MessageError(str(error)) from None


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
