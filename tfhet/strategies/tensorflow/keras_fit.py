"""Keras 3 under MultiWorkerMirroredStrategy: `fit` fails in its first step (keras-team/keras#20585), and a custom loop
works, also with models and optimizers of Keras (tried with TensorFlow 2.21 and Keras 3.15). With parameter servers,
Keras 3 has no `fit`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

STRATEGY = "MultiWorkerMirroredStrategy"
LEGACY = "TF_USE_LEGACY_KERAS"
KERAS_2 = f"train by Keras 2: install tf-keras and set {LEGACY}=1"
ALTERNATIVES = f"train by --strategy horovod, or in a custom loop (strategy.run), or {KERAS_2}"
_OF_FIT = ("epochs", "steps_per_epoch", "validation_data", "callbacks", "batch_size", "verbose", "initial_epoch")
"""Arguments that tell Keras' `fit` from other ones."""


def fits(text: str) -> list[int]:
    """Returns the lines of a script that call Keras' `fit` under the strategy. Empty if the script does not name the
    strategy, compiles no model, chooses Keras 2, or is not Python."""
    if STRATEGY not in text or re.search(rf"\b({LEGACY}|tf_keras)\b", text):
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    nodes = list(ast.walk(tree))
    modules = {each.asname or each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    compiled, fits = {each for each, _ in _calls(nodes, "compile")} - modules, _calls(nodes, "fit")
    if not compiled:
        return []
    # Estimators of other libraries have a `fit`, too; a model that a function compiles has another name there.
    found = [
        call.lineno for each, call in fits if each in compiled or any(word.arg in _OF_FIT for word in call.keywords)
    ]
    return sorted(found)


def creators(text: str) -> list[int]:
    """Returns the lines of a script that name Keras 2's DatasetCreator, which `fit` reads with parameter servers. Empty
    if the script chooses Keras 2."""
    if re.search(rf"\b({LEGACY}|tf_keras)\b", text):
        return []
    return [number for number, line in enumerate(text.splitlines(), 1) if "DatasetCreator(" in line]


def is_keras_3(versions: Mapping[str, str], env: Mapping[str, str]) -> bool:
    """Whether `tf.keras` is Keras 3. versions: of the installed packages."""
    major = versions.get("keras", "0").partition(".")[0]
    return major.isdecimal() and int(major) >= 3 and env.get(LEGACY) not in ("1", "true", "True")


def _calls(nodes: Iterable[ast.AST], method: str) -> list[tuple[str, ast.Call]]:
    """Returns the calls of a method, each with its object as text."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [
        (ast.unparse(call.func.value), call)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == method
    ]
