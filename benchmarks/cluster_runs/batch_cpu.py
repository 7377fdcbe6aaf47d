"""CPU seconds of batches outside of jobs; and a service, as jobs have one, that moves batches."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tfhet.bench.meter import children_cpu_s
from tfhet.clock import SYSTEM
from tfhet.cluster import environment, free_ports

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline

FIRST_BATCHES = 8
"""Number of a pipeline's first batches, which are made while its functions are still compiled."""
LOOK_BATCHES = 4
"""Batches before the first look at the clock; as many again as were taken before each other, since looking at the
processes below costs as much as a small batch."""
IN_MEMORY = 4
"""Batches that a worker holds, to move them again and again."""
READY_S = 60.0
KEY = secrets.token_bytes(32)
"""The key of this process's service."""


class Round(NamedTuple):
    """CPU seconds of a batch."""

    own_s: float
    """Those of this process."""
    below_s: float
    """Those of the processes below this one."""


def pipeline_of(asked: Mapping[str, Any]) -> Pipeline:
    """The declared pipeline of a load (`chain`, `batch_size`, `channel`), as the trainer declares it."""
    from tfhet.placement import Pipeline
    from tfhet.source import TFRecordSource

    source = TFRecordSource.from_directory(asked["channel"])
    return Pipeline(source, asked["chain"], asked["batch_size"])


def whole(pipeline: Pipeline) -> Iterator[Any]:
    """All of it in this process, epoch after epoch."""
    from tfhet.placement import one_epoch

    return iter(one_epoch(pipeline, None).repeat())


def rounds(batches: Iterator[Any], count: int, round_cpu_s: float) -> list[Round]:
    """Measures `count` rounds of `round_cpu_s` of CPU at least, after one that does not count: batches that are ready
    when it begins cost nothing, and a pipeline that chooses its own buffers may have made many of them meanwhile."""
    for _ in range(FIRST_BATCHES):
        next(batches)
    found: list[Round] = []
    for _ in range(1 + count):
        own_s, below_s, taken, spent = SYSTEM.cpu(), children_cpu_s(), 0, (0.0, 0.0)
        while sum(spent) < round_cpu_s:
            for _ in range(taken or LOOK_BATCHES):
                next(batches)
            taken += taken or LOOK_BATCHES
            spent = SYSTEM.cpu() - own_s, children_cpu_s() - below_s
        found.append(Round(spent[0] / taken, spent[1] / taken))
    return found[1:]


@contextlib.asynccontextmanager
async def service() -> AsyncIterator[str]:
    """A dispatcher, whose address it gives, and a worker; they end with the context. Raises TfhetError."""
    from tfhet.planes.tf_service import Fleet

    dispatcher, worker = free_ports(2)
    fleet = Fleet("alone", "127.0.0.1", environment(), key=KEY, on_line=lambda line: print(line, file=sys.stderr))
    try:
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers([worker], f"127.0.0.1:{dispatcher}", READY_S)
        yield f"127.0.0.1:{dispatcher}"
    finally:
        await fleet.stop()


def in_memory(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The first of them, again and again, made once."""
    return batches.take(IN_MEMORY).cache().repeat()


def moved(held: tf.data.Dataset, dispatcher: str, name: str) -> Iterator[Any]:
    """Its elements, as a trainer reads them from the service at `dispatcher`."""
    from tfhet.placement import without_autotune
    from tfhet.planes.tf_service import Transport, Wire

    transport, wire = Transport(), Wire.join(KEY, "another-host")  # so that batches go over TCP
    transport.publish(wire, dispatcher, held, name)
    return iter(without_autotune(transport.read(wire, dispatcher, name, held.element_spec, "off")))
