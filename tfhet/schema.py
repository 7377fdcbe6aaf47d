"""Typed classes for all that tfhet reads: messages, JSON objects and YAML files.

A format is a frozen dataclass, a message is a subclass of `Message`. The annotations of the fields say which values
they may have, and msgspec checks them:

    class Ready(Message):
        port: Port
        facts: Mapping[str, Any] = {}

    decode(b'{"type":"ready","port":0}', Ready)             # MessageError: 'ready': `port` is 0: expected `int` >= 1
    from_json(RunSummary, read_json(path), "run summary")   # DataError: run summary: `steps` is 'x': expected `int`
    YamlFile(text, "cluster.yaml").read(ClusterFile)        # UsageError: all mistakes, each with its line

YAML files are in `yaml_file.py`, arguments of commands in `arguments.py`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import Meta

from tfhet.errors import ClusterError, DataError, TfhetError, UsageError, shown

T = TypeVar("T")
MAX_NUMBER = 2**53
"""Integers in messages are within +-2**53: every JSON reader keeps these exact."""
MAX_CODE = 255
"""Exit codes are within +-255: the operating system cuts larger ones, and 256 would become success."""

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Code = Annotated[int, Meta(ge=-MAX_CODE, le=MAX_CODE)]
Port = Annotated[int, Meta(ge=1, le=65535)]
_PORT = r"[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]"
Address = Annotated[str, Meta(pattern=rf"\A\S+:(?:{_PORT})\Z")]
"""HOST:PORT."""
MAX_SECONDS = 1e7
"""Maximum of durations, 115 days: waits of threads have a limit."""
Seconds = Annotated[float, Meta(ge=0.01, le=MAX_SECONDS, description=f"from 0.01 to {MAX_SECONDS:.0f} seconds")]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
"""Not below 0, and finite."""


def matching(pattern: str, wanted: str, most: int | None = None) -> Meta:
    """A text that a regular expression matches as a whole, of at most `most` characters. wanted: the same in words."""
    limit = "" if most is None else f", at most {most} characters"
    return Meta(pattern=rf"\A(?:{pattern})\Z", max_length=most, description=wanted + limit)


def one_of(words: Iterable[str]) -> Meta:
    """One of some texts."""
    return Meta(pattern=rf"\A(?:{'|'.join(map(re.escape, words))})\Z", description=f"one of {', '.join(words)}")


def whole(low: int, high: int, what: str = "a whole number") -> Meta:
    """An integer, ends included."""
    return Meta(ge=low, le=high, description=f"{what} from {low} to {high}")


def least(low: float) -> Meta:
    """A number from `low` up."""
    return Meta(ge=low, description=f"at least {low:g}")


def number(low: float, high: float, wanted: str = "") -> Meta:
    """A float, ends included."""
    return Meta(ge=low, le=high, description=wanted or f"a number from {low:g} to {high:g}")


Name = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, '.', '_' and '-'", 64)]
Region = Annotated[str, matching(r"[a-z]{2}(-[a-z]+)+-[0-9]+", "the name of a region, like us-east-1")]


def checked(value: str, kind: Any, what: str) -> str:
    """Returns a text of the user's. Raises UsageError unless it is of the annotated type `kind`. what: its name."""
    try:
        return str(converted(value, kind))
    except ValueError as error:
        raise UsageError(f"{what} {shown(value)}: must be {error}") from None


@functools.cache
def bare(kind: Any) -> tuple[Any, Meta | None]:
    """A type without its annotation, and this; of an optional type, of the type itself."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (kind, *others) = (each for each in typing.get_args(kind) if each is not types.NoneType)
        if others:
            return None, None
    if typing.get_origin(kind) is not Annotated:
        return kind, None
    return kind.__origin__, next((each for each in kind.__metadata__ if isinstance(each, Meta)), None)


def converted(value: Any, kind: Any) -> Any:
    """The value of an annotated type. Raises ValueError, with the allowed values in words, for another one, and for
    numbers that are not finite."""
    try:
        found = convert(value, kind, strict=False)
        if isinstance(found, float) and not math.isfinite(found):
            raise ValueError("expected a finite number")
        return found
    except ValueError as error:
        meta, wanted = bare(kind)[1], reason(error, value).removeprefix("expected ").partition(", got ")[0]
        raise ValueError((meta and meta.description) or wanted) from None


class MessageError(TfhetError, ValueError):
    """Data received is not a message of the expected kind; the text names the message and the field."""


class UnknownKind(MessageError):
    """A message of an unknown type, perhaps of a later version."""


class Message(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Base class of all messages. The name of the class, in lower case, is "type" in the JSON object."""


def to_json(message: object) -> Any:
    """Returns the JSON values of a message. Raises TypeError for values that JSON cannot hold."""
    return msgspec.to_builtins(message, enc_hook=_plain)


