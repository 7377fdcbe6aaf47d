"""A process that has as much CPU as a simulated host, from the moment when it says that it is ready."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence

from tfhet.container import sweeper
from tfhet.container.cgroup import Cgroup
from tfhet.container.limits import Limits
from tfhet.errors import TfhetError

READY = "[ready]"
"""The line that the process prints."""


def run(command: Sequence[str], cpus: float, limit_s: float) -> list[str]:
    """The lines that `command` prints, standard error among them. Raises TfhetError when it fails, or takes longer."""
    owner = sweeper.claim()
    try:
        cgroup = Cgroup.create(f"tfhet-{owner.tag}-alone")
        try:
            return _heard(command, cgroup, cpus, limit_s)
        finally:
            cgroup.remove()
    finally:
        owner.release()


def _heard(command: Sequence[str], cgroup: Cgroup, cpus: float, limit_s: float) -> list[str]:
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    timer = threading.Timer(limit_s, child.kill)
    timer.start()
    lines: list[str] = []
    try:
        cgroup.add(child.pid)
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(READY):
                cgroup.limit(Limits(cpus=cpus))
        code = child.wait()
    finally:
        timer.cancel()
        child.kill()  # does nothing to one that has ended
        child.wait()
    if code:
        raise TfhetError(f"{' '.join(command[1:4])} failed: {' | '.join(lines[-4:])}")
    return lines
