"""One registered data set, read by all ranks under one job: the settings of the wire and why they are what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import NotReady, UsageError
from tfhet.planes import private
from tfhet.planes.tf_service.wire import Wire

_POLL_S = 0.05


@dataclass(frozen=True)
class Transport:
    """How elements travel from workers to ranks."""

    compression: str | None = None
    """None, or "AUTO", which is Snappy: 8 s of client CPU per GB of float32 noise, against 0.8 s without."""
    task_refresh_ms: int = 100
    """Milliseconds between two requests of a reader for tasks. Every end of an epoch waits for one: with TensorFlow's
    1,000 ms a data set of 800 elements takes 1.02 s, with 100 ms 0.11 s (TF 2.15.1, loopback). It is a small RPC."""
    register_deadline_s: float = 120.0
    """Seconds that the other ranks wait for rank 0 to register a data set."""

    def publish(self, wire: Wire, dispatcher: str, dataset: tf.data.Dataset, dataset_id: str) -> None:
        """Registers `dataset` under `dataset_id`, which must be unique: a second data set of one id is ignored. A
        dispatcher with a journal keeps the data set in a file of that name. Raises UsageError for one with a slash."""
        if "/" in dataset_id:
            raise UsageError(
                f"a data set cannot be called {dataset_id!r}, after its job: give the job a name without /"
            )
        tf.data.experimental.service.register_dataset(
            f"{wire.protocol}://{dispatcher}", dataset, compression=self.compression, dataset_id=dataset_id
        )

    def wait_published(self, wire: Wire, dispatcher: str, dataset_id: str, clock: Clock = SYSTEM) -> None:
        """Returns once rank 0 has registered `dataset_id`. Raises NotReady after `register_deadline_s`."""
        end = clock.monotonic() + self.register_deadline_s
        while not is_registered(wire, dispatcher, dataset_id):
            if clock.monotonic() > end:
                raise NotReady(
                    f"rank 0 did not register the data set {dataset_id!r} with the dispatcher at {dispatcher} within "
                    f"{self.register_deadline_s:g} s; do all ranks call tfhet.distribute in the same order?"
                )
            clock.sleep(_POLL_S)

    def read(self, wire: Wire, dispatcher: str, dataset_id: str, element_spec: Any, sharding: str) -> tf.data.Dataset:
        """The data set as this rank's share of its one job: first come, first served among all readers. `sharding` is
        "dynamic" (each split goes to one worker, once) or "off" (every worker delivers everything)."""
        return private.read_registered(
            tf.data.experimental.service.ShardingPolicy[sharding.upper()],
            f"{wire.protocol}://{dispatcher}",
            dataset_id,
            element_spec,
            job_name=f"{dataset_id}.job",
            task_refresh_interval_hint_ms=self.task_refresh_ms,
            data_transfer_protocol=wire.protocol,
        )


def is_registered(wire: Wire, dispatcher: str, dataset_id: str) -> bool:
    """Whether the dispatcher knows the data set. Raises NotReady when it does not answer."""
    try:
        private.registered_metadata(dataset_id, dispatcher, wire.protocol)
    except (tf.errors.OpError, RuntimeError) as error:
        if "not found" not in str(error).lower():
            raise NotReady(f"the dispatcher at {dispatcher} does not answer: {error}") from None
        return False
    return True
