"""What the scripts of the differential test note: the examples of each pass, and the time of a step by a stopwatch.

FILES and NOTES name the folders of the data and of the notes. An example is known by its number, which is its label.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

STEP_S = 0.02
"""Seconds that each step sleeps."""
EPOCHS = 4
FILES = Path(os.environ["FILES"])
EXAMPLES = 64


def rank() -> int:
    return json.loads(os.environ.get("TFHET_JOB", "{}")).get("rank", 0)


class Notes:
    """The notes of one process."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {role: {"passes": [], "batches": []} for role in ("training", "validation")}
        self._seen: Counter[str] = Counter()
        self._batches = 0
        self._last_s: float | None = None
        self._steps_s: list[float] = []

    def batch(self, numbers: Iterable[int]) -> None:
        """Notes the examples of a batch."""
        self._seen.update(str(int(number)) for number in numbers)
        self._batches += 1

    def add_counts(self, counts: Iterable[float]) -> None:
        """Notes examples by how often each number came."""
        self._seen.update({str(number): int(count) for number, count in enumerate(counts) if count})

    def step(self) -> None:
        """Ends a step of training: sleeps, and stops the watch."""
        time.sleep(STEP_S)
        now_s = time.perf_counter()
        if self._last_s is not None:
            self._steps_s.append(now_s - self._last_s)
        self._last_s = now_s

    def end(self, role: str) -> None:
        """Ends a pass."""
        self.found[role]["passes"].append(dict(self._seen))
        self.found[role]["batches"].append(self._batches)
        self._seen.clear()
        self._batches, self._last_s = 0, None

    def write(self, **more: Any) -> None:
        self.found.update(more, step_ms=1e3 * statistics.median(self._steps_s))
        Path(os.environ["NOTES"], f"{rank()}.json").write_text(json.dumps(self.found))
