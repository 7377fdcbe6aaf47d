"""Arguments of a command as the fields of a frozen dataclass: `--NAME VALUE` for each field, all with defaults."""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import math
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any, TypeVar

from tfhet.errors import UsageError, shown
from tfhet.schema import converted

T = TypeVar("T")

NOT_AN_ARGUMENT: Mapping[str, Any] = {"argument": False}
"""Metadata of a field that no argument sets."""


@dataclass(frozen=True)
class NoArguments:
    """The arguments of what has none."""


def parse(kind: type[T], argv: Sequence[str], program: str) -> tuple[T, list[str]]:
    """The dataclass `kind` made of the arguments in `argv`, and the arguments that it does not know. Names may be
    written with `-` or `_`. Raises UsageError for a value that does not fit, naming the argument."""
    parser = argparse.ArgumentParser(prog=program, exit_on_error=False, allow_abbrev=False, add_help=False)
    for item in declared(kind):
        names = {f"--{item.name}", f"--{item.name.replace('_', '-')}"}
        parser.add_argument(*sorted(names), dest=item.name, default=argparse.SUPPRESS)
    try:
        known, rest = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise UsageError(f"{program}: {error}") from None
    kinds, values = typing.get_type_hints(kind, include_extras=True), dict[str, Any]()
    for name, text in vars(known).items():
        try:
            values[name] = truth(text) if kinds[name] is bool else converted(text, kinds[name])
        except ValueError as error:
            raise UsageError(f"--{name} must be {error}, not {shown(text)}") from None
    return kind(**values), rest


def declared(kind: type[Any]) -> list[Field[Any]]:
    """The fields of a dataclass that arguments set."""
    return [item for item in fields(kind) if item.metadata.get("argument", True)]


def described(kind: type[Any]) -> dict[str, str]:
    """Returns the text under each field that an argument sets, on one line; inherited fields included."""
    words: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__[:-1]):
        (body,) = (node.body for node in ast.parse(inspect.getsource(ancestor)).body if isinstance(node, ast.ClassDef))
        for above, below in itertools.pairwise(body):
            if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and isinstance(below, ast.Expr):
                words[above.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return {item.name: words.get(item.name, "") for item in declared(kind)}


def underscored(argv: Sequence[str]) -> list[str]:
    """The same words with `_` for `-` in the names of arguments."""
    return [re.sub(r"^--[^=]*", lambda found: "--" + found.group()[2:].replace("-", "_"), word) for word in argv]


def check_positive(options: object, *names: str) -> None:
    """Raises UsageError for an attribute, named like its option, that is given and is not a number above 0."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"--{name} {value:g}: give more than 0")


def truth(word: str) -> bool:
    """A yes or no as SageMaker writes it (`True`, `False`) or as people do. Raises ValueError."""
    value = {"true": True, "1": True, "yes": True, "": True, "false": False, "0": False, "no": False}.get(word.lower())
    if value is None:
        raise ValueError("true or false")
    return value