def encode(message: object, most: int) -> bytes:
    """Returns the JSON of a message, without line breaks. Numbers in it must be finite. Raises MessageError for values
    that JSON cannot hold, and for more than `most` bytes."""
    try:
        try:
            data = msgspec.json.encode(message, enc_hook=_plain)
        except UnicodeEncodeError:  # file names that are not UTF-8
            data = json.dumps(to_json(message), ensure_ascii=False).encode("utf-8", "replace")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MessageError(f"not a message: {error}") from error
    if len(data) > most:
        raise MessageError(f"a message of {len(data)} bytes; at most {most} are allowed")
    return data


def decode(data: bytes | memoryview | str, kinds: Any) -> Any:
    """Returns the message in some JSON, as `parse`."""
    try:
        return _decoder(kinds).decode(data)
    except _WRONG:
        try:
            values = msgspec.json.decode(data)
        except _WRONG as error:
            raise MessageError(f"this is not JSON: {error}") from None
        return parse(values, kinds)  # names the value that is wrong


def parse(values: object, kinds: Any) -> Any:
    """Returns the message in JSON values. kinds: the allowed type, or a union of types.

    Fields that a type does not have are ignored. Raises MessageError, and nothing else, for values that are not a
    message; UnknownKind for a type that is not one of `kinds`.
    """
    try:
        return convert(values, kinds)
    except _WRONG as error:
        name = values.get("type") if isinstance(values, dict) else None
        tags = [each.__struct_config__.tag for each in typing.get_args(kinds) if hasattr(each, "__struct_config__")]
        is_unknown = isinstance(name, str) and name not in (tags or [name])
        raise (UnknownKind if is_unknown else MessageError)(
            f"{shown(name) if name else 'message'}: {reason(error, values)}"
        ) from None


def convert(value: object, kind: Any, *, strict: bool = True) -> Any:
    """As msgspec.convert, but quick for any annotated type or union, not for classes alone."""
    return msgspec.convert((value,), _holder(kind), strict=strict).value


_decoder = functools.cache(msgspec.json.Decoder)


@functools.cache
def _holder(kind: Any) -> Any:
    """A class for which msgspec keeps its view of `kind`, which takes longer to make than a message."""
    return msgspec.defstruct("Holder", [("value", kind)], array_like=True)


_WRONG = (ValueError, RecursionError)
"""Errors of msgspec: ValueErrors also of a class's own checks."""


def _plain(value: object) -> object:
    for kind in (float, int, str):  # subclasses, such as NumPy's float64
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def reason(error: Exception, values: Any) -> str:
    """msgspec's "Expected `int` >= 1 - at `$.ports[0]`" as "`ports[0]` is 0: expected `int` >= 1"."""
    text, _, path = str(error)[:300].replace("`$[0]", "`$").partition(" - at `$")
    text, path = text[:1].lower() + text[1:], path.strip(".`")
    with contextlib.suppress(LookupError, TypeError):
        for name, at in re.findall(r"(\w+)|\[(\d+)\]", path):
            values = values[name] if name else values[int(at)]
        return f"`{path}` is {shown(values)}: {text}" if path else text
    return f"`{path}`: {text}"


def from_json(
    cls: type[T], content: object, what: str, *, is_strict: bool = False, error: Callable[[str], Exception] = DataError
) -> T:
    """Returns a dataclass made of a JSON object. Fields that the class does not have are ignored.

    Args:
        what: Name of the object in error messages, and the path of its file.
        is_strict: Whether null is allowed only for optional fields, and numbers must be JSON numbers. Otherwise null is
            a missing field, and texts such as "NaN" are numbers, as `tfhet.record.json_value` writes them.
        error: The exception to raise for a value that does not fit its annotation, and for a missing field.
    """
    if not is_strict and isinstance(content, Mapping):
        content = {name: value for name, value in content.items() if value is not None}
    try:
        return msgspec.convert(content, cls, strict=is_strict)
    except _WRONG as wrong:
        raise error(f"{what}: {reason(wrong, content)}") from None


class Order:
    """Base class of the dataclasses in which the leader tells ranks what a data plane or a strategy needs."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Returns the order in the JSON values of a message or a variable. Raises ClusterError, naming the field."""
        what = f"the order of {cls.__module__.split('.')[-2]}"
        return from_json(cls, value, what, is_strict=True, error=ClusterError)


def check_schema(document: Mapping[str, Any], kind: str, schema: int, where: str = "") -> None:
    """Raises UsageError unless a document has the schema version that this code reads. where: path of its file."""
    found = document.get("schema")
    if found != schema or isinstance(found, bool):
        version = "no schema version" if found is None else f"schema {shown(found)}"
        cure = "read it with the tfhet that wrote it, or run again to write a new one"
        raise UsageError(f"{kind}{where and f' in {where}'} has {version}; this tfhet reads schema {schema}: {cure}")
