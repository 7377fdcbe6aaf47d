"""The text of a training script: facts that the rules of `script_rules` judge. The script is not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfhet.errors import UsageError

MAPPED = ("map", "interleave", "flat_map", "filter")
"""Methods of a data set that take a function."""


@dataclass(frozen=True)
class Call:
    """One call in the text."""

    name: str
    """Name, resolved to what was imported: `horovod.tensorflow.keras.init`, `ds.map`."""
    line: int
    keywords: frozenset[str]
    """Names of its keyword arguments; `**` where there may be others."""
    numbers: frozenset[int]
    """Whole numbers among its arguments."""
    arguments: int
    """Number of positional arguments."""
    is_rank_dependent: bool
    """Whether it is under an `if` that asks for the rank."""
    is_mapped: bool
    """Whether it is in a function that a data set maps."""
    text: str
    """Its arguments, as written."""

    @property
    def last(self) -> str:
        """The name after the last dot."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class ScriptFacts:
    """One script."""

    path: str
    calls: tuple[Call, ...] = ()
    imports: frozenset[str] = frozenset()
    """All modules and names that it imports, in full."""
    error: str = ""
    """Why Python cannot read it; "" when it can."""

    def named(self, *names: str) -> list[Call]:
        """The calls whose last name is one of these."""
        return [call for call in self.calls if call.last in names]

    def imports_from(self, package: str) -> bool:
        return any(name == package or name.startswith(f"{package}.") for name in self.imports)


def look(path: Path) -> ScriptFacts:
    """Reads `path`. Raises UsageError when there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--script {path}: cannot be read ({error})") from None
    return parse(text, str(path))


def parse(text: str, path: str) -> ScriptFacts:
    """The facts of a text."""
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError, RecursionError) as error:
        return ScriptFacts(path, error=str(error))
    names = dict(_imported(tree))
    mapped = _mapped_functions(tree)
    return ScriptFacts(path, tuple(_calls(tree, names, mapped)), frozenset(names.values()))


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Local name -> what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield (each.asname, each.name) if each.asname else (each.name.split(".")[0], each.name.split(".")[0])
                yield each.name, each.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _mapped_functions(tree: ast.AST) -> set[str]:
    """Names of functions that are handed to a data set's `map` and the like."""
    return {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAPPED
        for argument in node.args
        if isinstance(argument, ast.Name)
    }


def _calls(tree: ast.AST, names: dict[str, str], mapped: set[str]) -> Iterator[Call]:
    def walk(node: ast.AST, by_rank: bool, inside: bool) -> Iterator[Call]:
        if isinstance(node, ast.Call):
            yield _call(node, names, by_rank, inside)
            is_map = isinstance(node.func, ast.Attribute) and node.func.attr in MAPPED
            yield from walk(node.func, by_rank, inside)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from walk(argument, by_rank, inside or (is_map and isinstance(argument, ast.Lambda)))
            return
        if isinstance(node, (ast.If, ast.IfExp)):
            yield from walk(node.test, by_rank, inside)
            asks = by_rank or "rank" in ast.unparse(node.test)
            branches = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
            for branch in branches:
                yield from walk(branch, asks, inside)
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = inside or node.name in mapped
        for child in ast.iter_child_nodes(node):
            yield from walk(child, by_rank, inside)

    yield from walk(tree, False, False)


def _call(node: ast.Call, names: dict[str, str], by_rank: bool, inside: bool) -> Call:
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return Call(
        _name(node.func, names),
        node.lineno,
        frozenset(keyword.arg or "**" for keyword in node.keywords),
        frozenset(
            each.value
            for value in values
            for each in ast.walk(value)
            if isinstance(each, ast.Constant) and type(each.value) is int
        ),
        len(node.args),
        by_rank,
        inside,
        ", ".join(ast.unparse(value) for value in values),
    )


def _name(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value, names)}.{node.attr}"
    return f"{_name(node.func, names)}()" if isinstance(node, ast.Call) else "?"
