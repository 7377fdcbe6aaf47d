"""The registry of stages: from names and text to stages, and back to text."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import logging
import typing
from collections.abc import Callable, Iterable
from typing import TypeVar

from tfhet.errors import UsageError, unknown
from tfhet.stages.chains import CHAINS
from tfhet.stages.stage import Stage

GROUP = "tfhet.stages"
"""The entry point group of third-party stages: each entry names a Stage class, or a module that registers some."""

log = logging.getLogger(__name__)
StageT = TypeVar("StageT", bound=type[Stage])

_table: dict[str, type[Stage]] = {}
_plugins_loaded = False


def register(name: str) -> Callable[[StageT], StageT]:
    """Class decorator that registers a Stage under `name`. Raises UsageError for a name that another class has."""
    if not name.isidentifier():
        raise UsageError(f"stage name {name!r} is not an identifier: it is written like a function in a chain")

    def enter(stage: StageT) -> StageT:
        taken = _table.get(name)
        # The same class may be registered twice: by a module that runs as a script, or is loaded again in a notebook.
        if taken is not None and _origin(taken) != _origin(stage):
            raise UsageError(f"stage name {name!r} is taken by {'.'.join(_origin(taken))}: choose another")
        stage.name = name
        _table[name] = stage
        return stage

    return enter


def _origin(stage: type[Stage]) -> tuple[str, str]:
    return stage.__module__, stage.__qualname__


def load_plugins(strict: bool = False) -> tuple[str, ...]:
    """Loads the entry points of group `tfhet.stages`, once per process; returns a reason for each that failed.

    A bad plugin is logged and skipped. With `strict` it raises UsageError instead, and all plugins are loaded again.
    """
    global _plugins_loaded
    if _plugins_loaded and not strict:
        return ()
    _plugins_loaded = True
    failed = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            loaded = entry.load()
            if isinstance(loaded, type):  # otherwise a module, whose stages are registered by now
                if not issubclass(loaded, Stage):
                    raise UsageError(f"{loaded.__qualname__} is not a subclass of tfhet.stages.Stage")
                if _table.get(loaded.name) is not loaded:
                    register(entry.name)(loaded)
        except Exception as error:  # noqa: BLE001  foreign code: whatever it raises must not end the job
            failed.append(f"{entry.name} = {entry.value}: {type(error).__name__}: {error}")
            log.warning("stage plugin skipped: %s", failed[-1])
    if strict and failed:
        raise UsageError(f"stage plugins of entry point group {GROUP} cannot be loaded: {'; '.join(failed)}")
    return tuple(failed)


def get(name: str) -> type[Stage]:
    """Returns the class of a name; loads plugins for an unknown one. Raises UsageError that lists the known names."""
    if name not in _table:
        load_plugins()
    if name not in _table:
        unknown("stage", name, _table)
    return _table[name]


def names() -> tuple[str, ...]:
    """Returns all known names, sorted; loads plugins."""
    load_plugins()
    return tuple(sorted(_table))


def chain(name: str) -> tuple[Stage, ...]:
    """Returns a named chain's stages. Raises UsageError that lists the known chains."""
    if name not in CHAINS:
        unknown("chain", name, CHAINS)
    return parse(CHAINS[name])


def parse(text: str) -> tuple[Stage, ...]:
    """Returns the stages of a text like `"dilate(size=3); rescale()"`, or of the name of a chain.

    Stages are separated by `;` or new lines. Arguments are literals, or quotients of two as in `rescale(1/255)`, by
    name or in the order of the fields. Where a field holds stages, they are stages: `probability(posterize(4), 0.5)`,
    `one_of(posterize(4), solarize(128))`. Raises UsageError for unknown stages and arguments, listing the known ones.
    """
    if text.strip() in CHAINS:
        return chain(text.strip())
    try:
        calls = ast.parse("\n".join(line.strip() for line in text.split("\n"))).body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"cannot read the stages {text!r}: {error}; write like {CHAINS['aws-cifar']!r}") from None
    return tuple(_stage(statement, text) for statement in calls)


def _stage(statement: ast.stmt, text: str) -> Stage:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Name):
        call = ast.Call(call, [], [])
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        what = ast.unparse(statement)
        raise UsageError(f"{what!r} in {text!r} is neither a stage like 'rescale()' nor a chain ({', '.join(CHAINS)})")
    kind = get(call.func.id)
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind) if field.init]
    given: list[tuple[str | None, ast.expr]] = [(keyword.arg, keyword.value) for keyword in call.keywords]
    if kind.variadic and call.args and not isinstance(call.args[0], (ast.List, ast.Tuple)):
        given.insert(0, (kind.variadic, ast.Tuple(call.args, ast.Load())))
    elif len(call.args) > len(fields):
        raise UsageError(f"stage {kind.name} takes {len(fields)} arguments ({', '.join(fields)}), not {len(call.args)}")
    else:
        given = [*zip(fields, call.args, strict=False), *given]
    arguments: dict[str, object] = {}
    for name, node in given:
        if name not in fields:
            unknown(f"argument of stage {kind.name}", name, fields)
        if name in arguments:
            raise UsageError(f"stage {kind.name}: {name} is given twice in {text!r}")
        holds_stages = hints[str(name)] in (Stage, tuple[Stage, ...])
        arguments[str(name)] = _nested(node, text) if holds_stages else _literal(node, kind.name)
    try:
        return kind(**arguments)
    except TypeError as error:  # a field without a default is missing
        raise UsageError(f"stage {kind.name}: {error}") from None


def _nested(node: ast.expr, text: str) -> object:
    """Returns the stage, or the tuple of stages, of an argument."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return tuple(_nested(each, text) for each in node.elts)
    return _stage(ast.Expr(node), text)


def _literal(node: ast.expr, stage: str) -> object:
    try:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return ast.literal_eval(node.left) / ast.literal_eval(node.right)
        return ast.literal_eval(node)
    except (ValueError, TypeError, ZeroDivisionError):
        raise UsageError(f"stage {stage}: {ast.unparse(node)!r} is not a literal value") from None


def text(stages: Iterable[Stage]) -> str:
    """Returns text that `parse` reads: the stages with the fields that differ from their defaults, by name.

    Raises UsageError for a stage that is not registered.
    """
    return "; ".join(_call(stage) for stage in stages)


def _call(stage: object) -> str:
    """Returns a stage as text, and any other value as a literal."""
    if not isinstance(stage, Stage):
        return repr(stage)
    if type(stage) is not _table.get(stage.name):
        stage.refuse(f"{type(stage).__qualname__} is not in the registry: decorate the class with @register")
    changed = [
        f"{field.name}={_call(getattr(stage, field.name))}"
        for field in dataclasses.fields(stage)
        if field.name != stage.variadic and getattr(stage, field.name) != field.default
    ]
    several = [_call(each) for each in getattr(stage, stage.variadic)] if stage.variadic else []
    return f"{stage.name}({', '.join([*several, *changed])})"
