"""`serving.json` in the run record: who serves data now, which the launcher tells the ranks on its host."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "serving.json"


@dataclass(frozen=True)
class Serving:
    """The data service, as the launcher that keeps its dispatcher knows it."""

    hosts: tuple[str, ...]
    """That serve data."""
    is_complete: bool = True
    """Whether the dispatcher knows all their workers, and so they have forgotten what they did for another one."""

    def write(self, record: Path) -> None:
        """Says so in the record; a reader never sees half of it. Raises OSError."""
        record.mkdir(parents=True, exist_ok=True)
        part = record / f".{NAME}.{os.getpid()}"
        part.write_text(json.dumps(asdict(self)), encoding="utf-8")
        part.replace(record / NAME)

    @classmethod
    def read(cls, record: Path | None) -> Serving | None:
        """None where nobody has said anything that can be read."""
        if record is None:
            return None
        try:
            content = json.loads((record / NAME).read_text(encoding="utf-8"))
            return cls(tuple(str(host) for host in content["hosts"]), bool(content["is_complete"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
