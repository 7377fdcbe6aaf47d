"""The standard streams of this process."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Opens /dev/null for the standard streams that were closed when this process started: files that it opens would
    get their descriptors, and `print` would raise."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
