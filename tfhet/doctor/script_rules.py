"""Rules about a training script. They read its text, so they may be mistaken: only what surely fails is `wrong`."""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.cluster import CONTROL_PORT
from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok, wrong
from tfhet.doctor.script import Call, ScriptFacts
from tfhet.planes.tf_service import ServiceSettings

PYTHON_CODE = ("py_function", "numpy_function", "py_func", "from_generator")
SAVES = ("save", "save_weights", "save_model", "ModelCheckpoint", "BackupAndRestore")
EXCHANGES = ("DistributedOptimizer", "DistributedGradientTape", "PartialDistributedGradientTape", "allreduce")
BROADCASTS = ("BroadcastGlobalVariablesCallback", "broadcast_variables", "BroadcastGlobalVariablesHook", "load_model")
LISTENS = ("bind", "DispatchServer", "DispatcherConfig", "WorkerServer", "WorkerConfig", "create_server", "HTTPServer")

SCRIPT: Subject[ScriptFacts] = Subject("script")


def _is_readable(facts: ScriptFacts) -> bool:
    return not facts.error


def _uses_horovod(facts: ScriptFacts) -> bool:
    return facts.imports_from("horovod")


@SCRIPT.rule("readable", "every rank runs it")
def readable(facts: ScriptFacts) -> RuleAnswer:
    return wrong(facts.error, "correct it") if facts.error else ok(facts.path)


@SCRIPT.rule(
    "tfhet.distribute", "without it each rank prepares its own data, and a data group is idle", when=_is_readable
)
def distribute(facts: ScriptFacts) -> RuleAnswer:
    calls = _distributes(facts)
    if not calls:
        return limited("no call of tfhet.distribute", "ds = tfhet.distribute(ds), after batch")
    by_rank = [call for call in calls if call.is_rank_dependent]
    if by_rank:
        return wrong(f"only some ranks call it ({_lines(by_rank)})", "call it on every rank, in the same order")
    return ok(_lines(calls))


@SCRIPT.rule("hvd.init", "every call of Horovod needs it", when=_uses_horovod)
def initialised(facts: ScriptFacts) -> RuleAnswer:
    if not any(call.name.startswith("horovod") for call in facts.named("init")):
        return wrong("horovod is imported and hvd.init() is never called", "call hvd.init() first of all")
    return ok(_lines(facts.named("init")))


@SCRIPT.rule("gradients", "without it each rank trains a model of its own", "horovod/horovod#233", when=_uses_horovod)
def exchanged(facts: ScriptFacts) -> RuleAnswer:
    calls = facts.named(*EXCHANGES)
    if not calls:
        what = "optimizer = hvd.DistributedOptimizer(optimizer)"
        return limited("no DistributedOptimizer, no DistributedGradientTape", what)
    return ok(_names(calls))


@SCRIPT.rule("first weights", "without it the ranks begin with different weights", when=_uses_horovod)
def broadcast(facts: ScriptFacts) -> RuleAnswer:
    calls = facts.named(*BROADCASTS)
    if not calls:
        what = "callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), ...]"
        return limited("no broadcast of the weights", what)
    return ok(_names(calls))


@SCRIPT.rule("tf.distribute", "it takes all GPUs of a host in each rank", "horovod/horovod#935")
def strategy(facts: ScriptFacts) -> RuleAnswer | None:
    calls = [call for call in facts.calls if call.last.endswith("Strategy") and "distribute" in call.name]
    if not calls:
        return None
    if _uses_horovod(facts):
        return limited(f"{calls[0].last} and Horovod ({_lines(calls)})", "keep Horovod, and remove the strategy")
    return limited(f"{calls[0].last} ({_lines(calls)})", "the launchers start a rank for each GPU: use Horovod")


@SCRIPT.rule("own shards", "rank 0's graph is served: no rank sees what it leaves out", when=_is_readable)
def sharded(facts: ScriptFacts) -> RuleAnswer:
    calls = [call for call in facts.named("shard") if call.arguments + len(call.keywords) >= 2]
    if calls and _distributes(facts):
        return limited(f"it shards itself too ({_lines(calls)})", "remove shard(): distribute shards the data")
    return ok("no shard() of its own")


