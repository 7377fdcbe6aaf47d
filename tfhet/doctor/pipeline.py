"""Facts about a data set for data hosts, and rules that judge them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfhet.doctor.cluster import FILES_PER_WORKER, files_for_workers
from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok, wrong
from tfhet.errors import UsageError
from tfhet.units import GIB, MIB

if TYPE_CHECKING:
    from tfhet.profile import Anatomy

LARGE_GRAPH_BYTES = 64 * MIB
"""Each worker receives the graph at its start and restarts."""
MANY_REQUESTS = 10_000
"""Source elements, and so requests, from which they are reported."""
MUCH_MEMORY = 0.25
"""Share of the machine's memory."""
NARROWER = 2
"""Minimum factor by which a reported cut reduces bytes."""
RANDOM = ("Random", "StatelessRandom", "StatefulUniform", "StatefulStandardNormal", "RngRead", "Multinomial")
"""Prefixes of operations that draw random numbers."""


@dataclass(frozen=True)
class PipelineFacts:
    anatomy: Anatomy | None
    """None: it cannot be built."""
    error: str = ""
    workers: int | None = None
    memory_bytes: int = 0

    @property
    def graph(self) -> Anatomy:
        assert self.anatomy is not None
        return self.anatomy


def look(target: str, stages: str | None, workers: int | None, memory_bytes: int) -> PipelineFacts:
    """Builds a target of `tfhet.profile.load`, which runs the user's file, and examines its graph without reading data.
    Raises UsageError if the target does not exist."""
    from tfhet.profile import anatomy_of, load

    try:
        return PipelineFacts(anatomy_of(load(target, stages)), "", workers, memory_bytes)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # of the user's code: a finding
        return PipelineFacts(None, _summary(error), workers, memory_bytes)


