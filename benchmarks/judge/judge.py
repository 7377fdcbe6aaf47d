"""Checks exactly-once over all runs of a job, from what the ranks trained on and from the files alone.

    python -m benchmarks.judge --channel ~/.cache/tfhet/digits/16-shards/train --epochs 3 RUN [RUN ...]

It shares no code with the audit that it checks: it reads the logs of `job_scripts/witness_train.py`, and the TFRecord
files with TensorFlow's own reader. A step of a run counts if the next run did not begin before it, because what was
trained after the checkpoint is gone with its weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

_RESUMED = re.compile(r"\[tfhet\] resumed at epoch=\d+ step=(\d+)")


@dataclass(frozen=True)
class Run:
    """The examples that one run trained on."""

    first: int
    """Step of the checkpoint from which it went on; 0 for a start from nothing."""
    steps: tuple[tuple[int, Counter[str]], ...]
    """For each step: its epoch, and the digests of its examples, of all ranks."""

    @classmethod
    def read(cls, folder: Path) -> Run:
        """The run in the run folder of a simulation."""
        resumed = [int(step) for log in folder.glob("logs/*.log") for step in _RESUMED.findall(log.read_text())]
        calls: dict[int, tuple[int, Counter[str]]] = {}
        for path in sorted([*folder.glob("hosts/*/output/data/witness/*.jsonl"), *folder.glob("witness/*.jsonl")]):
            for number, line in enumerate(path.read_text().splitlines()):
                told = json.loads(line)
                epoch, content = calls.setdefault(number, (told["epoch"], Counter()))
                content.update(told["content"])
                if told["content"]:
                    calls[number] = (told["epoch"], content)
        return cls(max(resumed, default=0), tuple(calls[number] for number in sorted(calls) if calls[number][1]))


@dataclass(frozen=True)
class Verdict:
    """The violations of exactly-once by the runs of a job."""

    words: tuple[str, ...] = ()
    """All of it, in words; empty when all was kept."""
    missing: int = 0
    """Examples of all epochs that no step that counts was taken on."""
    repeated: int = 0
    """Visits of all epochs beyond the first one of each example."""
    foreign: int = 0
    """Visits of all epochs to what is no example of the source."""


def judge(runs: Sequence[Run], expected: Counter[str], epochs: int) -> Verdict:
    """Judges the runs of a job, oldest first, of which the last has trained to the end of `epochs` epochs.

    expected: digests of the examples of the source.
    """
    seen: dict[int, Counter[str]] = {epoch: Counter() for epoch in range(epochs)}
    found, totals = [], [0, 0, 0]
    for number, run in enumerate(runs):
        until = runs[number + 1].first if number + 1 < len(runs) else run.first + len(run.steps)
        if not run.first <= until <= run.first + len(run.steps):
            last = run.first + len(run.steps)
            found.append(f"run {number + 1} took the steps {run.first} to {last}, and the next begins at {until}")
        for epoch, content in run.steps[: max(0, until - run.first)]:
            seen.setdefault(epoch, Counter()).update(content)
    for epoch, content in sorted(seen.items()):
        foreign = (content - Counter(dict.fromkeys(expected, content.total()))).total()
        counts = ((expected - content).total(), (content - expected).total() - foreign, foreign)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        what = ("missing", "repeated", "not of the source")
        found += [f"epoch {epoch}: {n} examples {name}" for n, name in zip(counts, what, strict=True) if n]
    return Verdict(tuple(found), *totals)


def judge_together(run: Run, expected: Counter[str], epochs: int, left: int) -> Verdict:
    """Judges a script that reads one epoch after the other without an end between them, of which a step does not say
    which epoch its examples belong to: all epochs as one.

    epochs: number of epochs that were begun. left: examples of these that the script had not asked for when it ended.
    """
    seen = sum((content for _, content in run.steps), Counter[str]())
    wanted = Counter({one: epochs * count for one, count in expected.items()})
    foreign = sum(count for one, count in seen.items() if one not in expected)
    counts = ((wanted - seen).total() - left, (seen - wanted).total() - foreign, foreign)
    what = ("missing", "repeated", "not of the source")
    found = [f"{n} examples {name} in {epochs} epochs" for n, name in zip(counts, what, strict=True) if n]
    return Verdict(tuple(found), *counts)


def content_of(
    channel: Path, image: str = "image", label: str = "label", left_out: Collection[tuple[int, int]] = ()
) -> Counter[str]:
    """Digests of the examples in the TFRecord files of a folder: features `image` of raw bytes, `label` int64.

    left_out: examples that do not count, as numbers of the file and of the record in it, from 0.
    """
    import tensorflow as tf

    features = {image: tf.io.FixedLenFeature([], tf.string), label: tf.io.FixedLenFeature([], tf.int64)}
    found: Counter[str] = Counter()
    for file, path in enumerate(sorted(channel.glob("*.tfrecord*"))):
        for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
            if (file, number) in left_out:
                continue
            parsed = tf.io.parse_single_example(record, features)
            content = parsed[image].numpy() + parsed[label].numpy().tobytes()
            found[hashlib.sha256(content).hexdigest()[:16]] += 1
    return found


def main(argv: Sequence[str]) -> int:
    """Prints what was not kept; 1 if anything was not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders of one job, the oldest first")
    parser.add_argument("--channel", required=True, type=Path, metavar="DIR", help="the TFRecord files that were read")
    parser.add_argument("--epochs", required=True, type=int, metavar="N", help="epochs of the job")
    options = parser.parse_args(argv)
    expected = content_of(options.channel)
    found = judge([Run.read(folder) for folder in options.runs], expected, options.epochs).words
    for line in found or [f"each of {expected.total()} examples exactly once in each of {options.epochs} epochs"]:
        print(line)
    return 1 if found else 0
