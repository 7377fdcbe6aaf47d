"""Rules about a training script. They read its text, so they may take for a mistake what is none: only what surely
fails is `wrong`."""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.cluster import CONTROL_PORT
from tfhet.doctor.rule import Rule, RuleAnswer, Subject, limited, ok, wrong
from tfhet.doctor.script import Call, ScriptFacts
from tfhet.planes.tf_service import ServiceSettings

PYTHON_CODE = ("py_function", "numpy_function", "py_func", "from_generator")
SAVES = ("save", "save_weights", "save_model", "ModelCheckpoint", "BackupAndRestore")
EXCHANGES = ("DistributedOptimizer", "DistributedGradientTape", "PartialDistributedGradientTape", "allreduce")
BROADCASTS = ("BroadcastGlobalVariablesCallback", "broadcast_variables", "BroadcastGlobalVariablesHook", "load_model")
LISTENS = ("bind", "DispatchServer", "DispatcherConfig", "WorkerServer", "WorkerConfig", "create_server", "HTTPServer")


def readable(facts: ScriptFacts) -> RuleAnswer:
    return wrong(facts.error, "correct it") if facts.error else ok(facts.path)


def distribute(facts: ScriptFacts) -> RuleAnswer | None:
    if facts.error:
        return None
    calls = _distributes(facts)
    if not calls:
        return limited("no call of tfhet.distribute", "ds = tfhet.distribute(ds), behind batch")
    by_rank = [call for call in calls if call.is_rank_dependent]
    if by_rank:
        return wrong(f"only some ranks call it ({_lines(by_rank)})", "call it on every rank, in the same order")
    return ok(_lines(calls))


def initialised(facts: ScriptFacts) -> RuleAnswer | None:
    if not facts.imports_from("horovod"):
        return None
    if not any(call.name.startswith("horovod") for call in facts.named("init")):
        return wrong("horovod is imported and hvd.init() is never called", "call hvd.init() first of all")
    return ok(_lines(facts.named("init")))


def exchanged(facts: ScriptFacts) -> RuleAnswer | None:
    if not facts.imports_from("horovod"):
        return None
    calls = facts.named(*EXCHANGES)
    if not calls:
        return limited(
            "no DistributedOptimizer, no DistributedGradientTape", "optimizer = hvd.DistributedOptimizer(optimizer)"
        )
    return ok(", ".join(sorted({call.last for call in calls})))


def broadcast(facts: ScriptFacts) -> RuleAnswer | None:
    if not facts.imports_from("horovod"):
        return None
    calls = facts.named(*BROADCASTS)
    if not calls:
        return limited(
            "no broadcast of the weights", "callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), ...]"
        )
    return ok(", ".join(sorted({call.last for call in calls})))


def strategy(facts: ScriptFacts) -> RuleAnswer | None:
    calls = [call for call in facts.calls if call.last.endswith("Strategy") and "distribute" in call.name]
    if not calls:
        return None
    if facts.imports_from("horovod"):
        return limited(f"{calls[0].last} and Horovod ({_lines(calls)})", "keep Horovod, and leave the strategy away")
    return limited(f"{calls[0].last} ({_lines(calls)})", "the launchers start a rank for each GPU: use Horovod")


def sharded(facts: ScriptFacts) -> RuleAnswer | None:
    if facts.error:
        return None
    calls = [call for call in facts.named("shard") if call.arguments + len(call.keywords) >= 2]
    if calls and _distributes(facts):
        return limited(f"it shards itself too ({_lines(calls)})", "leave shard() away: distribute shares the data out")
    return ok("no shard() of its own")


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


def saved(facts: ScriptFacts) -> RuleAnswer | None:
    if not facts.imports_from("horovod"):
        return None
    calls = [call for call in facts.named(*SAVES) if not call.is_rank_dependent]
    if calls:
        return limited(f"every rank saves ({_lines(calls)})", "if hvd.rank() == 0: ...")
    return ok("by one rank, or not at all")


def python_code(facts: ScriptFacts) -> RuleAnswer | None:
    if facts.error:
        return None
    calls = facts.named(*PYTHON_CODE)
    if calls:
        return limited(
            f"{', '.join(sorted({call.last for call in calls}))} ({_lines(calls)})",
            "write it with TensorFlow operations, or put it behind tfhet.distribute",
        )
    return ok("none")


def layers(facts: ScriptFacts) -> RuleAnswer | None:
    if facts.error:
        return None
    calls = [call for call in facts.calls if call.is_mapped and call.last.startswith("Random") and "keras" in call.name]
    if calls:
        made = ", ".join(sorted({call.last for call in calls}))
        return wrong(f"{made} is made in a mapped function ({_lines(calls)})", "make the layer once, outside of it")
    return ok("none is made in a mapped function")


def seeds(facts: ScriptFacts) -> RuleAnswer | None:
    off = [call for call in _distributes(facts) if "'off'" in call.text]
    if not off:
        return None
    seeded = [call for call in facts.named("shuffle") if "seed" in call.keywords and "seed=None" not in call.text]
    seeded += [call for call in facts.named("set_seed") if call.numbers]
    if seeded:
        return limited(
            f"sharding off and a fixed seed ({_lines(seeded)})", "leave the seed away, or sharding='dynamic'"
        )
    return ok("none is fixed")


def listens(facts: ScriptFacts) -> RuleAnswer | None:
    if facts.error:
        return None
    taken = {CONTROL_PORT, ServiceSettings.dispatcher_port, ServiceSettings.worker_port}
    calls = [call for call in facts.named(*LISTENS) if call.numbers & taken]
    if calls:
        numbers = sorted({number for call in calls for number in call.numbers & taken})
        what = "take other ports, or give the launcher --control_port, --dispatcher_port, --worker_port"
        return wrong(f"it listens at {', '.join(map(str, numbers))} ({_lines(calls)})", what)
    return ok("none of the launcher's")


def _distributes(facts: ScriptFacts) -> list[Call]:
    return [call for call in facts.named("distribute") if call.name.startswith("tfhet.")]


def _lines(calls: Sequence[Call]) -> str:
    numbers = sorted({call.line for call in calls})
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


SCRIPT = Subject(
    "script",
    (
        Rule("readable", readable, "every rank runs it"),
        Rule("tfhet.distribute", distribute, "without it each rank prepares its own data, and a data group is idle"),
        Rule("hvd.init", initialised, "every call of Horovod needs it"),
        Rule("gradients", exchanged, "else each rank trains a model of its own", "horovod/horovod#233"),
        Rule("first weights", broadcast, "else the ranks begin with different weights"),
        Rule("tf.distribute", strategy, "it takes all GPUs of a host in each rank", "horovod/horovod#935"),
        Rule("own shards", sharded, "what rank 0 leaves out, no rank sees: its graph is the one that is served"),
        Rule("steps_per_epoch", steps, "without it Keras refuses a data set that has no end"),
        Rule("saving", saved, "else ranks of a host write the same files at once", "horovod/horovod#58"),
        Rule("Python in the data set", python_code, "other hosts cannot run it", "tensorflow/tensorflow#50252"),
        Rule("Keras layers in map", layers, "a function that is traced twice cannot make variables: ValueError"),
        Rule("fixed seeds", seeds, "else every worker sends the same batches"),
        Rule("ports of the script", listens, "the launcher of its host listens at 16000, 6000 and 6001"),
    ),
)
