"""Python source, written: calls and values, over several lines where they are long."""

from __future__ import annotations

from collections.abc import Mapping

WIDTH = 80


class Code(str):
    """Python as it stands, where other text is quoted."""


def call(function: str, *plain: object, **named: object) -> Code:
    """A call of a function."""
    words = [*map(written, plain), *(f"{name}={written(value)}" for name, value in named.items())]
    line = f"{function}({', '.join(words)})"
    if len(line) <= WIDTH and "\n" not in line:
        return Code(line)
    return Code(f"{function}(\n" + "".join(_indented(word) for word in words) + ")")


def written(value: object) -> str:
    """A value: text, numbers, lists and mappings of them, and code."""
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, Mapping):
        words, ends = [f"{key!r}: {written(each)}" for key, each in value.items()], "{}"
    elif isinstance(value, (list, tuple)):
        words, ends = [written(each) for each in value], "[]"
    else:
        return repr(value)
    line = ends[0] + ", ".join(words) + ends[1]
    if len(line) <= WIDTH and "\n" not in line:
        return line
    return f"{ends[0]}\n" + "".join(_indented(word) for word in words) + ends[1]


def _indented(word: str) -> str:
    return "".join(f"    {line}\n" for line in f"{word},".splitlines())
