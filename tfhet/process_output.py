"""The output of a process as lines, and the states of lines that redraw themselves, such as progress bars."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections import deque
from collections.abc import Callable, Iterator

OnLine = Callable[[str], None]
REDRAWN_S = 5.0
"""Seconds between two states of a line that redraws itself."""
TAIL_LINES = 20
MOST_BYTES = 1 << 20
"""Bytes after which a line without an end is cut."""
_REDRAWN_BYTES = 1 << 14
"""Bytes after which the history of a line that redraws itself is dropped, except its last _SHOWN characters."""
_SHOWN = 1000
_MOVES = re.compile(rb"[\r\b]")
_UP = b"\x1b[A"
_BELOW = re.compile(rb"((?:\x1b\[A)+)(\n+)(?=\r)")
"""From a line to one below that exists already: how tqdm redraws the inner one of two nested bars."""
_PERHAPS_BELOW = re.compile(rb"(?<=\x1b\[A)\n+\Z")
_TRACEBACK = "Traceback (most recent call last):"


class ProcessOutput(asyncio.SubprocessProtocol):
    """Hands on the output of a process line by line, and the state of a progress bar from time to time. Notices the end
    of the process and of its output: asyncio's `Process.wait` (Python 3.11) does not return while a grandchild has the
    pipe open, such as a daemon of a script."""

    def __init__(self, on_line: OnLine, is_noise: Callable[[str], bool]):
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()
        self._on_line, self._is_noise = on_line, is_noise
        self._lines = OutputLines()
        self._timer: asyncio.TimerHandle | None = None
        self._state: str | None = None
        """The state of a progress bar that is the last line of `tail`."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        for line in self._lines.add(data):
            self._emit(line)
        if self._timer is None and self._lines.is_redrawn:
            self._timer = asyncio.get_running_loop().call_later(REDRAWN_S, self._show_state)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for line in self._lines.end():
            self._emit(line)
        self.closed.set()

    def process_exited(self) -> None:
        self.ended.set()

    def _show_state(self) -> None:
        self._timer = None
        if self._lines.is_redrawn:
            state = self._lines.state()
            self._emit(state)
            self._state = state

    def _emit(self, text: str) -> None:
        if self._state is not None and self.tail and self.tail[-1] == self._state:
            self.tail.pop()
        self._state = None
        if not self._is_noise(text):  # frequent noise would replace the last lines
            self.tail.append(text)
        self._on_line(text)


class OutputLines:
    """Takes the bytes of an output as they arrive. A carriage return or a backspace moves the cursor of a line; its new
    state follows. Nested progress bars count as one line that redraws itself."""

    def __init__(self) -> None:
        self._rest = b""
        self._shown: str | None = None
        """The last state of the open line that `state` returned."""

    def add(self, data: bytes) -> Iterator[str]:
        """Yields the lines that these bytes complete."""
        found = self._rest + data
        held = None
        if _UP in found:
            found = _BELOW.sub(_same_line, found)
            held = _PERHAPS_BELOW.search(found)  # the next byte decides
        cut = held.start() if held else len(found)
        *lines, self._rest = found[:cut].split(b"\n")
        for line in lines:
            yield from self._completed(line)
        if _MOVES.search(self._rest):
            self._rest = _shortened(self._rest)
        self._rest += found[cut:]
        while len(self._rest) > MOST_BYTES:
            cut = MOST_BYTES
            while self._rest[cut] & 0xC0 == 0x80:  # inside of a character
                cut -= 1
            line, self._rest = self._rest[:cut], self._rest[cut:]
            yield from self._completed(line)

    def end(self) -> Iterator[str]:
        """Yields the last line, if the output does not end with a line break."""
        if self._rest:
            yield from self._completed(self._rest.rstrip(b"\n"))
        self._rest = b""

    @property
    def is_redrawn(self) -> bool:
        """Whether the open line redraws itself, and has a state that was not returned."""
        return _MOVES.search(self._rest) is not None and _visible(self._rest) not in ("", self._shown)

    def state(self) -> str:
        """Returns the state of the open line."""
        self._shown = _visible(self._rest)
        return self._shown

    def _completed(self, line: bytes) -> Iterator[str]:
        text, shown, self._shown = _visible(line, is_complete=True), self._shown, None
        bar, traceback, rest = text.partition(_TRACEBACK) if _MOVES.search(line) else (text, "", "")
        if bar != shown and (bar or not traceback):
            yield bar
        if traceback:  # it follows the bar of a failed loop without a line break
            yield traceback + rest


def _same_line(found: re.Match[bytes]) -> bytes:
    """A move between lines that exist, as a return to the beginning of one line; with the line breaks beyond them."""
    return b"\r" + b"\n" * max(0, len(found[2]) - len(found[1]) // len(_UP))


def _visible(line: bytes, is_complete: bool = False) -> str:
    """The text that a terminal shows: the last redrawn state."""
    if is_complete and not _MOVES.search(line):
        return line.decode(errors="replace")
    moved = line.replace(_UP, b"\r")
    text = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(moved, is_complete)
    states = [state for state in text.split("\r") if state.strip("\b \n")] or [""]
    return states[-1] if "\b" not in states[-1] else _typed(states[-1])


def _typed(text: str) -> str:
    """Text after its backspaces, each of which moves the cursor back by one character."""
    cells, cursor = list[str](), 0
    for character in text:
        if character == "\b":
            cursor = max(0, cursor - 1)
        else:
            cells[cursor : cursor + 1] = [character]
            cursor += 1
    return "".join(cells)


def _shortened(line: bytes) -> bytes:
    """A line that redraws itself, without the states before the last two."""
    *before, last = line.split(b"\r")
    if len(before) > 2:
        line = b"\r".join([*[state for state in before if state.strip(b"\b ")][-1:], b"", last])
    return line if len(line) < _REDRAWN_BYTES else b"\r" + _visible(line)[-_SHOWN:].encode()
