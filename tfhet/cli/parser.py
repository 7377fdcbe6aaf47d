"""The parser of a command: options of one spelling, near names for wrong words, examples, ranges, JSON for a pipe."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tfhet.arguments import underscored
from tfhet.errors import UsageError, nearest
from tfhet.record import json_value

N = TypeVar("N", int, float)
STDOUT = Path("-")


class Parser(argparse.ArgumentParser):
    """A parser whose options are declared with `_` and understood with `-` too, as launcher arguments are. Wrong use
    prints the usage and raises UsageError."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given, known = sys.argv[1:] if args is None else list(args), self._option_string_actions
        pairs = zip(given, underscored(given), strict=True)
        words = [other if other.partition("=")[0] in known else word for word, other in pairs]
        found, rest = super().parse_known_args(words, namespace)
        if rest:  # here, and not in the parser of all commands, which does not know the options
            wrong = [word.partition("=")[0] for word in rest if word.startswith("-")] or rest[:1]
            self.error("; ".join(f"unrecognized argument {word}{nearest(word, known)}" for word in wrong))
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"{value!r} is none of {known}{nearest(value, action.choices)}")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise UsageError(message)


def number(kind: type[N], least: float | None = None, *, above: float = -math.inf) -> Callable[[str], N]:
    """The type of an option that is a number, whole (int) or not (float), finite, and at least or above a limit."""
    limit = f"above {above:g}" if least is None else f"from {least:g} on"

    def read(text: str) -> N:
        with contextlib.suppress(ValueError):
            value = kind(text)
            if above < value < math.inf and (least is None or value >= least):
                return value
        raise argparse.ArgumentTypeError(f"{text}: give a {'whole ' * (kind is int)}number {limit}")

    return read


def output_file(text: str) -> Path:
    """The type of an option that is a file to write; makes its folder. Raises for a file that cannot be written."""
    path = Path(text)
    if path == STDOUT:
        return path
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder: name a file in it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: its folder cannot be made ({error.strerror})") from None
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path}: its folder cannot be written to")
    return path


def file_only(text: str) -> Path:
    """As `output_file`, for a command that runs another one, whose output is on standard output."""
    if Path(text) == STDOUT:
        raise argparse.ArgumentTypeError("standard output belongs to the command: name a file")
    return output_file(text)


def add_output(parser: argparse.ArgumentParser, what: str, *, has_tables: bool = True) -> None:
    """Adds the options --json, which also writes `what` to a file, and --wide, which shows all columns of tables."""
    words = f"also write {what} to this file; - writes to standard output, which gets nothing else then"
    parser.add_argument("--json", type=output_file, metavar="FILE", help=words)
    if has_tables:
        parser.add_argument("--wide", action="store_true", help="all columns of tables, however narrow the screen is")


def write_output(args: argparse.Namespace, content: Any) -> None:
    """Writes `content` as JSON to the file of --json, if one is named."""
    if args.json:
        args.json.write_text(json.dumps(json_value(content), indent=1) + "\n", encoding="utf-8")


def add_examples(parser: argparse.ArgumentParser, *commands: str) -> None:
    """Adds commands that can be typed to the end of the help."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n  ".join(("examples:", *commands))


@contextlib.contextmanager
def json_for_pipe(args: argparse.Namespace) -> Iterator[None]:
    """Lets a command that is given `--json -` write its JSON to standard output, and all else to standard error."""
    if getattr(args, "json", None) != STDOUT:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tfhet-json-") as folder:
        args.json = Path(folder) / "json"
        with contextlib.redirect_stdout(sys.stderr):
            yield
        if args.json.exists():
            print(args.json.read_text(encoding="utf-8").rstrip("\n"))
