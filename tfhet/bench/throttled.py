"""A process of a suite's own, which may have as much CPU as a simulated host once it says that it is ready."""

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

READY = "[ready]"
"""The line that the process prints."""


def run(module: str, *arguments: str, limits: Limits | None = None, limit_s: float) -> list[str]:
    """The lines that `python -m tfhet.bench.MODULE` prints, standard error among them. Raises TfhetError when it fails,
    or takes longer.

    limits: hold from its READY on; None: it has all of the machine.
    """
    command = [sys.executable, "-m", f"tfhet.bench.{module}", *arguments]
    with contextlib.nullcontext() if limits is None else _group() as cgroup:
        return _heard(command, cgroup, limits or Limits(), limit_s)


@contextlib.contextmanager
def _group() -> Iterator[Cgroup]:
    owner = sweeper.claim()
    try:
        cgroup = Cgroup.create(f"tfhet-{owner.tag}-alone")
        try:
            yield cgroup
        finally:
            cgroup.remove()
    finally:
        owner.release()


def _heard(command: Sequence[str], cgroup: Cgroup | None, limits: Limits, limit_s: float) -> list[str]:
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    timer = threading.Timer(limit_s, child.kill)
    timer.start()
    lines: list[str] = []
    try:
        if cgroup is not None:
            cgroup.add(child.pid)
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if cgroup is not None and line.startswith(READY):
                cgroup.limit(limits)
        code = child.wait()
    finally:
        timer.cancel()
        child.kill()  # does nothing to one that has ended
        child.wait()
    if code:
        raise TfhetError(f"{' '.join(command[1:4])} failed ({code}): {' | '.join(lines[-4:])}")
    return lines
