"""The strategies of one rank: `solo`, and `mirrored`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfhet.errors import UsageError
from tfhet.strategies.strategy import Collective, RankSource, Strategy

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


class Solo(Strategy):
    name = "solo"

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if source.own:
            _check(len(hosts) * per_host)

    def collective(self, size: int) -> Collective:
        _check(size)
        return SoloCollective()


class SoloCollective:
    """See `Collective`; every sum is the rank's own value."""

    rank, size = 0, 1

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        import tensorflow as tf

        return [tf.convert_to_tensor(tensor) for tensor in tensors]

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        return None

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return [float(value) for value in values]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return values.astype("int64")

    def shutdown(self) -> None:
        return None


def _check(size: int) -> None:
    if size > 1:
        raise UsageError(f"the strategy 'solo' is for one rank, and this job has {size}; use horovod")


class Mirrored(Strategy):
    """The rank sees all devices of its host, for tf.distribute.MirroredStrategy."""

    name = "mirrored"
    packages = ("tensorflow",)
    ranks_per_host = 1

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if (size := len(hosts) * per_host) > 1:
            raise UsageError(
                f"the strategy 'mirrored' is for one rank on one dnn host, and this job has {size} on {len(hosts)}: "
                "give --processes_per_host 1 and one dnn host, or use multi_worker"
            )

    def collective(self, size: int) -> Collective:
        raise UsageError(
            "the strategy 'mirrored' is for scripts that use tf.distribute.MirroredStrategy themselves; the built-in "
            "trainer takes one device for each rank: use multi_worker, horovod or solo"
        )


SOLO, MIRRORED = Solo(), Mirrored()
