"""Facts about a training script together with its job, and rules that find ranks whose gradients are not reduced.

Only the text of the script is read, not the modules that it imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfhet import strategies
from tfhet.cluster import environment
from tfhet.doctor.cluster import ClusterFacts
from tfhet.doctor.rule import RuleAnswer, Subject, limited, wrong
from tfhet.doctor.script import EXCHANGES, ScriptFacts
from tfhet.strategies import keras_fit
from tfhet.versions import versions

HOROVOD_KERAS = ("horovod.tensorflow.keras", "horovod.keras")
WRAPPERS = (
    "DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard", "replicate", "Accelerator",
    "Fabric", "Trainer", "initialize", "all_reduce", "allreduce", "DistributedOptimizer", "prepare_model",
    "parallelize_module",
)  # fmt: skip
"""Last names of calls that reduce gradients, of PyTorch, Lightning, Accelerate, transformers, DeepSpeed and Horovod."""
TRAINS = ("fit", "train_on_batch", "apply_gradients", "apply")
TRAINS_TORCH = ("backward",)
_LIMIT = "modules that it imports were not read"


@dataclass(frozen=True)
class ReductionFacts:
    script: ScriptFacts
    keras_3: str | None
    """Version of Keras 3, if it is behind tf.keras."""
    ranks: int | None = None
    """Number of ranks of the job; None if it is unknown."""
    strategy: str = strategies.AUTO

    @property
    def has_several_ranks(self) -> bool:
        return self.ranks is not None and self.ranks > 1


def look(script: ScriptFacts, job: ClusterFacts | None, env: Mapping[str, str] | None = None) -> ReductionFacts:
    """Returns the facts about a script, in a job if `job` describes it."""
    env = environment() if env is None else env
    installed = versions(("keras",))
    keras_3 = installed["keras"] if keras_fit.is_keras_3(installed, env) else None
    if job is None or job.dnn is None:
        return ReductionFacts(script, keras_3)
    return ReductionFacts(script, keras_3, job.dnn_hosts * (job.dnn.ranks or 1), job.settings.strategy)


REDUCTION: Subject[ReductionFacts] = Subject("gradients")


@REDUCTION.rule("Horovod and Keras 3", "its optimizer reduces nothing under Keras 3, and each rank trains alone")
def horovod_and_keras_3(facts: ReductionFacts) -> RuleAnswer | None:
    of_keras = [call for call in facts.script.named("DistributedOptimizer") if call.name.startswith(HOROVOD_KERAS)]
    if not of_keras:
        return None
    found = f"DistributedOptimizer of {of_keras[0].name.rpartition('.')[0]} with Keras {facts.keras_3}"
    what = "import tfhet.horovod as hvd"
    return wrong(found, what, when=facts.keras_3 is not None, otherwise="DistributedOptimizer of Keras 2")


@REDUCTION.rule("several ranks of TensorFlow", "ranks that do not reduce their gradients train a model each")
def of_tensorflow(facts: ReductionFacts) -> RuleAnswer | None:
    script = facts.script
    has_replicas = facts.strategy in (strategies.AUTO, "horovod")
    if not (facts.has_several_ranks and has_replicas and not script.imports_from("torch") and script.named(*TRAINS)):
        return None
    reducing = script.named(*EXCHANGES)
    found = f"{facts.ranks} ranks, and no call of {', '.join(EXCHANGES[:2])} in {script.path} ({_LIMIT})"
    what = "optimizer = hvd.DistributedOptimizer(optimizer), after `import tfhet.horovod as hvd`"
    return limited(found, what, when=not reducing, otherwise=", ".join(sorted({call.last for call in reducing})))


@REDUCTION.rule("several ranks of PyTorch", "ranks that do not reduce their gradients train a model each")
def of_torch(facts: ReductionFacts) -> RuleAnswer | None:
    script = facts.script
    if not (facts.has_several_ranks and script.imports_from("torch") and script.named(*TRAINS_TORCH)):
        return None
    reducing = script.named(*WRAPPERS)
    found = f"{facts.ranks} ranks, and no DistributedDataParallel, fully_shard or the like in {script.path} ({_LIMIT})"
    what = "model = torch.nn.parallel.DistributedDataParallel(model)"
    return limited(found, what, when=not reducing, otherwise=", ".join(sorted({call.last for call in reducing})))
