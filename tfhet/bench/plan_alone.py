"""What batches cost apart, on one CPU: `python -m tfhet.bench.plan_alone CPU`, a process that is asked for it.

It runs on that CPU from its first moment on, as the processes of a simulated host do: TensorFlow starts as many threads
as it sees CPUs, and two that share a quota cost a third more than one. Reads a line of JSON, answers with one.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfhet.bench import spent
from tfhet.bench.apart import MARK

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline

COSTS, REFERENCE = "costs", "reference"
"""What can be asked for."""
ROUNDS = 3
ROUND_CPU_S = 0.35


def main(argv: Sequence[str] | None = None) -> None:
    """Answers until its input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpu", type=int)
    given = parser.parse_args(argv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {given.cpu})
    references: dict[str, Iterator[Any]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        pipeline = pipeline_of(asked)
        if asked["what"] == REFERENCE:
            if asked["channel"] not in references:
                references[asked["channel"]] = _whole(pipeline)
            found: Mapping[str, Any] = {"cpu_s": _rounds(references[asked["channel"]])}
        else:
            found = costs(pipeline)
        print(MARK + json.dumps(found), flush=True)


def pipeline_of(asked: Mapping[str, Any]) -> Pipeline:
    """The declared pipeline of a load, as the trainer declares it."""
    from tfhet.placement import Pipeline
    from tfhet.source import TFRecordSource

    source = TFRecordSource.from_directory(asked["channel"])
    return Pipeline(source, asked["chain"], asked["batch_size"])


def costs(pipeline: Pipeline) -> dict[str, Any]:
    """Of the pipeline at each place where it can be cut, as jobs run it: CPU seconds of a batch, by round."""
    from tfhet.placement import Cut, local_part, remote_part

    found: list[dict[str, Any]] = []
    held: dict[int, tf.data.Dataset] = {}
    for position in positions(pipeline):
        cut = Cut(position)
        remote = remote_part(pipeline, None, cut)
        held[position] = spent.in_memory(remote)
        dtype, size = _bytes(next(iter(held[position])))
        found.append(
            {
                "position": position,
                "dtype": dtype,
                "bytes": size,
                "remote_s": _rounds(iter(remote)),
                "local_s": _rounds(iter(local_part(pipeline, held[position], cut))),
            }
        )
    wire = asyncio.run(_wire(held))
    cuts = [{**cut, "wire_s": wire[cut["position"]]} for cut in found]
    return {"cuts": cuts, "whole_s": _rounds(_whole(pipeline))}


def positions(pipeline: Pipeline) -> list[int]:
    """Where it can be cut without taking apart what is fused."""
    from tfhet.placement import Cut
    from tfhet.placement.lowering import steps

    ends = [0, *itertools.accumulate(len(step.stages) for step in steps(pipeline))]
    return [end for end in ends if not Cut(end).spec(pipeline).ragged]


def _bytes(element: Any) -> tuple[str, int]:
    """The dtype of most of a batch, and all of its bytes."""
    import tensorflow as tf

    sizes: collections.Counter[str] = collections.Counter()
    for value in tf.nest.flatten(element):
        is_text = value.dtype == tf.string
        sizes[value.dtype.name] += (
            int(tf.reduce_sum(tf.strings.length(value))) if is_text else int(tf.size(value)) * value.dtype.size
        )
    return sizes.most_common(1)[0][0], sizes.total()


def _whole(pipeline: Pipeline) -> Iterator[Any]:
    from tfhet.placement import one_epoch

    return iter(one_epoch(pipeline, None).repeat())


def _rounds(batches: Iterator[Any]) -> list[float]:
    return [own_s + below_s for own_s, below_s in spent.rounds(batches, ROUNDS, ROUND_CPU_S)]


async def _wire(held: Mapping[int, tf.data.Dataset]) -> dict[int, list[tuple[float, float]]]:
    """By position of the cut: CPU seconds of a batch, of the reader and of the others, by round."""
    async with spent.service() as dispatcher:
        return {at: await asyncio.to_thread(_moved, each, at, dispatcher) for at, each in held.items()}


def _moved(held: tf.data.Dataset, position: int, dispatcher: str) -> list[tuple[float, float]]:
    return spent.rounds(spent.moved(held, dispatcher, f"held-{position}"), ROUNDS, ROUND_CPU_S)


if __name__ == "__main__":
    main()
