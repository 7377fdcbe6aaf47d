"""A delay line: a small program, delay.cc, that passes frames between two network devices, each after a delay.

It does what netem does, on kernels without netem. It is built once, into the user's cache, and ends with the process
that started it.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tfhet.container.compile import compiled
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError

SOURCE = Path(__file__).with_name("delay.cc")
FLAGS = ("-O2", "-Wall")
ANSWER_LIMIT_S = 10.0
END_LIMIT_S = 5.0


def build(env: Mapping[str, str]) -> Path:
    """Path of the program, built unless it is in the cache. Raises UsageError where it cannot be built."""
    what = "a packet delay, on a kernel without netem,"
    return compiled(SOURCE, env, what, "leave the delay out, or use a kernel with CONFIG_NET_SCH_NETEM", FLAGS)


class DelayLine:
    """A running delay line between two devices of a network namespace.

    It passes nothing until `set`. Raises TfhetError when it does not come up.
    """

    def __init__(self, program: Path, namespace: NetworkNamespace, devices: tuple[str, str]):
        self._name = f"the delay line between {' and '.join(devices)}"
        self._process = subprocess.Popen(
            ["nsenter", f"--net={namespace.path}", "--", str(program), *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(namespace.descriptor,),
        )
        said = self._heard()
        if said != "ready":
            self.close()
            raise TfhetError(f"{self._name} does not start: {said}")

    def set(self, delay_s: float) -> None:
        """Sets the delay of each frame, in each direction. Raises TfhetError when the line has ended."""
        microseconds = str(round(delay_s * 1e6))
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{microseconds}\n".encode())
            self._process.stdin.flush()
            said = self._heard()
        except OSError as error:
            said = str(error)
        if said != microseconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)
            raise TfhetError(f"{self._name} has ended by itself, with code {self._process.poll()}: {said}")

    def _heard(self) -> str:
        """The next line that the program prints."""
        assert self._process.stdout is not None
        there, _, _ = select.select([self._process.stdout], [], [], ANSWER_LIMIT_S)
        if not there:
            return f"nothing within {ANSWER_LIMIT_S:g} s"
        return self._process.stdout.readline().decode(errors="replace").strip() or "it has closed its output"

    def close(self) -> None:
        """Ends it; frames on their way are lost. Safe to call again."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.kill()
        process.wait(END_LIMIT_S)
