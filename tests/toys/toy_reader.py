"""The toy plane in a rank: a reader that asks every server of the job for batches, until all have given theirs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import toy_wire

from tfhet.errors import JobFailed
from tfhet.pipeline import Pipeline, Rest
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

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        for index in range(len(self._servers)):
            share = index, len(self._servers)
            with self._connected(index) as connection:
                toy_wire.send(connection, (self._name(epoch, part), self.pipeline, epoch, share, rest))
                toy_wire.receive(connection)

    def is_offered(self, epoch: int) -> bool:
        for index in range(len(self._servers)):
            with self._connected(index) as connection:
                toy_wire.send(connection, (self._name(epoch, 0), "?"))
                if not toy_wire.receive(connection):
                    return False
        return True

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Any:
        if not self.is_served:
            return super().dataset(epoch, rest, part)
        return self._batches(self._name(epoch, part))

    def _name(self, epoch: int, part: int) -> str:
        return f"{self._job.job_id}/{epoch}/{part}"

    def _batches(self, name: str) -> Iterator[Mapping[str, tf.Tensor]]:
        for index in range(len(self._servers)):
            with self._connected(index) as connection:
                toy_wire.send(connection, (name,))
                while (batch := toy_wire.receive(connection)) is not None:
                    yield {part: tf.constant(value) for part, value in batch.items()}

    @contextlib.contextmanager
    def _connected(self, index: int) -> Iterator[socket.socket]:
        host, _, port = self._servers[index].rpartition(":")
        try:
            with socket.create_connection((host, int(port))) as connection:
                yield connection
        except OSError as error:
            self._clock.sleep(PATIENCE_S)
            raise JobFailed(f"the toy server at {host}:{port} is gone: {error}") from None


class ToyRankSide(RankSide):
    """See `RankSide`. What `tfhet.distribute` shares is prepared by the ranks themselves."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> ToyReader:
        options.pop("compression", None)
        return ToyReader(pipeline, job, **options)
