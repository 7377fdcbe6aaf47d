"""Arguments of a command as the fields of a frozen dataclass: `--NAME VALUE` for each field, all with defaults."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any, TypeVar

from tfhet.errors import UsageError

T = TypeVar("T")

NOT_AN_ARGUMENT: Mapping[str, Any] = {"argument": False}
"""Metadata of a field that no argument sets."""


@dataclass(frozen=True)
class NoArguments:
    """The arguments of what has none."""


def parse(kind: type[T], argv: Sequence[str], program: str) -> tuple[T, list[str]]:
    """The dataclass `kind` made of the arguments in `argv`, and the arguments that it does not know, as they came.
    Names may be written with `-` or `_`, as SageMaker passes them on in the form in which the user wrote them. Raises
    UsageError for a value that does not fit, naming the argument."""
    parser = argparse.ArgumentParser(prog=program, exit_on_error=False, allow_abbrev=False, add_help=False)
    for item in declared(kind):
        names = {f"--{item.name}", f"--{item.name.replace('_', '-')}"}
        parser.add_argument(*sorted(names), dest=item.name, type=_KINDS[str(item.type)], default=item.default)
    try:
        known, rest = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise UsageError(f"{program}: {error}") from None
    return kind(**vars(known)), rest


def declared(kind: type[Any]) -> list[Field[Any]]:
    """The fields of a dataclass that arguments set."""
    return [item for item in fields(kind) if item.metadata.get("argument", True)]


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
        raise ValueError(f"{word!r} is neither True nor False")
    return value


_KINDS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str, "bool": truth}
