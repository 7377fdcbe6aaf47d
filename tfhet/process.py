"""A child process, read line by line, and ended with its whole group, also if this process dies first."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

from tfhet.process_output import OnLine, ProcessOutput

if TYPE_CHECKING:
    import psutil

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_NAME = 15
_PIPE_BYTES = (1 << 12, 1 << 16)
"""Size of a pipe whose output is not read, Linux's minimum, so that the child soon waits; and if it is read."""
_DRAIN_S = 0.5
_NO_MEMORY = re.compile(
    r"bad_alloc|MemoryError|OOM when allocating|[Oo]ut of memory|[Cc]annot allocate memory|failed to allocate memory"
)
_DISK_FULL = re.compile(r"No space left|[Dd]isk quota exceeded")
_PERHAPS_NO_MEMORY = re.compile(r"ResourceExhaustedError|pthread_create\(\) failed")  # or no quota, or no threads

STACK_SIGNAL = signal.SIGUSR2
"""A script that called `answer_with_stack` prints its Python stack when it gets this signal."""


class Channel(Protocol):
    """A channel that a child may inherit in addition to its output."""

    @property
    def descriptor(self) -> int:
        """Its number, here and in the child."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables with which the child finds it."""

    def started(self) -> None:
        """Called when the child has its copy, or could not be started."""

    async def ended(self) -> None:
        """Called when the child has ended and its output was read."""


_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
_PARENT = os.getppid()


def die_with(parent: int, number: signal.Signals, then: Callable[[], None]) -> None:
    """Runs in the child between fork and exec: the kernel sends it the signal when its parent dies (Linux only)."""
    then()
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)


def end_with_parent(number: signal.Signals) -> None:
    """Asks the kernel to send this process the signal when its parent dies, or sends it now if it has (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != _PARENT:
            os.kill(os.getpid(), number)


def answer_with_stack() -> None:
    """Makes this process print the Python stack of its main thread at STACK_SIGNAL, unless it has its own handler."""
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # stderr is missing, or is no file
        if signal.getsignal(STACK_SIGNAL) is signal.SIG_DFL:
            faulthandler.register(STACK_SIGNAL, all_threads=False)


def stack_of_last_thread() -> str:
    """Name and stack, in `faulthandler`'s format, of a thread for which this process waits at its end, or ""."""
    main = threading.main_thread()
    outermost = stack_of(main.ident)[-1:]
    if [(code.co_filename, code.co_name) for code, _ in outermost] != [(threading.__file__, "_shutdown")]:
        return ""
    for thread in threading.enumerate():
        if thread is not main and not thread.daemon and (stack := stack_of(thread.ident)):
            lines = [f'  File "{code.co_filename}", line {line} in {code.co_name}' for code, line in stack]
            return "\n".join([f"thread {thread.name} (most recent call first):", *lines])
    return ""


def stack_of(thread: int | None) -> list[tuple[CodeType, int]]:
    """Code and line of a thread's frames, the innermost first; empty if it has ended. It keeps no frame: a cycle of
    references would keep a dataset iterator until Python ends, and TensorFlow may wait for it for ever."""
    frame = sys._current_frames().get(thread or 0)
    return [(each.f_code, line) for each, line in traceback.walk_stack(frame)] if frame else []


def name_process(name: str) -> None:
    """Gives this process, called from its main thread, a name in the process table (Linux only; at most 15 bytes)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


class Child:
    """One child process in its own session, whose stdout and stderr are read together, line by line."""

    def __init__(
        self, name: str, transport: asyncio.SubprocessTransport, output: ProcessOutput, channel: Channel | None
    ):
        self.name = name
        self.pid = transport.get_pid()
        self.tail = output.tail
        """Its last lines, without noise."""
        self._transport, self._output, self._channel = transport, output, channel
        self._reaped = False
        self._is_read = True

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        on_line: OnLine,
        cwd: Path | None = None,
        when_orphaned: signal.Signals = signal.SIGKILL,
        channel: Channel | None = None,
        is_noise: Callable[[str], bool] = lambda line: False,
        before_exec: Callable[[], None] = lambda: None,
    ) -> Child:
        """Starts `command`. Raises OSError if it cannot be executed.

        Args:
            when_orphaned: Signal if this process dies. A training script may ignore SIGTERM, or be in an allreduce.
            channel: Passed to the child, and ended with it.
            is_noise: Whether `tail` omits a line.
            before_exec: Called in the child, which has one thread then.
        """
        output = ProcessOutput(on_line, is_noise)
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: output,
                *command,
                env={**env, **(channel.variables if channel is not None else {})},
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                pass_fds=() if channel is None else (channel.descriptor,),
                preexec_fn=functools.partial(die_with, os.getpid(), when_orphaned, before_exec),
            )
        except BaseException:
            if channel is not None:
                await channel.ended()
            raise
        finally:
            if channel is not None:
                channel.started()
        return cls(name, transport, output, channel)

    @property
    def code(self) -> int | None:
        """Exit code; negative for the signal that ended it; None while it runs."""
        return self._transport.get_returncode()

    async def wait(self) -> int:
        """Waits for its end, ends the rest of its process group, and returns its exit code."""
        await self._output.ended.wait()
        self.read_output()
        if not self._reaped:  # later its number may be that of another process
            self._signal(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            # A process in another session may keep the pipe open; the child's own lines arrive within moments.
            async with asyncio.timeout(_DRAIN_S):
                await self._output.closed.wait()
        if self._channel is not None:
            await self._channel.ended()
        self._transport.close()
        self._reaped = True
        code = self.code
        assert code is not None
        return code

    async def stop(self, grace_s: float = 5.0, by: signal.Signals = signal.SIGTERM) -> int:
        """Ends its process group: with the signal `by`, and with SIGKILL after `grace_s`. Returns its exit code."""
        if self.code is None:
            self._signal(by)
            try:
                async with asyncio.timeout(grace_s):
                    await self._output.ended.wait()
            except TimeoutError:
                self._signal(signal.SIGKILL)
        return await self.wait()

    def read_output(self, is_read: bool = True) -> None:
        """Continues to read its output, or stops until it has ended, so that it has to wait when the pipe is full."""
        pipe: Any = self._transport.get_pipe_transport(1)
        if pipe is not None and not pipe.is_closing() and is_read != self._is_read:
            self._is_read = is_read
            (pipe.resume_reading if is_read else pipe.pause_reading)()
            with contextlib.suppress(OSError):  # it contains more than that
                fcntl.fcntl(pipe.get_extra_info("pipe"), fcntl.F_SETPIPE_SZ, _PIPE_BYTES[is_read])

    def ask_for_stack(self) -> None:
        """Sends STACK_SIGNAL to the process, which ends it unless it called `answer_with_stack`."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, STACK_SIGNAL)

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal to its process group; `wait` returns when it has ended."""
        if self.code is None:
            self._signal(by)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def lives(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie does not."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def describe_exit(code: int, tail: Iterable[str] = ()) -> str:
    """Describes an exit code: `exit code 3`, `SIGTERM`, `SIGABRT (out of memory)`. tail: the process's last lines."""
    name = f"exit code {code}"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:  # a real-time signal has no name
            name = f"signal {-code}"
    text = "\n".join(tail) if code else ""
    if _DISK_FULL.search(text):  # also a ResourceExhaustedError in TensorFlow
        return f"{name} (disk full)"
    if _NO_MEMORY.search(text):
        return f"{name} (out of memory)"
    if name == "SIGKILL" or _PERHAPS_NO_MEMORY.search(text):
        return f"{name} (out of memory?)"
    return name
