"""The strategy `multi_worker`: one worker of tf.distribute.MultiWorkerMirroredStrategy for each rank."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.cluster import Place
from tfhet.errors import UsageError
from tfhet.strategies.strategy import Claim, Collective, RankSource, Strategy
from tfhet.strategies.tensorflow import keras_fit
from tfhet.strategies.tensorflow.tf_config import VARIABLE, WORKER, Tasks, TfConfigSource, ranks_at
from tfhet.versions import versions

if TYPE_CHECKING:
    import tensorflow as tf

STARTED = TfConfigSource(
    "tf_config", "what set TF_CONFIG", "started with TF_CONFIG", (VARIABLE,) * 4, strategy="multi_worker"
)
CONSEQUENCE = re.compile(
    r"UnavailableError|Collective ops is aborted|Restart your program to reset"
    r"|failed to connect to all addresses|Connection (reset|closed) by peer"
)
"""Errors of the remaining workers when another task has ended (TensorFlow 2.15.1)."""


class MultiWorker(Strategy):
    name = "multi_worker"
    packages = ("tensorflow",)
    sources: Sequence[RankSource] = (STARTED,)
    order_type = Tasks
    consequences = CONSEQUENCE

    def ports(self, place: Place) -> int:
        return int(place.size > 1 and not has_cluster(place))

    def order(self, opened: Mapping[str, Any], claims: Mapping[str, Claim], place: Place) -> Mapping[str, Any]:
        return {"cluster": {WORKER: ranks_at(claims, place)}} if self.ports(place) else {}

    def check_script(self, path: str, size: int, env: Mapping[str, str]) -> None:
        installed = versions(("keras",))
        if size == 1 or not keras_fit.is_keras_3(installed, env):
            return
        if lines := keras_fit.fits(Path(path).read_text(encoding="utf-8", errors="replace")):
            raise UsageError(
                f"{path}, line {lines[0]}: `fit` of Keras {installed['keras']} does not work under "
                f"{keras_fit.STRATEGY} with several workers (keras-team/keras#20585): {keras_fit.ALTERNATIVES}"
            )

    def prepare_rank(self) -> None:
        """Restores Python's handler of SIGTERM, which is the script's own or ends the process: TensorFlow's workers
        treat the signal as a notice of preemption, and continue (preemption_notifier.cc, 2.15.1)."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)

    def undivided(self, data: tf.data.Dataset, size: int) -> tf.data.Dataset:
        """See `Strategy`. Each worker trains on one part of a batch per step. Keras' `fit` counts the batches before
        the split, and would end the epoch too early (Keras 2.15): so this hides the number of batches."""
        import tensorflow as tf

        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        data = data.filter(lambda *parts: True) if size > 1 else data
        return data.with_options(options)

    def parts_of_batch(self, size: int) -> int:
        return size

    def collective(self, size: int) -> Collective:
        from tfhet.strategies.tensorflow.collective import MultiWorkerCollective

        return MultiWorkerCollective(size)


def has_cluster(place: Place) -> bool:
    """Whether the program that started the ranks has set where they meet."""
    return place.rank is not None and place.rank.source == STARTED.name


MULTI_WORKER = MultiWorker()
