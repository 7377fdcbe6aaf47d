"""Errors, by who has to act: a UsageError is the caller's, all others are about data, processes and jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn


class TfhetError(Exception):
    """Base of every error that tfhet raises on purpose. `exit_code` is what a command ends with."""

    exit_code = 1


class UsageError(TfhetError, ValueError):
    """The caller's input is wrong. The message says what, where, and what to do instead."""

    exit_code = 2


class ClusterError(UsageError):
    """The description of the cluster is missing, contradictory, or names an unknown group or host."""


class DataError(TfhetError):
    """A record or file cannot be read. `path` and `offset` (bytes) say where, when known."""

    def __init__(self, message: str, path: str | None = None, offset: int | None = None):
        super().__init__(message)
        self.path = path
        self.offset = offset


class NotReady(TfhetError):
    """Something did not come up before its deadline; the message says what was waited for."""


class JobFailed(TfhetError):
    """A running job ended badly. `code`: the exit code of the process that failed first, negative for a signal;
    `log_tail`: its last lines."""

    def __init__(self, message: str, *, code: int = 1, log_tail: Iterable[str] = ()):
        super().__init__(message)
        self.code = code
        self.log_tail = tuple(log_tail)


def shown(value: object) -> str:
    """A value for an error message, in at most 80 characters; a container is shown as the name of its type."""
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def unknown(kind: str, name: object, known: Iterable[object]) -> NoReturn:
    """Raises a UsageError for a name that a table does not hold, listing the names that it does."""
    names = ", ".join(sorted(str(k) for k in known)) or "none"
    raise UsageError(f"unknown {kind} {name!r}; known: {names}")
