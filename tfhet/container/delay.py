"""A delay line, like netem, which not every kernel has: delay.cc passes frames between two devices, each delayed."""

from __future__ import annotations

import contextlib
import select
import subprocess
from pathlib import Path

from tfhet.cluster import environment
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError
from tfhet.native import compiled

ANSWER_LIMIT_S = 10.0
END_LIMIT_S = 5.0


def build() -> Path:
    """Path of the program, built unless it is in the user's cache. Raises UsageError where it cannot be built."""
    source = Path(__file__).with_name("delay.cc")
    return compiled(source, environment(), "a packet delay", "omit the delay", ("-O2", "-Wall"))


class DelayLine:
    """A running delay line between two devices. It passes nothing until `set`. Raises TfhetError when it does not
    come up."""

    def __init__(self, namespace: NetworkNamespace, devices: tuple[str, str]):
        self._name = f"the delay line between {' and '.join(devices)}"
        self._process = subprocess.Popen(
            ["nsenter", f"--net={namespace.path}", "--", str(build()), *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(namespace.descriptor,),
        )
        answer = self._answer()
        if answer != "ready":
            self.close()
            raise TfhetError(f"{self._name} does not start: {answer}")

    def set(self, delay_s: float) -> None:
        """Sets the delay of each frame, in each direction. Raises TfhetError when the line has ended."""
        microseconds = str(round(delay_s * 1e6))
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{microseconds}\n".encode())
            self._process.stdin.flush()
            answer = self._answer()
        except OSError as error:
            answer = str(error)
        if answer != microseconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)
            raise TfhetError(f"{self._name} has ended by itself, with code {self._process.poll()}: {answer}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        there, _, _ = select.select([self._process.stdout], [], [], ANSWER_LIMIT_S)
        if not there:
            return f"nothing within {ANSWER_LIMIT_S:g} s"
        return self._process.stdout.readline().decode(errors="replace").strip() or "it has closed its output"

    def close(self) -> None:
        """Ends it; frames on their way are lost. Safe to call again."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
