"""The training script of the differential test: reads every row of the table, as a script of its own would.

DIFFERENTIAL holds a JSON object: `files` and `notes` (folders), and `rows`: batches of a pass by row and role.
Each rank writes `NOTES/ROW.RANK.json`. A row that hangs is left behind in its thread.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tensorflow as tf

import tfhet
from differential.reading import FAILED, HUNG, PASSES, READ, REFUSED, Reading
from differential.row import ROLES, TRAINING, Row
from differential.rows.table import ROWS
from tfhet.planes import distribution

ROW_S = 60.0
"""Seconds that a row may take."""


class Reader(threading.Thread):
    """Reads one row: a pass of training data, a pass of validation data, and so on, as `fit` does."""

    def __init__(self, row: Row, files: Path, batches: dict[str, int], ranks: int):
        super().__init__(daemon=True)
        self.row, self.files, self.batches, self.ranks = row, files, batches, ranks
        self.found = {role: Reading() for role in ROLES}
        self.at = TRAINING

    def run(self) -> None:
        try:
            data = {role: self._distributed(role, made) for role, made in self.row.data(self.files).items()}
            for _ in range(PASSES):
                for role, share in data.items():
                    if share is not None:
                        self._note(role, lambda role=role, share=share: self.found[role].add(share, self.row))
        except Exception as error:  # noqa: BLE001  # whatever the row raises is its result
            self.found[self.at].outcome, self.found[self.at].text = FAILED, repr(error)[:2000]

    def _distributed(self, role: str, made: Any) -> tf.data.Dataset | None:
        def distribute() -> tf.data.Dataset:
            how: dict[str, Any] = {"training": role == TRAINING}
            if callable(made):
                how["arguments"] = {"files": str(self.files)}
            elif self._needs_steps(role, made):
                how["steps_per_epoch"] = self.batches[role] // self.ranks
            share = tfhet.distribute(made, **how)
            self.found[role].spec, self.found[role].cardinality = str(share.element_spec), int(share.cardinality())
            return share

        return self._note(role, distribute)

    def _needs_steps(self, role: str, made: Any) -> bool:
        is_unknown = isinstance(made, tf.data.Dataset) and made.cardinality() < 0
        return role == TRAINING and is_unknown and (self.ranks > 1 or self.row.steps > 0)

    def _note(self, role: str, work: Any) -> Any:
        """Does some work of a role. An error ends the role."""
        found, self.at = self.found[role], role
        if found.outcome != READ:
            return None
        try:
            return work()
        except tfhet.UsageError as error:
            found.outcome, found.text = REFUSED, str(error)
        except Exception as error:  # noqa: BLE001  # whatever the row raises is its result
            found.outcome, found.text = FAILED, repr(error)[:2000]
        return None


def main() -> None:
    order = json.loads(os.environ["DIFFERENTIAL"])
    job = tfhet.JobContext.from_env(os.environ)
    notes = Path(order["notes"])
    for number, (name, batches) in enumerate(order["rows"].items()):
        begun = time.monotonic()
        # If rank 0 alone refuses a row, another rank calls `distribute` less often.
        distribution._ordinals = itertools.count(number * len(ROLES))
        reader = Reader(ROWS[name], Path(order["files"]), batches, job.size)
        reader.start()
        while (
            reader.is_alive()
            and time.monotonic() < begun + ROW_S
            and not (job.is_served and _is_refused(notes, name, job.rank))
        ):
            reader.join(0.05)
        if reader.is_alive():
            stack = traceback.format_stack(sys._current_frames()[reader.ident or 0])
            reader.found[reader.at].text = "".join(stack)[-1500:]
            for reading in reader.found.values():  # the thread ends when it can
                reading.outcome = HUNG
        found = {role: reading.as_json() for role, reading in reader.found.items()}
        partial = notes / f".{name}.{job.rank}"
        partial.write_text(json.dumps(found))
        partial.rename(notes / f"{name}.{job.rank}.json")
        print(f"row {name}: {time.monotonic() - begun:.2f} s", flush=True)
        # The next row begins on all ranks together: they would wait for each other in it.
        while len(list(notes.glob(f"{name}.*.json"))) < job.size and time.monotonic() < begun + ROW_S + 5:
            time.sleep(0.02)


def _is_refused(notes: Path, name: str, rank: int) -> bool:
    """Whether rank 0, which registers data sets, has refused all of a row, for which other ranks would wait."""
    note = notes / f"{name}.0.json"
    if rank == 0 or not note.exists():
        return False
    return all(found["outcome"] == REFUSED for found in json.loads(note.read_text()).values())


if __name__ == "__main__":
    main()
