"""Processes of a Ray node that outlived it: workers of user code, in process groups of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import psutil

MARK = "TFHET_RAY_NODE"
"""Variable that all processes of a node inherit; its value is the node's folder."""


def mark(folder: Path) -> Mapping[str, str]:
    return {MARK: str(folder)}


def end_marked(folder: Path) -> int:
    """Ends, by SIGKILL, the processes that inherited the mark of the node with this folder. Returns their number."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder):
                process.kill()
                found.append(process)
    psutil.wait_procs(found, timeout=2.0)
    return len(found)
