"""Programs that this room runs: the machine's tools, and its own C++ programs, compiled at first use."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet.cluster import code_dir
from tfhet.errors import TfhetError, UsageError
from tfhet.native import BuildError, compile_into, compiler

TOOL_LIMIT_S = 20.0


def run(words: Sequence[str], text: str = "", *, before: Sequence[str] = (), **options: Any) -> str:
    """Runs a command with `text` as its input and returns what it prints. before: words of a command that runs this
    one, such as nsenter's. options: of `subprocess.run`. Raises TfhetError where the command is not installed
    (`kernel.require` says so before), fails, or takes longer than TOOL_LIMIT_S."""
    command = " ".join(words)
    caught: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": TOOL_LIMIT_S}
    try:
        done = subprocess.run([*before, *words], input=text, **caught, **options)
    except OSError as error:
        raise TfhetError(f"`{command}` cannot be run: {error}") from None
    except subprocess.TimeoutExpired:
        raise TfhetError(f"`{command}` did not end within {TOOL_LIMIT_S:g} s") from None
    if done.returncode:
        raise TfhetError(f"`{command}` failed: {_reason(done.stderr or done.stdout, text)}")
    return done.stdout


def _reason(message: str, text: str) -> str:
    """The first lines of an error message, with the line of the input that failed."""
    reason = "; ".join(line.strip() for line in message.strip().split("\n")[:3])
    failed = re.search(r"Command failed -:(\d+)", message)
    return f"{reason}: {text.splitlines()[int(failed[1]) - 1]}" if failed else reason


def compiled(
    source: Path, env: Mapping[str, str], what: str, instead: str, flags: Sequence[str] = (), suffix: str = ""
) -> Path:
    """Path of the program or library made of one C++ file, compiled with `flags` unless it is in the user's cache.
    Raises UsageError, which says that `what` (like "a delay") cannot be had and what to do `instead`."""
    if not (command := compiler(env)):
        raise UsageError(f"{what} needs a C++ compiler, and there is none (Debian: g++); {instead}")
    words = [*command, *flags]
    key = hashlib.blake2b(source.read_bytes() + repr([words, platform.machine()]).encode(), digest_size=12).hexdigest()
    try:
        result = code_dir(env, "simulate") / f"{source.stem}-{key}{suffix}"
        if not result.exists():
            compile_into(result, [*words, str(source), "-ldl"])
    except (OSError, BuildError) as error:
        raise UsageError(f"{what}: {source.name} cannot be built: {error}") from None
    return result
