"""The temporary folder of a suite's runs."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def run_folder(suite: str, *, keep: bool = False) -> Iterator[Path]:
    """Creates a folder, and removes it at the end unless `keep` is set. SIGTERM raises SystemExit in the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"tfhet-bench-{suite}-"))
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
