"""What a batch costs outside any job: a process of its own, which measures whenever it is asked.

First the pipeline alone, in this process, without a service. Then the wire: batches of it that lie in a worker's
memory are moved to this process through a dispatcher and a worker as jobs have them, and the CPU of all three counts.

The process has one CPU, as a host of less than one has: TensorFlow starts as many threads as it sees CPUs, and two of
them on little CPU are dearer than one (measured: 205 ms and 148 ms for the same batch).
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cluster_runs import batch_cpu
from tfhet.bench.child_process import answer_requests

if TYPE_CHECKING:
    import tensorflow as tf

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
    bytes_per_batch: int
    """On the wire."""

    def and_again(self, later: Alone) -> Alone:
        """The rounds of both measurements."""
        both = (self, later)
        stages_s, wire_s, reader_s = (
            tuple(value for one in both for value in getattr(one, name)) for name in ("stages_s", "wire_s", "reader_s")
        )
        return Alone(stages_s, wire_s, reader_s, self.bytes_per_batch)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Alone:
        """From the answer of the process."""
        stages_s, wire_s, reader_s = (tuple(answer[name]) for name in ("stages_s", "wire_s", "reader_s"))
        return cls(stages_s, wire_s, reader_s, answer["bytes_per_batch"])


def main(argv: Sequence[str] | None = None) -> None:
    """Measures one load, as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channel", type=Path)
    parser.add_argument("--chain", required=True)
    parser.add_argument("--form", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    given = parser.parse_args(argv)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    local, remote = datasets(given.channel, given.chain, given.form, given.batch_size)
    asyncio.run(_serve(iter(local), remote))


async def _serve(batches: Iterator[Any], remote: tf.data.Dataset) -> None:
    import tensorflow as tf

    async with batch_cpu.service() as dispatcher:
        wire = batch_cpu.moved(batch_cpu.in_memory(remote), dispatcher, "held")
        size = sum(int(tf.size(part)) * part.dtype.size for part in tf.nest.flatten(next(wire)))
        await asyncio.to_thread(answer_requests, lambda asked: _measured(batches, wire, size))


def _measured(batches: Iterator[Any], moved: Iterator[Any], size: int) -> dict[str, Any]:
    stages, wire = (batch_cpu.rounds(each, ROUNDS, ROUND_CPU_S) for each in (batches, moved))
    return {
        "stages_s": [one.own_s for one in stages],
        "wire_s": [one.own_s + one.below_s for one in wire],
        "reader_s": [one.own_s for one in wire],
        "bytes_per_batch": size,
    }


def datasets(channel: Path, chain: str, form: str, batch_size: int) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Without end: all of the pipeline in one process, and the part of it that runs on workers."""
    from benchmarks.job_scripts import plain
    from tfhet import stages

    if form == "example":
        files = sorted(str(path) for path in channel.glob("*.tfrecord*"))
        made = plain.dataset(files, (32, 32, 3), stages.parse(chain), batch_size, repeat=-1)
        return made, made
    from tfhet.placement import Cut, Pipeline, one_epoch, remote_part
    from tfhet.source import TFRecordSource

    pipeline = Pipeline(TFRecordSource.from_directory(str(channel)), chain, batch_size)
    return one_epoch(pipeline, None).repeat(), remote_part(pipeline, None, Cut.smallest(pipeline))


if __name__ == "__main__":
    main()
