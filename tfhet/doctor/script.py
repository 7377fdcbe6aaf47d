"""Facts about the text of a training script, which is not run, and rules that judge them.

Rules about text may be mistaken, so only certain failures are `wrong`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.cluster import environment
from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok, wrong
from tfhet.errors import UsageError
from tfhet.strategies import keras_fit
from tfhet.versions import versions

MAPPED = ("map", "interleave", "flat_map", "filter")
"""Methods of a data set with a function."""
PYTHON_CODE = ("py_function", "numpy_function", "py_func", "from_generator")
LOADERS = ("batches", "loader")
"""Last names of tfhet.batches and tfhet.torch.loader."""
SAVES = ("save", "save_weights", "save_model", "ModelCheckpoint", "BackupAndRestore")
EXCHANGES = ("DistributedOptimizer", "DistributedGradientTape", "PartialDistributedGradientTape", "allreduce")
BROADCASTS = ("BroadcastGlobalVariablesCallback", "broadcast_variables", "BroadcastGlobalVariablesHook", "load_model")

HOROVOD = ("horovod.", "tfhet.horovod")


@dataclass(frozen=True)
class Call:
    name: str
    """Name with resolved imports: `horovod.tensorflow.keras.init`, `ds.map`."""
    line: int
    keywords: frozenset[str]
    """Keyword arguments; `**` for unknown ones."""
    arguments: int
    is_rank_dependent: bool
    """Whether it is under an `if` about the rank."""
    is_mapped: bool

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class ScriptFacts:
    path: str
    calls: tuple[Call, ...] = ()
    imports: frozenset[str] = frozenset()
    error: str = ""
    """Why Python cannot read it; may be empty."""
    is_guarded: bool = False
    keras_3_fits: tuple[int, ...] = ()
    """Lines of `fit` of Keras 3 under MultiWorkerMirroredStrategy."""

    def named(self, *names: str) -> list[Call]:
        return [call for call in self.calls if call.last in names]

    def imports_from(self, package: str) -> bool:
        return any(name.split(".")[0] == package for name in self.imports)

    @property
    def uses_horovod(self) -> bool:
        return any(name == "horovod" or name.startswith(HOROVOD) for name in self.imports)


def look(path: Path) -> ScriptFacts:
    """Reads a script. Raises UsageError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--script {path}: cannot be read ({error})") from None
    return parse(text, str(path), is_keras_3=keras_fit.is_keras_3(versions(("keras",)), environment()))


