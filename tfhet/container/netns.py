"""Commands of the machine, and the network namespaces in which they run, held open by descriptors of this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tfhet.errors import TfhetError, UsageError

TOOL_LIMIT_S = 20.0
IP_BATCH = ("ip", "-batch", "-")
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_LIBC = ctypes.CDLL(None, use_errno=True)
Value = TypeVar("Value")


class NetworkNamespace:
    """A network namespace. It and its devices exist until `close`, or until this process ends."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor

    @classmethod
    def new(cls) -> NetworkNamespace:
        """Makes an empty namespace, whose devices announce nothing. Raises UsageError if the kernel refuses."""

        def unshared() -> int:
            if _LIBC.unshare(_CLONE_NEWNET):
                raise UsageError(f"no new network namespace: {os.strerror(ctypes.get_errno())}; run this as root")
            with contextlib.suppress(OSError):  # a kernel without IPv6
                Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1", encoding="ascii")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY)

        return cls(_in_a_thread(unshared))

    @classmethod
    def of(cls, pid: int) -> NetworkNamespace:
        """The namespace of a process. Raises UsageError if it is the namespace of this process."""
        try:
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        except OSError as error:
            raise UsageError(f"the network namespace of process {pid}: {error.strerror}") from None
        if os.path.samestat(os.fstat(descriptor), Path("/proc/self/ns/net").stat()):
            os.close(descriptor)
            raise UsageError(f"process {pid} has no network namespace of its own: start it with unshare --net")
        return cls(descriptor)

    @property
    def path(self) -> str:
        """Path of the namespace for child commands that inherit the descriptor."""
        return f"/proc/self/fd/{self.descriptor}"

    def run(self, words: Sequence[str], lines: Iterable[str] = (), others: Iterable[NetworkNamespace] = ()) -> str:
        """Runs a command in it, with `lines` as its input, and returns its output. others: namespaces whose `path` the
        command uses. Raises TfhetError like the function `run`."""
        if self.descriptor < 0:
            raise TfhetError(f"`{' '.join(words)}`: this network namespace was closed")
        descriptors = [self.descriptor, *(other.descriptor for other in others)]
        text = "".join(f"{line}\n" for line in lines)
        return run(words, text, before=("nsenter", f"--net={self.path}", "--"), pass_fds=descriptors)

    def ip(self, *lines: str) -> None:
        self.run(IP_BATCH, lines)

    def socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """An IPv4 socket of this process that is in the namespace."""

        def opened() -> socket.socket:
            if _LIBC.setns(self.descriptor, _CLONE_NEWNET):
                raise UsageError(f"the network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
            return socket.socket(socket.AF_INET, kind)

        return _in_a_thread(opened)

    def close(self) -> None:
        """Closes the descriptor; the kernel removes the namespace when no process is in it. May be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _in_a_thread(function: Callable[[], Value]) -> Value:
    """Runs `function` in a thread of its own: it changes the network namespace of its thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def run(words: Sequence[str], text: str = "", *, before: Sequence[str] = (), **options: Any) -> str:
    """Runs a command with `text` as its input, and returns its standard output. before: words of a command that runs
    this one, such as nsenter. options: of `subprocess.run`. Raises TfhetError if it is missing, fails, or is late."""
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
