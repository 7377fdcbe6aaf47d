"""Decides whether each example was seen exactly once, from what the ranks trained on and from the files alone.

The judge shares no code with the job's own audit. It reads the notes of the scripts in `scripts/`, the logs, and the
TFRecord files with TensorFlow's own reader. A step of a run counts if the next run did not begin before it: what was
trained after a checkpoint is gone with its weights.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.source.digits import digits

Seen = Counter[tuple[int, str]]
"""Number of visits by epoch and digest of the example."""
_RESUMED = re.compile(r"\[tfhet\] resumed at epoch=\d+ step=(\d+)")


@dataclass(frozen=True)
class Run:
    """The examples that one run trained on."""

    steps: tuple[Seen, ...]
    """For each step: the examples of all ranks."""
    first: int = 0
    """Step of the checkpoint that the run resumed from; 0 for a start from nothing."""
    finished: int = 0
    """Number of epochs after which every rank has begun another one."""

    @classmethod
    def read(cls, folder: Path, ranks: int = 1) -> Run:
        """Reads the notes of so many ranks, and the logs, in the run folder of a simulation."""
        resumed = [int(step) for log in folder.glob("logs/*.log") for step in _RESUMED.findall(log.read_text())]
        calls: dict[int, Seen] = {}
        reached = []
        for path in sorted([*folder.glob("hosts/*/output/data/witness/*.jsonl"), *folder.glob("witness/*.jsonl")]):
            notes = [json.loads(line) for line in path.read_text().splitlines()]
            for number, note in enumerate(notes):
                calls.setdefault(number, Counter()).update((note["epoch"], digest) for digest in note["content"])
            reached.append(max((note["epoch"] for note in notes), default=0))
        # A call in which no rank has a batch is no step.
        steps = tuple(calls[number] for number in sorted(calls) if calls[number])
        return cls(steps, max(resumed, default=0), min(reached, default=0) if len(reached) == ranks else 0)


@dataclass(frozen=True)
class Verdict:
    """The violations of exactly-once by the runs of a job."""

    words: tuple[str, ...] = ()
    """All of them, in words."""
    missing: int = 0
    """Examples of complete epochs that no step has seen."""
    repeated: int = 0
    """Visits of all epochs beyond the first one of each example."""


def judge(runs: Sequence[Run], expected: Counter[str], complete: Collection[int]) -> Verdict:
    """Judges the runs of a job, oldest first.

    Args:
        runs: Each run resumes from a checkpoint of the one before.
        expected: Digests of the examples of the source.
        complete: The epochs in which no example may be missing; in all others none may be repeated.
    """
    seen: dict[int, Counter[str]] = {epoch: Counter() for epoch in complete}
    found, missing, repeated = [], 0, 0
    for number, run in enumerate(runs):
        last = run.first + len(run.steps)
        until = runs[number + 1].first if number + 1 < len(runs) else last
        if not run.first <= until <= last:
            found.append(f"run {number + 1} took the steps {run.first} to {last}, and the next begins at {until}")
        for step in run.steps[: max(0, until - run.first)]:
            for (epoch, digest), count in step.items():
                seen.setdefault(epoch, Counter())[digest] += count
    for epoch, content in sorted(seen.items()):
        foreign = (content - Counter(dict.fromkeys(expected, content.total()))).total()
        counts = {
            "missing": (expected - content).total() if epoch in complete else 0,
            "repeated": (content - expected).total() - foreign,
            "not of the source": foreign,
        }
        missing, repeated = missing + counts["missing"], repeated + counts["repeated"]
        found += [f"epoch {epoch}: {count} examples {name}" for name, count in counts.items() if count]
    return Verdict(tuple(found), missing, repeated)


@functools.cache
def digits_without(left_out: frozenset[tuple[int, int]] = frozenset()) -> Counter[str]:
    """The expected digests of a job that reads the digits; left_out: as in `content_of`."""
    return content_of(digits() / "train", left_out)


def content_of(channel: Path, left_out: Collection[tuple[int, int]] = ()) -> Counter[str]:
    """Digests of the examples in the TFRecord files of a folder, without those at `left_out`, (file, record) from 0."""
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    found: Counter[str] = Counter()
    for file, path in enumerate(sorted(channel.glob("*.tfrecord*"))):
        for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
            if (file, number) not in left_out:
                parsed = tf.io.parse_single_example(record, features)
                content = parsed["image"].numpy() + parsed["label"].numpy().tobytes()
                found[hashlib.sha256(content).hexdigest()[:16]] += 1
    return found
