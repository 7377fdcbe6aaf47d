"""Accounts of synthetic ids, in a process of their own: CPU seconds and peak memory of each phase.

    python -m benchmarks.audit.account host whole 10000000       # 8 ranks, which are the whole job
    python -m benchmarks.audit.account rank-0 half 1000000000    # one of 256 ranks

The collective is played. Of `host`, ranks are threads, and what they send each other goes from hand to hand. Of one
rank of 256, the others are not there: what they would send comes from its own tables, moved to their blocks.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.placement import Rest
from tfhet.source import IdSet
from tfhet.trainer.audit import MOST, Audit
from tfhet.trainer.ledger import Ledger

HOST_RANKS, RANKS, BATCH, IN_FILE = 8, 256, 256, 1000
CASES = ("whole", "half", "one-file")
"""All files of IN_FILE examples whole; half of each seen; one file of all examples, half seen."""
Phases = dict[str, dict[str, float]]


class Job:
    """The splits of a case, and which ids of them are delivered."""

    def __init__(self, case: str, examples: int):
        self.case, self.examples = case, examples
        self.sizes = (examples,) if case == "one-file" else (IN_FILE,) * (examples // IN_FILE)
        self.source: Any = SimpleNamespace(
            split_count=lambda: len(self.sizes), example_count=lambda: examples, split_sizes=lambda: self.sizes
        )
        self.delivered = examples if case == "whole" else examples // 2

    def ids(self, batches: np.ndarray) -> np.ndarray:
        """The ids of some batches: of the delivered examples, by turns one of two neighbours."""
        places = (batches[:, None] * BATCH + np.arange(BATCH)).ravel()
        places = places[places < self.delivered]
        if self.case != "whole":
            places = 2 * places + (places * 2654435761 % 2**32 >> 16 & 1)
        return places if self.case == "one-file" else (places // IN_FILE << 32) + places % IN_FILE

    def of_rank(self, rank: int, ranks: int) -> np.ndarray:
        """The ids that a rank is given: every `ranks`-th batch."""
        return self.ids(np.arange(rank, -(-self.delivered // BATCH), ranks))


class Threads:
    """Ranks that are threads of this process."""

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, slots: list[Any]):
        self.rank, self.size, self.local_rank = rank, size, rank
        self._barrier, self._slots = barrier, slots

    def _exchanged(self, value: Any) -> list[Any]:
        self._slots[self.rank] = value
        self._barrier.wait()
        everything = list(self._slots)
        self._barrier.wait()
        return everything

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return np.sum(self._exchanged(np.asarray(values, np.float64)), axis=0).tolist()

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.concatenate(self._exchanged(values))

    def alltoall(self, values: np.ndarray, counts: np.ndarray, name: str) -> np.ndarray:
        ends = np.cumsum(counts)
        sent = self._exchanged([values[end - count : end] for end, count in zip(ends, counts, strict=True)])
        received = np.concatenate([parts[self.rank] for parts in sent])
        self._barrier.wait()  # what a rank has sent stays until all have it
        return received


class OneOfMany:
    """A rank of RANKS; what the others would send is made of what this one has."""

    def __init__(self, rank: int, job: Job):
        self.rank, self.size, self.local_rank = rank, RANKS, 0
        self._job, self._turn = job, 0
        self.owned = np.zeros((0, 9), np.int64)
        """The rows of this rank's blocks."""

    def total(self, values: Sequence[float], name: str) -> list[float]:
        if name == "rest splits":
            size = self._job.sizes[0]
            return [float(size if self._job.case == "whole" else size // 2)] * len(values)
        return [RANKS * value for value in values]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.tile(values, RANKS)

    def alltoall(self, values: np.ndarray, counts: np.ndarray, name: str) -> np.ndarray:
        if name == "audit":
            turns, self._turn = -(-self._job.delivered // RANKS // MOST), self._turn + 1
            ids = IdSet(self.owned[self._turn - 1 :: turns]).ids()
            ids = ids if self._job.case == "whole" else ids[ids % 2 == (ids >> 1) * 2654435761 % 2**32 >> 16 & 1]
            return np.random.default_rng(self._turn).permutation(ids)
        table = values.reshape(-1, 9)
        received = np.tile(table, (RANKS if self.rank == 0 else 0, 1))
        step = 1 << (7 if self._job.case == "one-file" else 23)
        received[:, 0] += np.repeat(np.arange(len(received) // max(1, len(table))), len(table)) * step
        return received.ravel()


def phase(phases: Phases, name: str, work: Callable[[], Any], base: int) -> Any:
    """Does the work, and notes its CPU seconds and the peak of the memory above `base` bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    began_s, wall_s = SYSTEM.cpu(), SYSTEM.monotonic()
    found = work()
    phases[name] = {
        "cpu_s": SYSTEM.cpu() - began_s,
        "wall_s": SYSTEM.monotonic() - wall_s,
        "peak_bytes": memory("VmHWM") - base,
    }
    return found


def memory(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def given(audit: Audit, ids: np.ndarray) -> None:
    for at in range(0, len(ids), BATCH):
        audit.saw(ids[at : at + BATCH])


def write(rest: Rest) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Ledger("0" * 32, rest).write(Path(folder) / "ledger.npz")


def host(job: Job) -> Phases:
    """All phases of HOST_RANKS ranks, which are the whole job."""
    barrier, slots = threading.Barrier(HOST_RANKS, timeout=600.0), [None] * HOST_RANKS
    phases: Phases = {}
    with ThreadPoolExecutor(HOST_RANKS) as pool:

        def all_ranks(work: Callable[[int], Any]) -> list[Any]:
            return list(pool.map(work, range(HOST_RANKS)))

        def played(rank: int) -> Any:
            return Threads(rank, HOST_RANKS, barrier, slots)

        base = memory("VmRSS")
        audits = all_ranks(lambda rank: Audit(job.source, played(rank)))
        all_ranks(lambda rank: given(audits[rank], job.of_rank(rank, HOST_RANKS)))
        phase(phases, "exchange", lambda: all_ranks(lambda rank: audits[rank].exchange()), base)
        (visits, *_) = phase(phases, "visits", lambda: all_ranks(lambda rank: audits[rank].visits()), base)
        phase(phases, "rest", lambda: all_ranks(lambda rank: audits[rank].rest(False)), base)
        standing = phase(phases, "standing", lambda: all_ranks(lambda rank: audits[rank].standing()), base)[0]
        phase(phases, "ledger", lambda: write(standing), base)
    assert (visits.once, visits.repeated) == (job.delivered, 0), visits
    return phases


def one_rank(job: Job, rank: int) -> Phases:
    """All phases of one rank of RANKS."""
    together: Any = OneOfMany(rank, job)
    base = memory("VmRSS")
    phases: Phases = {}
    audit = Audit(job.source, together)
    given(audit, job.of_rank(rank, RANKS))
    sizes = np.array(job.sizes)
    together.owned = IdSet.whole(np.arange(len(sizes)), sizes, lambda blocks: audit._owner(blocks) == rank).table
    phase(phases, "exchange", audit.exchange, base)
    phase(phases, "visits", audit.visits, base)
    phase(phases, "rest", lambda: audit.rest(False), base)
    standing = phase(phases, "standing", audit.standing, base)
    if rank == 0:
        phase(phases, "ledger", lambda: write(standing), base)
    return phases


def main(who: str, case: str, examples: str) -> None:
    job = Job(case, int(examples))
    ways: dict[str, Callable[[], Phases]] = {
        "host": lambda: host(job),
        "rank-0": lambda: one_rank(job, 0),
        "rank-1": lambda: one_rank(job, 1),
    }
    print(json.dumps(ways[who]()))


if __name__ == "__main__":
    main(*sys.argv[1:])