def _summary(error: BaseException) -> str:
    """Returns the last line of an error, after AutoGraph's path through the user's code, and the place."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    place = re.search(r'File "([^"]+)", line (\d+)', str(error))
    name = type(error).__name__
    text = lines[-1] if lines[-1].startswith(name) else f"{name}: {lines[-1]}"
    return f"{text[:300]} ({place[1]}:{place[2]})" if place else text[:300]


def _is_dataset(facts: PipelineFacts) -> bool:
    """Whether the user chose batching, order and cut: tfhet chooses them for a Pipeline."""
    return facts.anatomy is not None and not facts.anatomy.is_declared


PIPELINE: Subject[PipelineFacts] = Subject("pipeline")
_graph_rule = functools.partial(PIPELINE.rule, when=lambda facts: facts.anatomy is not None)
_dataset_rule = functools.partial(PIPELINE.rule, when=_is_dataset)


@PIPELINE.rule("building it", "every rank builds it")
def builds(facts: PipelineFacts) -> RuleAnswer:
    if "singleton tf.Variables" in facts.error or "created on a non-first call" in facts.error:
        return wrong(facts.error, "make Keras layers and variables once, outside of the mapped function")
    return wrong(facts.error, "correct what raises it", when=facts.error, otherwise="it can be built")


@_graph_rule("Python code", "tf.data service runs TensorFlow operations only", "tensorflow/tensorflow#50252")
def python_code(facts: PipelineFacts) -> RuleAnswer:
    found = ", ".join(facts.graph.python_functions)
    what = "write it with TensorFlow operations, move it after tfhet.distribute, or have --data_plane feed run it"
    return (limited if facts.workers == 0 else wrong)(found, what, when=found, otherwise="none")


@_graph_rule("variables and tables", "the graph that travels holds copies", "tensorflow/tensorflow#47531")
def resources(facts: PipelineFacts) -> RuleAnswer:
    found = ", ".join(facts.graph.resources)
    what = "do not change them later: workers would not see it"
    return limited(f"{found}: workers get copies, as they are now", what, when=found, otherwise="none")


@_graph_rule("elements", "only tensors travel, and a model needs their shapes")
def elements(facts: PipelineFacts) -> RuleAnswer:
    if "DatasetSpec" in facts.graph.no_tensors:
        return wrong("DatasetSpec: data sets inside the data set", "flat_map() or batch() the windows")
    if facts.graph.no_tensors:
        named = ", ".join(sorted(set(facts.graph.no_tensors)))
        return limited(f"{named}: no plain tensors", "padded_batch(), or to_tensor() in the last map")
    named = ", ".join(facts.graph.unknown_shapes)
    what = "tf.ensure_shape() in the last map"
    return limited(f"{named}: of unknown shape", what, when=named, otherwise="tensors of known shapes")


@_graph_rule("size of the graph", "it holds its arrays; the limit is 2 GiB", "tensorflow/tensorflow#5383")
def graph_size(facts: PipelineFacts) -> RuleAnswer:
    size, found = facts.graph.graph_bytes, f"{facts.graph.graph_bytes / MIB:.1f} MiB"
    what = "write the arrays to TFRecords (tfhet.source.writing), and read those"
    if size >= 2 * GIB:
        return wrong(f"{found}, more than a graph may have", what)
    return limited(found, what, when=size > LARGE_GRAPH_BYTES)


@_graph_rule("files and workers", "each file, or other source element, goes to one worker")
def files(facts: PipelineFacts) -> RuleAnswer | None:
    count, unit = facts.graph.splits, "files" if facts.graph.reads_files else "source elements"
    if count is None:
        return None
    if facts.workers is not None:
        return files_for_workers(count, unit, facts.workers)
    enough = f"{count} {unit}: enough for {max(1, count // FILES_PER_WORKER)} workers"
    what = "write the data into more files"
    return limited(f"1 of {unit}: one worker has it, others idle", what, when=count == 1, otherwise=enough)


@_dataset_rule("requests", "each source element costs the dispatcher one request", "tensorflow/tensorflow#70541")
def requests(facts: PipelineFacts) -> RuleAnswer | None:
    count = facts.graph.splits
    if count is None:
        return None
    found = f"{count} source elements that are no files"
    what = "begin with a list of files, or of ranges that flat_map turns into examples"
    is_much = count > MANY_REQUESTS and not facts.graph.reads_files
    return limited(found, what, when=is_much, otherwise=f"{count} for a pass")


@_dataset_rule("sharding", "a worker has only a part of the elements")
def sharding(facts: PipelineFacts) -> RuleAnswer:
    if not facts.graph.refusal:
        return ok("dynamic: each split goes to one worker, once")
    found, _, what = facts.graph.refusal.partition("; ")
    return wrong(found, what or "see the message") if facts.workers != 0 else limited(found, what or "see the message")


@_dataset_rule("own shards", "rank 0's graph is served: no rank sees what it leaves out")
def own_shards(facts: PipelineFacts) -> RuleAnswer:
    kinds = {step.kind for step in facts.graph.steps}
    if "Shard" not in kinds and "DataService" in kinds:
        return wrong("it reads from a data service already", "give tfhet.distribute the data set before that")
    what = "remove it: tfhet.distribute shards the data"
    return limited("shard() is in it", what, when="Shard" in kinds, otherwise="no shard()")


@_dataset_rule("end of an epoch", "ranks that take fewer steps leave the others waiting", "horovod/horovod#2083")
def end(facts: PipelineFacts) -> RuleAnswer:
    count = facts.graph.elements
    what = "model.fit(..., steps_per_epoch=N), or tfhet.distribute(ds, steps_per_epoch=N)"
    if facts.graph.is_endless:
        return limited("it has no end", what)
    return limited("it does not know its length", what, when=count is None, otherwise=f"{count} elements")


@_graph_rule("bytes on the wire", "both sides copy each byte, and a float32 has four of them")
def wire(facts: PipelineFacts) -> RuleAnswer | None:
    *earlier, last = facts.graph.steps
    if last.example_bytes is None or last.example_values is None:
        return None
    found = f"{last.example_bytes} bytes for an example ({', '.join(last.dtypes)})"
    if facts.graph.is_declared:  # its cut is where an example has the fewest
        return ok(found)
    for index, step in reversed(list(enumerate(earlier))):
        is_narrow = step.example_bytes is not None and step.example_bytes * NARROWER <= last.example_bytes
        # the same image in another form, not the number from which it is made
        if is_narrow and (step.example_values or 0) * NARROWER >= last.example_values:
            rest = ", ".join(each.name for each in facts.graph.steps[index + 1 :])
            what = f"tfhet.distribute after {step.name!r}, then {rest}, where that is cheap (tfhet profile)"
            return limited(f"{found}, {step.example_bytes} after {step.name!r}", what)
    return ok(found)


@_dataset_rule("batches", "each element costs one request", "tensorflow/tensorflow#49304")
def batches(facts: PipelineFacts) -> RuleAnswer:
    size, what = facts.graph.steps[-1].examples, "batch() before tfhet.distribute"
    return limited("single examples", what, when=size == 1, otherwise=f"{size} examples each")


@_dataset_rule("prefetch", "without it a worker holds one element ready, and waits for its reader")
def prefetched(facts: PipelineFacts) -> RuleAnswer:
    is_last = facts.graph.steps[-1].kind == "Prefetch"
    what = "prefetch(2) before tfhet.distribute"
    return limited("no prefetch() at the end", what, when=not is_last, otherwise="at the end")


@_dataset_rule("parallel maps", "a worker uses one CPU for a map that is not parallel")
def parallel(facts: PipelineFacts) -> RuleAnswer:
    slow = ", ".join(step.name for step in facts.graph.steps if step.kind == "Map")
    what = "map(..., num_parallel_calls=tf.data.AUTOTUNE)"
    return limited(f"one thread: {slow}", what, when=slow, otherwise="all maps")


@_dataset_rule("cache", "after random operations it repeats their numbers", "tensorflow/tensorflow#47755")
def cached(facts: PipelineFacts) -> RuleAnswer:
    places = [index for index, step in enumerate(facts.graph.steps) if step.kind == "Cache"]
    if not places:
        return ok("no cache()")
    before = facts.graph.steps[: places[-1]]
    names = ", ".join(step.name for step in before if any(op.startswith(RANDOM) for op in step.ops))
    what = "cache() before what is random"
    return limited(f"after {names}, which is random", what, when=names, otherwise="before what is random")


@_graph_rule("shuffle buffer", "every worker holds one for each data set that it serves")
def shuffled(facts: PipelineFacts) -> RuleAnswer:
    for before, step in zip(facts.graph.steps, facts.graph.steps[1:], strict=False):
        if step.buffer is None:
            continue
        held = step.buffer if step.buffer >= 0 else before.elements or 0
        size = held * step.examples * (step.example_bytes or 0)
        if facts.memory_bytes and size > MUCH_MEMORY * facts.memory_bytes:
            found = f"{held} elements, {size / GIB:.1f} GiB on each worker"
            return limited(found, "shuffle before decoding, or a smaller buffer")
        if before.elements is not None and held > before.elements:
            return limited(f"{held} elements of {before.elements}", f"shuffle({before.elements}) does the same")
    return ok("fits")
