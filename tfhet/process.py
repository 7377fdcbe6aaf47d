"""A child process that we start, hear, and end: with its whole group, also when we die first."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfhet.deadline import Deadline

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LINE_LIMIT_BYTES = 1 << 20
_TAIL_LINES = 20

OnLine = Callable[[str], None]


def _die_with_parent() -> None:
    """Run in the child between fork and exec: the kernel sends it SIGTERM when its parent dies (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Child:
    """One child process in a session of its own. Its output, stdout and stderr as one, comes line by line."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, on_line: OnLine):
        self.name = name
        self.pid = process.pid
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        """The last lines it printed."""
        self._process = process
        self._on_line = on_line
        self._reader = asyncio.create_task(self._read(), name=f"output of {name}")

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        on_line: OnLine,
        cwd: Path | None = None,
    ) -> Child:
        """Starts `command`. Raises OSError when it cannot be executed."""
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            limit=_LINE_LIMIT_BYTES,
        )
        return cls(name, process, on_line)

    @property
    def code(self) -> int | None:
        """Exit code; negative for the signal that ended it; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Its exit code, once it has ended and its output was read."""
        code = await self._process.wait()
        # A grandchild may still hold the pipe; what the process itself wrote is there within moments.
        await asyncio.wait({self._reader}, timeout=2)
        self._signal(signal.SIGKILL)
        self._reader.cancel()
        return code

    async def stop(self, grace_s: float = 5.0) -> int:
        """Ends it with its group: SIGTERM, and SIGKILL for what is left after `grace_s`."""
        if self.code is None:
            self._signal(signal.SIGTERM)
            try:
                async with Deadline(grace_s):
                    await self._process.wait()
            except asyncio.TimeoutError:
                self._signal(signal.SIGKILL)
        return await self.wait()

    def terminate(self) -> None:
        """Asks it, and its group, to end."""
        if self.code is None:
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while True:
            try:
                raw = await stream.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                raw = end.partial
            except asyncio.LimitOverrunError as overrun:
                raw = await stream.readexactly(overrun.consumed)
            if not raw:
                return
            line = raw.decode(errors="replace").rstrip("\r\n")
            self.tail.append(line)
            self._on_line(line)


def describe_exit(code: int) -> str:
    """An exit code in words: `exit code 3`, `SIGKILL (out of memory?)`, `SIGTERM`."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
