"""The toy plane in a rank: a reader that asks every server of the job for batches, until all have given theirs."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import toy_wire

from tfhet.errors import JobFailed
from tfhet.placement import Pipeline, Rest
from tfhet.planes import RankSide, Reader
from tfhet.strategies import JobContext

PATIENCE_S = 10.0
"""How long a rank that has lost its server waits for the launchers, which know more, to end the job."""


class ToyReader(Reader):
    """See `Reader`."""

    def __init__(self, pipeline: Pipeline, job: JobContext, **options: Any):
        super().__init__(pipeline, job, **options)
        self._servers = list(job.order["servers"])

    @property
    def is_served(self) -> bool:
        return bool(self._servers)

    def has_servers(self, is_given_up: Any) -> bool:
        return self.is_served

    def go_local(self) -> None:
        self._servers = []

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Any:
        if not self.is_served:
            return super().dataset(epoch, rest, part)
        return self._batches(f"{self._job.job_id}/{epoch}/{part}", epoch, rest)

    def _batches(self, name: str, epoch: int, rest: Rest | None) -> Iterator[Mapping[str, tf.Tensor]]:
        for index, server in enumerate(self._servers):
            host, _, port = server.rpartition(":")
            try:
                with socket.create_connection((host, int(port))) as connection:
                    toy_wire.send(connection, (name, self.pipeline, epoch, (index, len(self._servers)), rest))
                    while (batch := toy_wire.receive(connection)) is not None:
                        yield {part: tf.constant(value) for part, value in batch.items()}
            except OSError as error:
                self._clock.sleep(PATIENCE_S)
                raise JobFailed(f"the toy server at {server} is gone: {error}") from None


class ToyRankSide(RankSide):
    """See `RankSide`. What `tfhet.distribute` shares is prepared by the ranks themselves."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> ToyReader:
        options.pop("compression", None)
        return ToyReader(pipeline, job, **options)