def parse(text: str, path: str, *, is_keras_3: bool = False) -> ScriptFacts:
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError, RecursionError) as error:
        return ScriptFacts(path, error=str(error))
    names = dict(_imported(tree))
    maps = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_map(node))
    mapped = {argument.id for node in maps for argument in node.args if isinstance(argument, ast.Name)}
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    is_guarded = any(isinstance(name, ast.Name) and name.id == "__name__" for test in tests for name in ast.walk(test))
    fits = tuple(keras_fit.fits(text)) if is_keras_3 else ()
    return ScriptFacts(path, tuple(_Reader(names, mapped).calls(tree)), frozenset(names.values()), "", is_guarded, fits)


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields each local name with its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                yield (each.asname, each.name) if each.asname else (top, top)
                yield each.name, each.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _is_map(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAPPED


@dataclass(frozen=True)
class _Reader:
    names: dict[str, str]
    mapped: set[str]

    def calls(self, node: ast.AST, by_rank: bool = False, inside: bool = False) -> Iterator[Call]:
        """Yields the calls below a node. by_rank: under an `if` about the rank. inside: in a mapped function."""
        if isinstance(node, ast.Call):
            keywords = frozenset(keyword.arg or "**" for keyword in node.keywords)
            yield Call(self._name(node.func), node.lineno, keywords, len(node.args), by_rank, inside)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = inside or node.name in self.mapped
        test = node.test if isinstance(node, (ast.If, ast.IfExp)) else None
        asks = test is not None and "rank" in ast.unparse(test)
        for child in ast.iter_child_nodes(node):
            value = child.value if isinstance(child, ast.keyword) else child
            is_mapped = inside or (_is_map(node) and isinstance(value, ast.Lambda))
            yield from self.calls(child, by_rank or (asks and child is not test), is_mapped)

    def _name(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self._name(node.value)}.{node.attr}"
        return f"{self._name(node.func)}()" if isinstance(node, ast.Call) else "?"


SCRIPT: Subject[ScriptFacts] = Subject("script")
_text_rule = functools.partial(SCRIPT.rule, when=lambda facts: not facts.error)
_horovod_rule = functools.partial(SCRIPT.rule, when=lambda facts: facts.uses_horovod)


@SCRIPT.rule("readable", "every rank runs it")
def readable(facts: ScriptFacts) -> RuleAnswer:
    return wrong(facts.error, "correct it", when=facts.error, otherwise=facts.path)


@_text_rule("tfhet.distribute", "without it each rank prepares its own data, and a data group is idle")
def distribute(facts: ScriptFacts) -> RuleAnswer | None:
    calls = _distributes(facts)
    if not calls and facts.imports_from("torch") and not facts.imports_from("tensorflow"):
        loaders = facts.named("DataLoader")
        found = f"the data of DataLoader ({_lines(loaders)}) do not come from a data group, which is idle"
        what = "loader = tfhet.torch.loader(make_dataset, batch_size=N), or a cluster without a data group"
        return limited(found, what, when=loaders, otherwise="") if loaders else None
    if not calls:
        return limited("no call of tfhet.distribute", "ds = tfhet.distribute(ds), after batch")
    by_rank = [call for call in calls if call.is_rank_dependent]
    found = f"only some ranks call it ({_lines(by_rank)})"
    return wrong(found, "call it on every rank, in the same order", when=by_rank, otherwise=_lines(calls))


@_text_rule("sampler", "without one, all ranks train on the same batches")
def sampled(facts: ScriptFacts) -> RuleAnswer | None:
    if not facts.named("DistributedDataParallel", "init_process_group"):
        return None
    alike = [call for call in facts.named("DataLoader") if not call.keywords & {"sampler", "batch_sampler", "**"}]
    found = f"every rank reads all data: DataLoader has no sampler ({_lines(alike)})"
    what = "DataLoader(..., sampler=DistributedSampler(dataset)), or tfhet.torch.loader, which needs none"
    return limited(found, what, when=alike, otherwise="each rank reads its share")


@_text_rule("import", "the hosts of a feed import the script, for the function that they run")
def guarded(facts: ScriptFacts) -> RuleAnswer | None:
    calls = [call for call in _distributes(facts) if call.last in LOADERS]
    if not calls:
        return None
    found = f"an import trains, since nothing asks whether it is one ({_lines(calls)})"
    what = 'put the training under `if __name__ == "__main__":`'
    return limited(found, what, when=not facts.is_guarded, otherwise='`if __name__ == "__main__"`')


@_horovod_rule("hvd.init", "every call of Horovod needs it")
def initialised(facts: ScriptFacts) -> RuleAnswer:
    calls = [call for call in facts.named("init") if call.name.startswith(HOROVOD)]
    found = "horovod is imported and hvd.init() is never called"
    return wrong(found, "call hvd.init() first of all", when=not calls, otherwise=_lines(calls))


@_horovod_rule("gradients", "without it each rank trains a model of its own", "horovod/horovod#233")
def exchanged(facts: ScriptFacts) -> RuleAnswer:
    calls = facts.named(*EXCHANGES)
    found = "no DistributedOptimizer, no DistributedGradientTape"
    return limited(found, "optimizer = hvd.DistributedOptimizer(optimizer)", when=not calls, otherwise=_names(calls))


@_horovod_rule("first weights", "without a broadcast the ranks begin with different weights")
def broadcast(facts: ScriptFacts) -> RuleAnswer:
    calls = facts.named(*BROADCASTS)
    what = "callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), ...]"
    return limited("no broadcast of the weights", what, when=not calls, otherwise=_names(calls))


_OF_DISTRIBUTE = {"MultiWorkerMirrored": "multi_worker", "ParameterServer": "parameter_server", "Mirrored": "mirrored"}
"""tfhet's strategy for each beginning of TensorFlow's names."""


@SCRIPT.rule("tf.distribute", "its strategies take all GPUs of a host in each rank", "horovod/horovod#935")
def strategy(facts: ScriptFacts) -> RuleAnswer | None:
    calls = [call for call in facts.calls if call.last.endswith("Strategy") and "distribute" in call.name]
    if not calls:
        return None
    if facts.uses_horovod:
        return limited(f"{calls[0].last} and Horovod ({_lines(calls)})", "keep Horovod, and remove the strategy")
    name = next((name for part, name in _OF_DISTRIBUTE.items() if calls[0].last.startswith(part)), "")
    if name:
        return ok(f"{calls[0].last}: start the job with --strategy {name}")
    return limited(f"{calls[0].last} ({_lines(calls)})", f"use one of {', '.join(_OF_DISTRIBUTE)}, or Horovod")


@_text_rule("Keras 3 and several workers", "fit fails in its first step", "keras-team/keras#20585")
def keras_3_fit(facts: ScriptFacts) -> RuleAnswer | None:
    if not facts.named(keras_fit.STRATEGY):
        return None
    found = f"fit under {keras_fit.STRATEGY} ({', '.join(f'line {line}' for line in facts.keras_3_fits)})"
    return limited(found, keras_fit.ALTERNATIVES, when=facts.keras_3_fits, otherwise="no fit of Keras 3")


@_text_rule("own shards", "rank 0's graph is served: no rank sees what it leaves out")
def sharded(facts: ScriptFacts) -> RuleAnswer:
    calls = [call for call in facts.named("shard") if call.arguments + len(call.keywords) >= 2]
    found = f"it shards itself too ({_lines(calls)})"
    what = "remove shard(): distribute shards the data"
    return limited(found, what, when=calls and _distributes(facts), otherwise="no shard() of its own")


@SCRIPT.rule("steps_per_epoch", "without it Keras refuses a data set that has no end")
def steps(facts: ScriptFacts) -> RuleAnswer | None:
    fits = facts.named("fit")
    if not fits:
        return None
    if any(call.keywords & {"steps_per_epoch", "**"} for call in (*fits, *_distributes(facts))):
        return ok("steps_per_epoch")
    endless = [call for call in facts.named("repeat") if not call.arguments and not call.keywords]
    found = f"repeat() without end ({_lines(endless)}), and no steps_per_epoch"
    what = "model.fit(..., steps_per_epoch=N), or tfhet.distribute(ds, steps_per_epoch=N)"
    return limited(found, what, when=endless, otherwise="no repeat() without end")


@_horovod_rule("saving", "ranks of a host that save at once write the same files", "horovod/horovod#58")
def saved(facts: ScriptFacts) -> RuleAnswer:
    calls = [call for call in facts.named(*SAVES) if not call.is_rank_dependent]
    found = f"every rank saves ({_lines(calls)})"
    return limited(found, "if hvd.rank() == 0: ...", when=calls, otherwise="by one rank, or not at all")


@_text_rule("Python in the data set", "other hosts cannot run it", "tensorflow/tensorflow#50252")
def python_code(facts: ScriptFacts) -> RuleAnswer:
    calls = facts.named(*PYTHON_CODE)
    what = "write it with TensorFlow operations, or move it after tfhet.distribute"
    return limited(f"{_names(calls)} ({_lines(calls)})", what, when=calls, otherwise="none")


@_text_rule("Keras layers in map", "a function that is traced twice cannot make variables")
def layers(facts: ScriptFacts) -> RuleAnswer:
    calls = [call for call in facts.calls if call.is_mapped and call.last.startswith("Random") and "keras" in call.name]
    found = f"{_names(calls)} is made in a mapped function ({_lines(calls)}), which raises ValueError"
    return wrong(found, "make the layer once, outside of it", when=calls, otherwise="none is made in a mapped function")


def _distributes(facts: ScriptFacts) -> list[Call]:
    return [call for call in facts.named("distribute", *LOADERS) if call.name.startswith("tfhet.")]


def _names(calls: Sequence[Call]) -> str:
    return ", ".join(sorted({call.last for call in calls}))


def _lines(calls: Sequence[Call]) -> str:
    numbers = sorted({call.line for call in calls})
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
