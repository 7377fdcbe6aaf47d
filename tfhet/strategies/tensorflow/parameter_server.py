"""The strategy `parameter_server`: rank 0 is the chief, the other ranks are workers, and each host of `ps_group` runs
a server that holds variables, for tf.distribute.ParameterServerStrategy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet.cluster import Place, Role, without_secrets
from tfhet.errors import JobFailed, UsageError
from tfhet.strategies.strategy import Claim, Collective, RankSource, Strategy
from tfhet.strategies.tensorflow import keras_fit
from tfhet.strategies.tensorflow.multi_worker import CONSEQUENCE
from tfhet.strategies.tensorflow.tf_config import CHIEF, PS, VARIABLE, WORKER, Tasks, TfConfigSource, hosts_at, ranks_at
from tfhet.versions import versions

STARTED = TfConfigSource(
    "tf_config_ps",
    "what set TF_CONFIG",
    "started with TF_CONFIG",
    (VARIABLE,) * 4,
    strategy="parameter_server",
    with_ps=True,
)
SERVER = "tfhet.strategies.tensorflow.server"
GRACE_S = 1.0
"""Seconds that the server may take to end."""


class ParameterServer(Strategy):
    name = "parameter_server"
    packages = ("tensorflow",)
    roles: Sequence[Role] = (Role(PS),)
    sources: Sequence[RankSource] = (STARTED,)
    order_type = Tasks
    consequences = CONSEQUENCE

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if len(hosts) * per_host < 2:
            raise UsageError("the strategy 'parameter_server' needs a chief, which is rank 0, and at least one worker")

    def ports(self, place: Place) -> int:
        return int(place.rank is None or place.rank.source != STARTED.name)

    def order(self, opened: Mapping[str, Any], claims: Mapping[str, Claim], place: Place) -> Mapping[str, Any]:
        if not self.ports(place):
            return {}
        if not (servers := hosts_at(claims, PS, place)):
            raise UsageError("the strategy 'parameter_server' needs hosts that hold the variables: give a ps_group")
        (chief, *workers) = ranks_at(claims, place)
        return {"cluster": {CHIEF: [chief], WORKER: workers, PS: servers}}

    def check_script(self, path: str, size: int, env: Mapping[str, str]) -> None:
        installed = versions(("keras",))
        lines = keras_fit.creators(Path(path).read_text(encoding="utf-8", errors="replace"))
        if lines and keras_fit.is_keras_3(installed, env):
            raise UsageError(
                f"{path}, line {lines[0]}: Keras {installed['keras']} has no DatasetCreator, and its `fit` does not "
                f"train with parameter servers; {keras_fit.KERAS_2}"
            )

    async def serve(self, place: Place, order: Mapping[str, Any], say: Callable[[str], None]) -> None:
        from tfhet.process import Child, describe_exit

        index = place.roles.hosts(PS).index(place.host)
        env = {**without_secrets(place.env), **Tasks.parse(order).of_task(PS, index), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", SERVER]
        child = await Child.start(f"{PS}-{index}", command, env=env, on_line=lambda line: say(f"[{PS}-{index}] {line}"))
        try:
            code = await child.wait()
            how = describe_exit(code, child.tail)
            raise JobFailed(f"the parameter server on {place.host} ended ({how})", code=code, log_tail=child.tail)
        finally:
            await child.stop(GRACE_S)

    def is_over(self, results: Mapping[int, int], size: int) -> bool:
        """Whether the chief has succeeded: the workers serve it without end."""
        return results.get(0) == 0 or len(results) == size

    def reader(self, size: int) -> tuple[Any, int]:
        import tensorflow as tf

        try:
            return tf.distribute.coordinator.experimental_get_current_worker_index(), size - 1
        except RuntimeError:
            raise UsageError(
                "under parameter_server the workers read the data: call tfhet.distribute in the dataset_fn that you "
                "give to ClusterCoordinator.create_per_worker_dataset, or to Keras' DatasetCreator"
            ) from None

    def collective(self, size: int) -> Collective:
        raise UsageError(
            "the strategy 'parameter_server' is for scripts of their own: its workers train each for itself, and the "
            "built-in trainer's ranks train in step; use multi_worker, horovod or solo"
        )


PARAMETER_SERVER = ParameterServer()
