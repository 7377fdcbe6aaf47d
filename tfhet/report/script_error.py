"""The error that ended a training script, found in its output."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from tfhet.report.log_lines import harmless, is_error, printable
from tfhet.report.traceback_reader import ADVICE, LOG, FoundError, Origin, TracebackReader, shortened

_LINE_CHARACTERS, _ERRORS_KEPT, _STREAMS = 4000, 50, 64
_RECENT_LINES = 20
"""Maximum number of lines after an error that may not have ended the script."""
_PREFIX = re.compile(r"\[rank\d+\]: ?|\[\d+,\d+\]<std\w+>:|\([^()]*\bpid=\d+[^()]*\) ")
"""Before each line of a rank (PyTorch; mpirun), or of a process (Ray)."""
_FATAL = re.compile(
    r"(Fatal Python error: .+)|terminate called after throwing an instance of '(.+)'$"
    r"|(?:\d{4}-\S+ \S+: F |F[01]\d{3} )(.+)|.*\*\*\* (An error occurred in MPI_\w+)|(MPI_ABORT was invoked on rank .+)"
)
_DETAIL = re.compile(r"\s*what\(\):\s+(.+)|.*\*\*\* (MPI_ERR\w*: .+)")
_CURRENT = re.compile(r"Current thread 0x\w+ .*\(most recent call first\):$")
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (\S+)')
"""A frame, as `faulthandler` prints it."""
_MPIRUN = re.compile(
    r"Primary job  terminated normally|a non-zero exit code\. Per user-direction|mpirun (detected that|noticed that)"
    r"|thus causing the job to be terminated|Process name: |Exit code: +\d"
)
_LOGGED_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")
_OF_A_CHILD = re.compile(
    r"(?:\w+\.)*(?:ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException"
    r"|TrainingFailedError|WorkerGroupError|BrokenProcessPool)\b"
)
"""Errors that only report the end of another process."""
_ROOT_RANK = re.compile(r"Root Cause.*?\brank +: (\d+)", re.DOTALL)


class ErrorFinder:
    """Finds the error that ended a script in its output, which it receives line by line."""

    def __init__(self, is_consequence: Callable[[str], bool] = lambda text: False):
        """is_consequence: whether an error only reports the end of another rank."""
        self._is_consequence = is_consequence
        self._readers: dict[str, TracebackReader] = {}
        self._errors: deque[FoundError] = deque(maxlen=_ERRORS_KEPT)
        self._fatal: list[str] = []
        """First error of Python, C++ or MPI that ends the process, with its details."""
        self._is_fatal_stack = False
        self._lines: deque[tuple[int, str]] = deque(maxlen=_RECENT_LINES)
        self._count = 0

    def feed(self, line: str) -> None:
        """Reads the next line of the output."""
        line = line[:_LINE_CHARACTERS]
        shown = line
        if not line.isprintable():
            line = line.expandtabs()
            line, shown = harmless(line.replace("\r", " ")), printable(line)
        found = _PREFIX.match(line) if line[:1] in ("[", "(") else None
        prefix = found[0] if found else ""
        text = line[len(prefix) :]
        if self._is_of_fatal_error(text):
            return
        prefix = prefix.rstrip()
        reader = self._readers.get(prefix)
        if reader is None and len(self._readers) < _STREAMS:
            reader = self._readers[prefix] = TracebackReader(self._errors.append, self._drop, prefix)
        if reader is None or not reader.feed(text, self._count):
            self._count += 1
            self._lines.append((self._count, shown.removeprefix(found[0] if found else "")))

    def error(self, code: int) -> str:
        """The error because of which a script ended with `code` (negative: a signal): type and message; the last line
        of a script that printed no error; or ""."""
        found = self._uncaught()
        if found is not None and (code == 1 or self._is_recent(found)):
            return found.first_cause if found.first_cause and _OF_A_CHILD.match(found.text) else str(found)
        if self._fatal:
            return ": ".join(self._fatal)
        if code < 0:
            last = self._last_line()
            return f"last line: {last}" if last and not is_error(last) else last
        perhaps = next((error for error in reversed(self._errors) if self._is_possible(error)), found)
        last = self._last_line(after=perhaps.line if perhaps is not None else 0)
        if perhaps is None or not last:
            return last or str(perhaps or "")
        return f"{last}; before it: {replace(perhaps, message=perhaps.message[:1])}"

    @property
    def has_error(self) -> bool:
        """Whether the script printed an error that ends it."""
        return bool(self._fatal) or self._uncaught() is not None

    def _drop(self, error: FoundError) -> None:
        if error in self._errors:
            self._errors.remove(error)

    def _uncaught(self) -> FoundError | None:
        """The last uncaught error that is no consequence, or the error of the child process that it reports."""
        uncaught = [error for error in self._errors if error.origin is Origin.MAIN]
        own = [error for error in uncaught if not self._is_consequence(str(error))] or uncaught
        if not own or not _OF_A_CHILD.match(own[-1].message[0]) or own[-1].inner:
            return own[-1] if own else None
        root = _ROOT_RANK.search("\n".join(own[-1].message))
        of_root = [error for error in own if root is not None and error.rank == int(root[1])]
        of_children = [error for error in self._errors if error.origin is Origin.ELSEWHERE]
        found = (error for error in [*of_root, *own, *of_children] if not _OF_A_CHILD.match(error.message[0]))
        return next(found, own[-1])

    def _is_possible(self, error: FoundError) -> bool:
        return error.origin in (Origin.HANDLED, Origin.ELSEWHERE) and self._is_recent(error)

    def _is_recent(self, error: FoundError) -> bool:
        return self._count - error.line <= _RECENT_LINES

    def _last_line(self, after: int = 0) -> str:
        lines = [line.strip() for number, line in self._lines if number > after and not ADVICE.match(line.strip())]
        lines = [line for line in lines if not _MPIRUN.search(line)] or lines
        errors = (line for line in reversed(lines) if not LOG.match(line) or _LOGGED_ERROR.search(line))
        return shortened(next(errors, "".join(lines[-1:])))

    def _is_of_fatal_error(self, text: str) -> bool:
        """Reads a line of an error of Python, C++ or MPI that ends the process."""
        if (fatal := _FATAL.match(text)) is not None:
            self._fatal = self._fatal or [shortened(next(filter(None, fatal.groups())))]
            return True
        if not self._fatal:
            return False
        if _CURRENT.match(text):
            self._is_fatal_stack = True
        elif self._is_fatal_stack and (frame := _FRAME.match(text)) is not None:
            self._is_fatal_stack = False
            self._fatal[0] += f" at {PurePath(frame[1]).name}:{frame[2]} in {frame[3]}"
        elif (detail := _DETAIL.match(text)) is not None:
            self._fatal[1:] = self._fatal[1:] or [shortened(detail[1] or detail[2])]
        else:
            return _FRAME.match(text) is not None
        return True
