"""Errors, by who has to act: a UsageError is the caller's, all others are about data, processes and jobs."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NoReturn


class TfhetError(Exception):
    """Base of every error that tfhet raises on purpose. `exit_code` is what a command ends with."""

    exit_code = 1


class UsageError(TfhetError, ValueError):
    """The caller's input is wrong. The message says what, where, and what to do; `mistakes`: the messages of all."""

    exit_code = 2

    def __init__(self, message: str, *, mistakes: Sequence[str] = ()):
        super().__init__(message)
        self.mistakes = tuple(mistakes) or (message,)


class ClusterError(UsageError):
    """The description of the cluster is missing, contradictory, or names an unknown group or host."""


class Mistakes(contextlib.AbstractContextManager["Mistakes"]):
    """Collects UsageErrors, and raises them as one at its end, so that a caller hears of all mistakes at once."""

    def __init__(self, errors: Iterable[UsageError] = ()) -> None:
        self._errors = list(errors)

    def add(self, error: UsageError) -> None:
        self._errors.append(error)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """A block that ends where it raises a UsageError, which is added."""
        try:
            yield
        except UsageError as error:
            self.add(error)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UsageError):
            self.add(error)
        elif error is not None:
            return
        if len(self._errors) > 1:
            lines = list(dict.fromkeys(line for each in self._errors for line in each.mistakes))
            raise UsageError(f"{len(lines)} mistakes:\n  " + "\n  ".join(lines), mistakes=lines) from None
        if self._errors and error is None:
            raise self._errors[0]


class DataError(TfhetError):
    """A record or file cannot be read. `path` and `offset` (bytes) say where, when known."""

    def __init__(self, message: str, path: str | None = None, offset: int | None = None):
        super().__init__(message)
        self.path = path
        self.offset = offset


class NotReady(TfhetError):
    """Something did not come up before its deadline; the message says what was waited for."""


class JobFailed(TfhetError):
    """A running job failed. `code`: exit code of the first that failed (negative: signal); `log_tail`: last lines."""

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


def some(names: Sequence[str], most: int = 10) -> str:
    """The first `most` names, and the number of the others: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def check_known(kind: str, name: object, known: Collection[object]) -> None:
    """Raises a UsageError for a name that a table does not hold, listing the names that it does."""
    if name not in known:
        unknown(kind, name, known)


def unknown(kind: str, name: object, known: Iterable[object]) -> NoReturn:
    """Raises the UsageError of `check_known`."""
    names = sorted(str(k) for k in known)
    raise UsageError(f"unknown {kind} {name!r}; known: {', '.join(names) or 'none'}{nearest(name, names)}")


def nearest(name: object, known: Iterable[object]) -> str:
    """The end of an error message that offers the name that was probably meant; "" if none is similar."""
    found = difflib.get_close_matches(str(name), map(str, known), n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""
