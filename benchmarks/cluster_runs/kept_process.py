"""Processes of a suite's own: one that does its work and ends, and one that is kept and measures when asked."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

from tfhet.container import sweeper
from tfhet.container.cgroup import Cgroup
from tfhet.container.limits import Limits
from tfhet.errors import TfhetError

MARK = "[measured] "
"""What a process that is kept says begins with it."""
END_S = 20.0
"""So long a process that is kept may take to end when nobody asks any more."""


def run(module: str, *arguments: str, limit_s: float) -> list[str]:
    """The lines that `python -m MODULE` prints, standard error among them. Raises TfhetError when it fails,
    or takes longer."""
    with _started(module, arguments) as child, _deadline(child, limit_s):
        assert child.stdout is not None
        lines = [line.rstrip("\n") for line in child.stdout]
        code = child.wait()
    if code:
        raise TfhetError(f"{module} failed ({code}): {' | '.join(lines[-4:])}")
    return lines


class Apart:
    """`python -m MODULE`, kept as long as the context lasts."""

    def __init__(self, module: str, child: subprocess.Popen[str], cgroup: Cgroup | None):
        self._module = module
        self._child = child
        self._cgroup = cgroup

    @classmethod
    @contextlib.contextmanager
    def kept(cls, module: str, *arguments: str, alone: bool = True) -> Iterator[Apart]:
        """The process, in a control group of its own, or in this one's. It prints a line that begins with MARK for each
        line that it reads, and ends when there are no more. Raises UsageError where there are no control groups."""
        group = _group() if alone else contextlib.nullcontext()
        with group as cgroup, _started(module, arguments) as child:
            if cgroup is not None:
                cgroup.add(child.pid)
                cgroup.prefer()
            yield cls(module, child, cgroup)
            assert child.stdin is not None and child.stdout is not None
            if cgroup is not None:
                cgroup.limit(Limits())
            with _deadline(child, END_S):
                child.stdin.close()
                child.stdout.read()

    def ask(self, limit_s: float, limits: Limits | None = None, what: str = "") -> str:
        """What it measures now, told `what` in a line. limits: of its group, if it has one, with all that it has
        started. Raises TfhetError when it has ended, or takes longer than `limit_s`."""
        child, lines = self._child, list[str]()
        if self._cgroup is not None:
            self._cgroup.limit(limits or Limits())
        assert child.stdin is not None and child.stdout is not None
        with _deadline(child, limit_s), contextlib.suppress(BrokenPipeError):
            child.stdin.write(f"{what}\n")
            child.stdin.flush()
            for line in child.stdout:
                if line.startswith(MARK):
                    return line[len(MARK) :]
                lines.append(line.rstrip("\n"))
        raise TfhetError(f"{self._module} ended, or took more than {limit_s:g} s: {' | '.join(lines[-4:])}")


@contextlib.contextmanager
def _group() -> Iterator[Cgroup]:
    owner = sweeper.claim()
    try:
        cgroup = Cgroup.create(f"tfhet-{owner.tag}-apart")
        try:
            yield cgroup
        finally:
            cgroup.remove()
    finally:
        owner.release()


@contextlib.contextmanager
def _started(module: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", module, *arguments]
    out = subprocess.PIPE
    with subprocess.Popen(command, stdin=out, stdout=out, stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdin is not None
        try:
            yield child
        finally:
            child.kill()  # does nothing to one that has ended
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()


@contextlib.contextmanager
def _deadline(child: subprocess.Popen[str], limit_s: float) -> Iterator[None]:
    timer = threading.Timer(limit_s, child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
