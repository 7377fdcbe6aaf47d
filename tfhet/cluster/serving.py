"""`serving.json` in the run record: the hosts that serve data now, which the launcher tells the ranks on its host."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

NAME = "serving.json"


def write_serving(record: Path, hosts: Iterable[str]) -> None:
    """Says which hosts serve; a reader never sees half of it. Raises OSError."""
    record.mkdir(parents=True, exist_ok=True)
    part = record / f".{NAME}.{os.getpid()}"
    part.write_text(json.dumps(sorted(hosts)), encoding="utf-8")
    part.replace(record / NAME)


def read_serving(record: Path | None) -> tuple[str, ...] | None:
    """The hosts that serve; None where nobody has said anything that can be read."""
    if record is None:
        return None
    try:
        hosts = json.loads((record / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return tuple(map(str, hosts)) if isinstance(hosts, list) else None
