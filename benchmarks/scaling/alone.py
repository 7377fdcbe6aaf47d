"""The cost of a batch outside any job: a process of its own, which measures whenever it is asked.

First the pipeline alone, in this process, without a service; and its stages after the cut, on batches in memory. Then
the wire: batches of it that lie in a worker's memory are moved to this process through a dispatcher and a worker as
jobs have them, and the CPU of all three counts.

The process has one CPU, as a host of less than one has: TensorFlow starts as many threads as it sees CPUs, and two of
them on little CPU are dearer than one (measured: 205 ms and 148 ms for the same batch).
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cluster_runs import batch_cpu
from benchmarks.cluster_runs.load import Ideal
from tfhet.bench.child_process import answer_requests
from tfhet.record import median

if TYPE_CHECKING:
    import tensorflow as tf

PARTS = ("stages_s", "wire_s", "reader_s", "after_s")
ROUNDS = 2
ROUND_CPU_S = 0.4
"""CPU seconds of a round, at least."""


@dataclass(frozen=True)
class Alone:
    """CPU seconds per batch, one value a round."""

    stages_s: tuple[float, ...]
    wire_s: tuple[float, ...]
    reader_s: tuple[float, ...]
    """The part of the wire's that the reading process has, which no other host can take over."""
    after_s: tuple[float, ...]
    """The part of the stages' that comes after the cut, which no other host can take over either."""
    bytes_per_batch: int
    """On the wire."""

    def and_again(self, later: Alone) -> Alone:
        """The rounds of both measurements."""
        both = (self, later)
        parts = {name: tuple(value for one in both for value in getattr(one, name)) for name in PARTS}
        return Alone(**parts, bytes_per_batch=self.bytes_per_batch)

    def ideal(self, cpus: float, ranks: int = 1) -> Ideal:
        """The ideal that follows from the medians of these parts. cpus: of each host; ranks: how many hosts train."""
        stages_s, wire_s, reader_s, after_s = (median(getattr(self, name)) for name in PARTS)
        return Ideal(stages_s, wire_s, reader_s + after_s, cpus, ranks)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Alone:
        """From the answer of the process."""
        return cls(**{name: tuple(answer[name]) for name in PARTS}, bytes_per_batch=answer["bytes_per_batch"])


def main(argv: Sequence[str] | None = None) -> None:
    """Measures one load, as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channel", type=Path)
    parser.add_argument("--chain", required=True)
    parser.add_argument("--form", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    given = parser.parse_args(argv)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    asyncio.run(_serve(*datasets(given.channel, given.chain, given.form, given.batch_size)))


async def _serve(
    local: tf.data.Dataset, remote: tf.data.Dataset, after: Callable[[tf.data.Dataset], tf.data.Dataset]
) -> None:
    import tensorflow as tf

    async with batch_cpu.service() as dispatcher:
        held = batch_cpu.in_memory(remote)
        rest, wire = after(held), batch_cpu.moved(held, dispatcher, "held")
        size = sum(int(tf.size(part)) * part.dtype.size for part in tf.nest.flatten(next(wire)))
        await asyncio.to_thread(answer_requests, lambda asked: _measured(local, wire, rest, size))


def _measured(local: tf.data.Dataset, moved: Iterator[Any], after: tf.data.Dataset, size: int) -> dict[str, Any]:
    """A pipeline that chooses its own buffers prepares batches for as long as its iterator lives: it must not while a
    job is measured, so each time it begins anew."""
    stages, wire, rest = (batch_cpu.rounds(iter(each), ROUNDS, ROUND_CPU_S) for each in (local, moved, after))
    return {
        "stages_s": [one.own_s for one in stages],
        "after_s": [one.own_s for one in rest],
        "wire_s": [one.own_s + one.below_s for one in wire],
        "reader_s": [one.own_s for one in wire],
        "bytes_per_batch": size,
    }


def datasets(
    channel: Path, chain: str, form: str, batch_size: int
) -> tuple[tf.data.Dataset, tf.data.Dataset, Callable[[tf.data.Dataset], tf.data.Dataset]]:
    """Without end: all of the pipeline in one process, and the part of it that runs on workers; and what a trainer does
    with the batches of that part."""
    from benchmarks.job_scripts import plain
    from tfhet import stages

    if form == "example":
        files = sorted(str(path) for path in channel.glob("*.tfrecord*"))
        made = plain.dataset(files, (32, 32, 3), stages.parse(chain), batch_size, repeat=-1)
        return made, made, lambda batches: batches
    from tfhet.placement import Cut, Pipeline, local_part, one_epoch, remote_part
    from tfhet.source import TFRecordSource

    pipeline = Pipeline(TFRecordSource.from_directory(str(channel)), chain, batch_size)
    remote = remote_part(pipeline, None, Cut.smallest(pipeline))
    return one_epoch(pipeline, None).repeat(), remote, lambda batches: local_part(pipeline, batches)


if __name__ == "__main__":
    main()
