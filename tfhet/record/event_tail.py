"""The events of a file that grows while it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class EventTail:
    """Reads `events.jsonl` from where it stopped the last time; the file need not be there yet."""

    def __init__(self, path: Path):
        self.seen: dict[str, dict[str, Any]] = {}
        """The first event of each name that was read so far."""
        self._path = path
        self._position = 0

    def read(self) -> dict[str, dict[str, Any]]:
        """Takes the whole lines that came since the last call; returns `seen`. Raises OSError, but not for a file that
        is missing."""
        if not self._path.is_file():
            return self.seen
        with open(self._path, "rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                self._take(line)
        return self.seen

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # cut short: its writer was killed
            return
        if isinstance(event, dict) and isinstance(name := event.get("event"), str):
            self.seen.setdefault(name, event)
