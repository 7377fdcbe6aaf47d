"""Rules about a data set that a data service is to deliver."""

from __future__ import annotations

from tfhet.doctor.cluster_rules import FILES_FOR_EACH
from tfhet.doctor.pipeline import PipelineFacts
from tfhet.doctor.rule import Rule, RuleAnswer, Subject, limited, ok, wrong
from tfhet.units import GIB, MIB

MOST_GRAPH_BYTES = 2 * GIB - 1
LARGE_GRAPH_BYTES = 64 * MIB
"""Every worker gets the graph before it begins, and again when it comes back."""
MANY_REQUESTS = 10_000
"""Elements of the source from which one request for each is worth a word."""
MUCH_MEMORY = 0.25
"""Share of the machine's memory."""
WIDER = 2
"""So many times fewer bytes are worth a word."""
RANDOM = ("Random", "StatelessRandom", "StatefulUniform", "StatefulStandardNormal", "RngRead", "Multinomial")
"""What operations that draw are called."""


def builds(facts: PipelineFacts) -> RuleAnswer:
    if not facts.error:
        return ok("it can be built")
    if "singleton tf.Variables" in facts.error or "created on a non-first call" in facts.error:
        return wrong(facts.error, "make Keras layers and variables once, outside of the mapped function")
    return wrong(facts.error, "correct what raises it")


def python_code(facts: PipelineFacts) -> RuleAnswer | None:
    if facts.anatomy is None:
        return None
    found = ", ".join(facts.anatomy.python_functions)
    what = "write it with TensorFlow operations, or put it behind tfhet.distribute"
    if found and facts.workers == 0:
        return limited(found, what)
    return wrong(found, what) if found else ok("none")


def resources(facts: PipelineFacts) -> RuleAnswer | None:
    if facts.anatomy is None:
        return None
    found = ", ".join(facts.anatomy.resources)
    if found:
        return limited(f"{found}: workers get copies, as they are now", "change nothing in them later")
    return ok("none")


def elements(facts: PipelineFacts) -> RuleAnswer | None:
    if facts.anatomy is None:
        return None
    if facts.anatomy.no_tensors:
        named = ", ".join(sorted(set(facts.anatomy.no_tensors)))
        if "DatasetSpec" in facts.anatomy.no_tensors:
            return wrong(f"{named}: data sets inside the data set", "flat_map() or batch() the windows")
        return limited(f"{named}: no plain tensors", "padded_batch(), or to_tensor() in the last map")
    if facts.anatomy.unknown_shapes:
        named = ", ".join(facts.anatomy.unknown_shapes)
        return limited(f"{named}: of unknown shape", "tf.ensure_shape() in the last map")
    return ok("tensors of known shapes")


def graph_size(facts: PipelineFacts) -> RuleAnswer | None:
    if facts.anatomy is None:
        return None
    size = facts.anatomy.graph_bytes
    found = f"{size / MIB:.1f} MiB"
    what = "write the arrays to TFRecords (tfhet.source.writing), and read those"
    if size > MOST_GRAPH_BYTES:
        return wrong(f"{found}, more than a graph may have", what)
    return limited(found, what) if size > LARGE_GRAPH_BYTES else ok(found)


