"""The delay of packets, which replaces netem: not every kernel has it."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from pathlib import Path

from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError

ANSWER_LIMIT_S = 10.0
END_LIMIT_S = 5.0
_PROGRAM = Path(__file__).with_name("delay_program.py")


class DelayLine:
    """A running `delay_program.py` between two devices of a namespace, which passes nothing until `set` is called.
    Raises TfhetError if the program does not start."""

    def __init__(self, namespace: NetworkNamespace, devices: tuple[str, str]):
        self._name = f"the delay line between {' and '.join(devices)}"
        self._process = subprocess.Popen(
            ["nsenter", f"--net={namespace.path}", "--", sys.executable, "-I", "-S", str(_PROGRAM), *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(namespace.descriptor,),
        )
        if (answer := self._answer()) != "ready":
            self.close()
            raise TfhetError(f"{self._name} does not start: {answer}")

    def set(self, delay_s: float) -> None:
        """Sets the delay of each frame, in each direction. Raises TfhetError if the program has ended."""
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
            raise TfhetError(f"{self._name} has ended with code {self._process.poll()}: {answer}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], ANSWER_LIMIT_S)
        if not readable:
            return f"no answer within {ANSWER_LIMIT_S:g} s"
        return self._process.stdout.readline().decode(errors="replace").strip() or "it has closed its output"

    def close(self) -> None:
        """Ends the program; frames on their way are lost. May be called again."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
