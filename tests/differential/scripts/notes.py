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


APART_LIMIT_S = 60.0
"""Maximum wait for a rank that is a step behind."""


def rank() -> int:
    return job().get("rank", 0)


def job() -> dict[str, Any]:
    """What the launcher says of this rank; empty without a launcher."""
    return json.loads(os.environ.get("TFHET_JOB", "{}"))


class Notes:
    """The notes of one process."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {role: {"passes": [], "batches": []} for role in ("training", "validation")}
        self._seen: Counter[str] = Counter()
        self._batches = 0
        self._last_s: float | None = None
        self._steps_s: list[float] = []
        self._steps = 0

    def batch(self, numbers: Iterable[int]) -> None:
        """Notes the examples of a batch."""
        self._seen.update(str(int(number)) for number in numbers)
        self._batches += 1

    def add_counts(self, counts: Iterable[float]) -> None:
        """Notes examples by how often each number came."""
        self._seen.update({str(number): int(count) for number, count in enumerate(counts) if count})

    def step(self) -> None:
        """Ends a step of training: sleeps, waits for ranks that are a step behind, and stops the watch.

        Data-parallel training keeps its ranks together like this. Else a rank on a busy machine would begin its first
        pass when the others have read the next one, too."""
        time.sleep(STEP_S)
        self._keep_together()
        now_s = time.perf_counter()
        if self._last_s is not None:
            self._steps_s.append(now_s - self._last_s)
        self._last_s = now_s

    def _keep_together(self) -> None:
        self._steps += 1
        folder, until_s = Path(os.environ["NOTES"]), time.perf_counter() + APART_LIMIT_S
        own = folder / f"{rank()}.steps"
        own.with_suffix(".new").write_text(str(self._steps))
        own.with_suffix(".new").rename(own)
        for other in range(job().get("size", 1)):
            path = folder / f"{other}.steps"
            while time.perf_counter() < until_s and not (path.exists() and int(path.read_text()) >= self._steps - 1):
                time.sleep(0.001)

    def end(self, role: str) -> None:
        """Ends a pass."""
        self.found[role]["passes"].append(dict(self._seen))
        self.found[role]["batches"].append(self._batches)
        self._seen.clear()
        self._batches, self._last_s = 0, None

    def write(self, **more: Any) -> None:
        self.found.update(more, step_ms=1e3 * statistics.median(self._steps_s))
        Path(os.environ["NOTES"], f"{rank()}.json").write_text(json.dumps(self.found))