def files(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.splits is None:
        return None
    parts = "files" if found.reads_files else "source elements"
    if facts.workers is None:
        if found.splits == 1:
            return limited(f"1 of {parts}: one worker has it, others idle", "write the data into more files")
        return ok(f"{found.splits} {parts}: enough for {max(1, found.splits // FILES_FOR_EACH)} workers")
    told = f"{found.splits} {parts}, {facts.workers} workers"
    if found.splits < facts.workers:
        what = f"write the data into {FILES_FOR_EACH * facts.workers} files or more, or take fewer workers"
        return limited(f"{told}: {facts.workers - found.splits} of them idle", what)
    if found.splits < FILES_FOR_EACH * facts.workers:
        return limited(told, f"{FILES_FOR_EACH * facts.workers} files keep all of them busy to the end of an epoch")
    return ok(told)


def requests(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared or found.splits is None:
        return None
    if not found.reads_files and found.splits > MANY_REQUESTS:
        what = "begin with a list of files, or of ranges that flat_map turns into examples"
        return limited(f"{found.splits} source elements that are no files", what)
    return ok(f"{found.splits} for a pass")


def sharding(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    if found.sources > 1:
        what = "begin with one list of files, and read what belongs together in one map"
        return limited(f"{found.sources} sources, so it is off: a pass repeats some examples and misses others", what)
    return ok("dynamic: each split goes to one worker, once")


def same_batches(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared or found.sources == 1:
        return None
    if found.has_fixed_order:
        return limited("a shuffle with a seed, and sharding is off", "shuffle() without seed")
    return ok("no shuffle with a seed")


def own_shards(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    if any(step.kind == "Shard" for step in found.steps):
        return limited("shard() is in it", "leave it away: tfhet.distribute shares the data out")
    if any(step.kind == "DataService" for step in found.steps):
        return wrong("it reads from a data service already", "hand tfhet.distribute the data set before that")
    return ok("no shard()")


def end(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    what = "model.fit(..., steps_per_epoch=N), or tfhet.distribute(ds, steps_per_epoch=N)"
    if found.is_endless:
        return limited("it has no end", what)
    return limited("it does not know its length", what) if found.elements is None else ok(f"{found.elements} elements")


def assertion(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    if found.asserts_cardinality and found.sources == 1 and facts.workers != 1:
        what = "put it at the end, or give tfhet.distribute steps_per_epoch"
        return wrong("it is inside", what) if facts.workers else limited("it is inside: two workers fail", what)
    return ok("none inside")


def wire(facts: PipelineFacts) -> RuleAnswer | None:
    if facts.anatomy is None:
        return None
    *earlier, last = facts.anatomy.steps
    if last.example_bytes is None or last.example_values is None:
        return None
    found = f"{last.example_bytes} bytes for an example ({', '.join(last.dtypes)})"
    if facts.anatomy.is_declared:  # its cut is where an example has the fewest
        return ok(found)
    for index, step in reversed(list(enumerate(earlier))):
        narrow = step.example_bytes is not None and step.example_bytes * WIDER <= last.example_bytes
        # The same image in another form, and not the number that it is made from.
        if narrow and (step.example_values or 0) * WIDER >= last.example_values:
            behind = ", ".join(each.name for each in facts.anatomy.steps[index + 1 :])
            what = f"tfhet.distribute behind {step.name!r}, and {behind} behind it, where that is cheap (tfhet profile)"
            return limited(f"{found}, {step.example_bytes} behind {step.name!r}", what)
    return ok(found)


def batches(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    size = found.steps[-1].examples
    return limited("single examples", "batch() before tfhet.distribute") if size == 1 else ok(f"{size} examples each")


def prefetched(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    if found.steps[-1].kind != "Prefetch":
        return limited("no prefetch() at the end", "prefetch(2) before tfhet.distribute")
    return ok("at the end")


def parallel(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    slow = [step.name for step in found.steps if step.kind == "Map"]
    if slow:
        return limited(f"one thread: {', '.join(slow)}", "map(..., num_parallel_calls=tf.data.AUTOTUNE)")
    return ok("all that map")


def cached(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None or found.is_declared:
        return None
    places = [index for index, step in enumerate(found.steps) if step.kind == "Cache"]
    if not places:
        return ok("no cache()")
    before = [step for step in found.steps[: places[-1]] if any(op.startswith(RANDOM) for op in step.ops)]
    if before:
        names = ", ".join(step.name for step in before)
        return limited(f"behind {names}, which is random", "cache() before what is random")
    return ok("before what is random")


def shuffled(facts: PipelineFacts) -> RuleAnswer | None:
    found = facts.anatomy
    if found is None:
        return None
    for before, step in zip(found.steps, found.steps[1:], strict=False):
        if step.buffer is None:
            continue
        held = step.buffer if step.buffer >= 0 else before.elements or 0
        size = held * step.examples * (step.example_bytes or 0)
        if facts.memory_bytes and size > MUCH_MEMORY * facts.memory_bytes:
            return limited(
                f"{held} elements, {size / GIB:.1f} GiB on each worker", "shuffle before decoding, or a smaller buffer"
            )
        if before.elements is not None and held > before.elements:
            return limited(f"{held} elements of {before.elements}", f"shuffle({before.elements}) does the same")
    return ok("fits")


PIPELINE = Subject(
    "pipeline",
    (
        Rule("building it", builds, "every rank builds it"),
        Rule(
            "Python code", python_code, "tf.data service runs TensorFlow operations only", "tensorflow/tensorflow#50252"
        ),
        Rule("variables and tables", resources, "the graph that travels holds copies", "tensorflow/tensorflow#47531"),
        Rule("elements", elements, "what travels are tensors; a model wants their shapes"),
        Rule(
            "size of the graph", graph_size, "arrays are in it; a graph has at most 2 GiB", "tensorflow/tensorflow#5383"
        ),
        Rule("files and workers", files, "a file, or another source element, goes to one worker"),
        Rule("requests", requests, "each source element costs the dispatcher one", "tensorflow/tensorflow#70541"),
        Rule("sharding", sharding, "off, every worker delivers everything"),
        Rule("fixed seeds", same_batches, "else every worker sends the same batches"),
        Rule("own shards", own_shards, "what rank 0 leaves out, no rank sees: its graph is the one that is served"),
        Rule(
            "end of an epoch",
            end,
            "all ranks need the same number of steps, else one waits for ever",
            "horovod/horovod#2083",
        ),
        Rule("assert_cardinality", assertion, "a worker has a part of the data, so the count fails"),
        Rule("bytes on the wire", wire, "both sides copy each byte, and a float32 has four of them"),
        Rule("batches", batches, "each element costs one request", "tensorflow/tensorflow#49304"),
        Rule("prefetch", prefetched, "else a worker holds one element ready, and waits for its reader"),
        Rule("parallel maps", parallel, "else a worker uses one CPU for it"),
        Rule("cache", cached, "else all epochs see the same random numbers", "tensorflow/tensorflow#47755"),
        Rule("shuffle buffer", shuffled, "every worker holds one, for each data set that it serves"),
    ),
)
