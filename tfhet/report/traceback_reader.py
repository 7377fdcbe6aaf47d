"""Reads Python's tracebacks from the output of one process, line by line.

Formats: the modules `traceback`, `threading`, `logging` and `asyncio`, and the package rich. Messages may contain more
stacks: of a worker of PyTorch's DataLoader, of a task of Ray, of TensorFlow's graph.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePath

TEXT_LIMIT, CAUSED_BY_LIMIT = 400, 160
"""Maximum characters of an error, and of the error that caused it."""
_MESSAGE_LINES = 100
_WHOLE_LINES, _HEAD_LINES = 12, 3
"""Maximum number of further lines with which a message is shown; lines of a longer one whose first line has no text."""
_FOREIGN_LINES = 200
"""Lines of other origin within a stack, such as lines of other threads, after which the stack is given up."""

_HEADER = re.compile(r"Traceback \(most recent call last\)(?::| ─+╮| -+\+)$")
_GROUP_HEADER = re.compile(r"\s*\+ Exception Group Traceback \(most recent call last\):$")
_MARGIN = re.compile(r" *(?:\|(?: |$)|\+[-+]*(?: \d+ -+)?$)")
_SUB_EXCEPTIONS = re.compile(r"\(\d+ sub-exceptions?\)$")
_FRAME = re.compile(r'(\s*)File "(.+)", line (\d+)(?:, in (.+?))?(?:  \*)?$')
_RICH_FRAME = re.compile(r"[│|] (\S+):(\d+) in (\S+)")
_NO_CODE = re.compile(r"[\s^~]*$|\s*\[Previous ")
_BODY = re.compile(r"[\s>│╭╰|+]|$")
"""Begins a line of a stack: indented, empty, or in a box."""
_RAISED = re.compile(r"((?:[\w<>]+\.)+\w+|[A-Z_]\w*)(?:\([\w.]+\))?(?::(?: |$)|$)")
_TYPED = re.compile(
    r"(?:(?:[\w<>]+\.)+[A-Z]\w*|[A-Z_]\w*(?:Error|Exception|Warning|Interrupt|Exit))(?:\([\w.]+\))?(?::|$)"
)
_CHAIN = re.compile(r"The above exception was the direct cause of|During handling of the above exception, another")
_IGNORED = re.compile(
    r"Exception ignored |Error in atexit\._run_exitfuncs:|--- Logging error ---|Error in sys\.excepthook:"
    r"|(?:Task|Future) exception was never retrieved|Exception in callback "
)
"""Before a traceback that ends nothing."""
_ELSEWHERE = re.compile(r"Exception in (thread [^:]+)|(Process \S+):$")
_ORIGINAL = re.compile(r"Original exception was:$")
_NESTED = re.compile(r'(?:Original|traceback :|:|""")\s*$')
"""Before a traceback that is part of a message."""
LOG = re.compile(
    r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\[?\d\d:\d\d:\d\d|[IWE]\d{4} |[\[(]?(?:TRACE|DEBUG|INFO|NOTE|WARN(?:ING)?)\b"
    r"|\[[IWE]\d{4} |\[tfhet\] (?!error:)|wandb: "
)
"""Lines of logs, which belong to no message."""
ADVICE = re.compile(
    r"frame #\d+: |Exception raised from "  # a stack of C++ (c10/util/Backtrace.cpp)
    r"|\[[IW]\d{4} \d\d:\d\d:\d\d"  # as of a process group that was not destroyed
    r"|CUDA kernel errors might be asynchronously reported|For debugging consider passing CUDA_LAUNCH"
    r"|Compile with `\w+` to enable device-side|terminate called without an active exception$|Extension modules: "
    r"|Detected at node .* defined at \(most recent call last\):$|<stack traces unavailable>$|[-=*]{10,}$|\"\"\"$|$"
)
"""Lines without content that libraries print with or after an error."""
_NODES = re.compile(r"\{\{(?:function_)?node [^}]*\}\}\s*|\s*\[\[[^\]]*\]\]|\s*\[Op:[^\]]*\](?: name: ?\S*)?")
"""What TensorFlow adds to the sentence of an error."""
_ROOT_ERROR = re.compile(r"\s*\(0\) [A-Z_]+: +(.+)")
"""The first of several errors in one message of TensorFlow."""
_STACK_FOLLOWS = re.compile(r"\s*(?:Graph execution error|in user code):$")


class Origin(Enum):
    MAIN = "uncaught in the main thread"
    HANDLED = "perhaps handled by the script"
    ELSEWHERE = "in another thread or process"
    IGNORED = "ignored by Python"


@dataclass
class FoundError:
    """The error at the end of one traceback."""

    origin: Origin
    rank: int | None
    """Rank in the prefix of the lines; None without one."""
    where: str = ""
    """Thread or process, if it is not the main thread."""
    place: str = ""
    """Innermost frame."""
    code: str = ""
    """Line of code of the innermost frame."""
    message: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    """The lines after the last stack within the message."""
    first_cause: str = ""
    """First error of the chain."""
    group: str = ""
    """First line of the exception group that contains the error."""
    line: int = 0
    """Number of lines before the error that belong to no traceback."""

    @property
    def kind(self) -> str:
        """Its type, as Python prints it."""
        found = _RAISED.match(self.message[0])
        return found[1] if found else self.message[0]

    @property
    def text(self) -> str:
        """Type and message, without nodes of TensorFlow."""
        lines = list(map(str.strip, self.inner)) or self.message
        root = next(filter(None, map(_ROOT_ERROR.match, lines)), None)
        if root is not None:
            lines = [root[1]]
        if lines is not self.message and not _TYPED.match(lines[0]):
            lines = [f"{self.kind}: {lines[0]}", *lines[1:]]
        first, *rest = (_NODES.sub("", line).strip() for line in lines)
        text = _joined(_STACK_FOLLOWS.sub("", first) if any(rest) else first, rest)
        if text.rstrip(": ") == self.kind and self.place:
            return f"{self.kind} at {self.place}{f': {self.code}' if self.code else ''}"
        return f"{text} ({self.place})" if self.kind in ("SyntaxError", "IndentationError", "TabError") else text

    def __str__(self) -> str:
        notes = [f"in {shortened(self.group, CAUSED_BY_LIMIT)}"] if self.group else []
        notes += [f"in {self.where}"] if self.where else []
        if self.first_cause and self.first_cause not in self.text:
            notes.append(f"caused by {shortened(self.first_cause, CAUSED_BY_LIMIT)}")
        return f"{self.text} ({'; '.join(notes)})" if notes else self.text


class TracebackReader:
    """Finds the tracebacks in the lines of one process."""

    def __init__(self, add: Callable[[FoundError], None], drop: Callable[[FoundError], None], prefix: str = ""):
        """add: called with each error, whose message may still grow. drop: with an error that caused a later one.
        prefix: text before each line, as `[rank0]: `."""
        self._add, self._drop = add, drop
        number = re.match(r"\[(?:rank|\d+,)(\d+)\]", prefix)
        self._rank = int(number[1]) if number else None
        self._origin = Origin.MAIN if prefix.startswith("[rank") else Origin.HANDLED  # only PyTorch's hook prints it
        self._read: Callable[[str], bool] = self._plain
        self._before: deque[str] = deque(["", ""], maxlen=2)
        self._error = FoundError(self._origin, None)
        self._last: FoundError | None = None
        """The error to which the next one may be chained."""
        self._cause, self._chained = "", False
        self._count = self._open = self._foreign = 0
        self._indent = -1

    def feed(self, line: str, count: int) -> bool:
        """Reads the next line; returns whether it belongs to a traceback. count: number of lines so far that do not."""
        self._count = count
        belongs = self._read(line)
        if line.strip():
            self._before.append(line)
        return belongs

    def _plain(self, line: str) -> bool:
        if _CHAIN.match(line):
            self._chain()
        elif _GROUP_HEADER.match(line):
            self._begin(self._group)
        elif _HEADER.search(line):
            self._begin(self._stack)
        elif (frame := _FRAME.match(line)) and frame[1] == "  " and not frame[4]:  # of the script itself, by Python
            self._begin(self._stack)
            self._error.origin, self._error.place = Origin.MAIN, _place(frame[2], frame[3])
        else:
            return False
        return True

    def _chain(self) -> None:
        last = self._last
        self._chained = True
        if last is None:  # an error that was never raised has no traceback
            self._cause = self._before[-1]
            return
        self._cause = last.first_cause or last.text
        self._drop(last)
        self._read = self._plain

    def _begin(self, read: Callable[[str], bool]) -> None:
        before = self._before[-2 if self._before[-1].startswith(("future: ", "handle: ")) else -1]
        error = FoundError(self._origin, self._rank)
        if self._chained and self._last is not None:
            if self._last.origin in (Origin.ELSEWHERE, Origin.IGNORED):
                error.origin, error.where = self._last.origin, self._last.where
        elif _IGNORED.match(before):
            error.origin = Origin.IGNORED
        elif (elsewhere := _ELSEWHERE.match(before)) is not None:
            error.origin, error.where = Origin.ELSEWHERE, elsewhere[1] or elsewhere[2].lower()
        error.first_cause = self._cause
        self._error, self._last, self._read = error, None, read
        self._cause, self._chained = "", False
        self._open = self._foreign = 0

    def _frame(self, line: str) -> bool:
        """Reads a line of a stack that describes a frame."""
        frame = _FRAME.match(line)
        rich = None if frame else _RICH_FRAME.match(line)
        file, number, name = (frame[2], frame[3], frame[4]) if frame else rich.groups() if rich else ("", "", "")
        if not file:
            return False
        error = self._error
        is_outermost = not error.place
        error.place, error.code = _place(file, number, name), ""
        if is_outermost and error.origin is Origin.HANDLED and name in ("<module>", "_run_module_as_main"):
            error.origin = Origin.MAIN
        return True

    def _stack(self, line: str) -> bool:
        if self._frame(line):
            return True
        if _HEADER.search(line):  # of another process
            self._open += 1
        elif _BODY.match(line):
            if not self._error.code and not _NO_CODE.match(line):
                self._error.code = line.strip()
        elif not LOG.match(line) and _RAISED.match(line):
            self._raised(line)
        else:
            self._foreign += 1
            if self._foreign > _FOREIGN_LINES:
                self._read = self._plain
            return False
        return True

    def _raised(self, line: str) -> None:
        self._error.message, self._error.line = [line], self._count
        self._last, self._indent = self._error, -1
        self._add(self._error)
        if self._open:
            self._open -= 1
            self._error = FoundError(Origin.ELSEWHERE, self._rank, where="another process")
        else:
            self._read = self._message

    def _message(self, line: str) -> bool:
        lines = self._error.inner or self._error.message
        header = _HEADER.search(line)
        if header is not None and _NESTED.search(line[: header.start()] or next(filter(None, reversed(lines)))):
            self._indent = len(line)
            return True
        if self._plain(line):
            return True
        if _IGNORED.match(line) or _ELSEWHERE.match(line) or _ORIGINAL.match(line) or LOG.match(line):
            self._read = self._plain
            return False
        if (frame := _FRAME.match(line)) is not None:
            self._indent = len(frame[1])
            return True
        if self._indent >= 0:  # after a stack within the message
            if not line.strip() or len(line) - len(line.lstrip()) > self._indent:
                return True
            self._error.inner, self._indent = [line], -1
        elif len(lines) < _MESSAGE_LINES:
            lines.append(line)
        return False

    def _group(self, line: str) -> bool:
        error, margin = self._error, _MARGIN.match(line)
        if margin is None:
            self._read = self._plain
            return self._plain(line)
        text = line[margin.end() :]
        if self._frame(text) or not text or text[0].isspace():
            return True
        if _CHAIN.match(text) and error.group and error.message != [error.group]:
            error.first_cause, error.message = error.first_cause or error.text, [error.group]
        elif not _RAISED.match(text) or _SUB_EXCEPTIONS.search(text):
            if not error.group and _RAISED.match(text):
                error.group, error.line = text, self._count
                error.message = [text]
                self._last = error
                self._add(error)
        elif error.message == [error.group]:
            error.message = [text]
        return True


def _place(file: str, number: str, name: str | None = None) -> str:
    return f"{PurePath(file).name}:{number}{f' in {name}' if name and name != '<module>' else ''}"


def _joined(first: str, rest: Sequence[str]) -> str:
    """The first line, and as many of the further ones as belong to it, and as TEXT_LIMIT allows."""
    text, rest = shortened(first), [line for line in rest if not ADVICE.match(line)]
    if len(rest) > _WHOLE_LINES:  # perhaps lines of other threads, or of the end of the script
        rest = rest[:_HEAD_LINES] if text.endswith(":") else []
    for line in rest:
        if len(text) + len(line) >= TEXT_LIMIT:
            return f"{text} ..."
        text = f"{text} {line}"
    return text


def shortened(text: str, limit: int = TEXT_LIMIT) -> str:
    """`text` with at most about `limit` characters: its begin and its end, which may contain the reason."""
    return text if len(text) <= limit else f"{text[: limit * 3 // 4]} ... {text[-limit // 4 :]}"