@SCRIPT.rule("steps_per_epoch", "without it Keras refuses a data set that has no end")
def steps(facts: ScriptFacts) -> RuleAnswer | None:
    fits = facts.named("fit")
    if not fits:
        return None
    given = [call for call in (*fits, *_distributes(facts)) if call.keywords & {"steps_per_epoch", "**"}]
    endless = [call for call in facts.named("repeat") if not call.arguments and not call.keywords]
    if endless and not given:
        what = "model.fit(..., steps_per_epoch=N), or tfhet.distribute(ds, steps_per_epoch=N)"
        return limited(f"repeat() without end ({_lines(endless)}), and no steps_per_epoch", what)
    return ok("steps_per_epoch" if given else "no repeat() without end")


@SCRIPT.rule("saving", "ranks of a host that save at once write the same files", "horovod/horovod#58")
def saved(facts: ScriptFacts) -> RuleAnswer | None:
    if not _uses_horovod(facts):
        return None
    calls = [call for call in facts.named(*SAVES) if not call.is_rank_dependent]
    if calls:
        return limited(f"every rank saves ({_lines(calls)})", "if hvd.rank() == 0: ...")
    return ok("by one rank, or not at all")


@SCRIPT.rule("Python in the data set", "other hosts cannot run it", "tensorflow/tensorflow#50252", when=_is_readable)
def python_code(facts: ScriptFacts) -> RuleAnswer:
    calls = facts.named(*PYTHON_CODE)
    if calls:
        what = "write it with TensorFlow operations, or move it after tfhet.distribute"
        return limited(f"{_names(calls)} ({_lines(calls)})", what)
    return ok("none")


@SCRIPT.rule(
    "Keras layers in map", "a function that is traced twice cannot make variables: ValueError", when=_is_readable
)
def layers(facts: ScriptFacts) -> RuleAnswer:
    calls = [call for call in facts.calls if call.is_mapped and call.last.startswith("Random") and "keras" in call.name]
    if calls:
        what = "make the layer once, outside of it"
        return wrong(f"{_names(calls)} is made in a mapped function ({_lines(calls)})", what)
    return ok("none is made in a mapped function")


@SCRIPT.rule("fixed seeds", "without sharding a fixed seed makes every worker send the same batches")
def seeds(facts: ScriptFacts) -> RuleAnswer | None:
    if not any("'off'" in call.text for call in _distributes(facts)):
        return None
    seeded = [call for call in facts.named("shuffle") if "seed" in call.keywords and "seed=None" not in call.text]
    seeded += [call for call in facts.named("set_seed") if call.numbers]
    if seeded:
        return limited(f"sharding off and a fixed seed ({_lines(seeded)})", "omit the seed, or sharding='dynamic'")
    return ok("none is fixed")


@SCRIPT.rule("ports of the script", "the launcher of its host listens at 16000, 6000 and 6001", when=_is_readable)
def listens(facts: ScriptFacts) -> RuleAnswer:
    taken = {CONTROL_PORT, ServiceSettings.dispatcher_port, ServiceSettings.worker_port}
    calls = [call for call in facts.named(*LISTENS) if call.numbers & taken]
    if calls:
        numbers = sorted({number for call in calls for number in call.numbers & taken})
        what = "take other ports, or give the launcher --control_port, --dispatcher_port, --worker_port"
        return wrong(f"it listens at {', '.join(map(str, numbers))} ({_lines(calls)})", what)
    return ok("none of the launcher's")


def _distributes(facts: ScriptFacts) -> list[Call]:
    return [call for call in facts.named("distribute") if call.name.startswith("tfhet.")]


def _names(calls: Sequence[Call]) -> str:
    return ", ".join(sorted({call.last for call in calls}))


def _lines(calls: Sequence[Call]) -> str:
    numbers = sorted({call.line for call in calls})
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
