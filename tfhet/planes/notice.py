"""Notices: lines by which a process tells the launcher that started it what happens. Needs no TensorFlow."""

from __future__ import annotations

import json
import sys
from typing import Any

MARK = "@tfhet "


def notify(event: str, **fields: object) -> None:
    """Prints one notice; fields are JSON values."""
    # In one write: with PYTHONUNBUFFERED, as SageMaker's images set it, print writes the line's end apart, and what
    # TensorFlow logs meanwhile comes between.
    sys.stdout.write(MARK + json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def understood(line: str) -> tuple[str, dict[str, Any]] | None:
    """Event and fields of a notice; None for any other line, and where two processes' output ran into one another."""
    if not line.startswith(MARK):
        return None
    try:
        fields = dict(json.loads(line[len(MARK) :]))
        return str(fields.pop("event")), fields
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
