"""Other processes that keep every CPU busy, as neighbours on the same machine would."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from tfhet.record.record import usable_cores

_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):  # it ends with its starter
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def busy_cpus() -> Iterator[None]:
    """Keeps as many CPUs busy as this process may use, for as long as the context lasts."""
    words = [sys.executable, "-c", _SPIN, str(os.getpid())]
    processes = [subprocess.Popen(words, stdin=subprocess.DEVNULL) for _ in range(usable_cores())]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait(10.0)
