"""Runs commands of the machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any

from tfhet.errors import TfhetError

TOOL_LIMIT_S = 20.0


def run(words: Sequence[str], text: str = "", *, before: Sequence[str] = (), **options: Any) -> str:
    """Runs a command with `text` as its input.

    Args:
        before: Words of a command that runs this one, such as nsenter.
        options: Options of `subprocess.run`.

    Returns:
        Its standard output.

    Raises:
        TfhetError: It is not installed, fails, or takes longer than TOOL_LIMIT_S.
    """
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
