"""The changes of a trial as a patch of the script: arguments of calls whose places are known.

A place is the file of a call, and line and byte offset of its first and last character.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IMPORT = "import tfhet.torch"
WORKERS_AT = 5
"""Position of `num_workers` among the arguments of a DataLoader."""
Place = Mapping[str, Any]


@dataclass
class Patch:
    """Changes of files, collected one by one."""

    by_hand: list[str] = field(default_factory=list)
    """What the patch does not contain, and why."""
    _edits: dict[str, list[tuple[int, int, bytes]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, changes: Mapping[str, Any], places: Mapping[str, Place | None]) -> Patch:
        """Returns the patch for the changes of a variant. places: of the calls that made loader, transform, dataset."""
        made = cls()
        if "pipeline" in changes:
            made._pipeline(places.get("loader"), changes["pipeline"], changes["arguments"])
        if changes.get("transform"):
            made._wrap(places.get("transform"), "tfhet.torch.from_torchvision")
        if changes.get("read_file"):
            made._argument(places.get("dataset"), "loader", "tfhet.torch.read_file")
        if "num_workers" in changes:
            made._argument(places.get("loader"), "num_workers", str(changes["num_workers"]), WORKERS_AT)
        return made

    def folder(self, current: Path) -> Path:
        """Returns the folder in which the patch applies: the current one, if all files are below it."""
        files = [Path(name) for name in self._edits]
        is_below = all(current.resolve() in (name.resolve(), *name.resolve().parents) for name in files)
        return current if is_below else Path(os.path.commonpath([name.parent for name in files]))

    def text(self, folder: Path) -> str:
        """Returns the unified diff, with paths relative to a folder; "" without changes. Raises OSError."""
        parts = list[str]()
        for name, edits in self._edits.items():
            before = Path(name).read_bytes()
            after = before
            edits = [*edits, *_import(before)] if any(b"tfhet" in each[2] for each in edits) else edits
            for start, end, new in sorted(edits, reverse=True):
                after = after[:start] + new + after[end:]
            path = os.path.relpath(name, folder)
            old, changed = (content.decode("utf-8").splitlines(keepends=True) for content in (before, after))
            parts += difflib.unified_diff(old, changed, f"a/{path}", f"b/{path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)

    def _wrap(self, place: Place | None, function: str) -> None:
        call = _Call.at(place)
        if call is None:
            self.by_hand.append(f"put {function}(...) around the transform of the dataset")
            return
        self._edits[call.file] += [(call.start, call.start, f"{function}(".encode()), (call.end, call.end, b")")]

    def _argument(self, place: Place | None, name: str, value: str, position: int | None = None) -> None:
        """Sets an argument of a call. position: of the argument among those without a name."""
        call = _Call.at(place)
        if call is None:
            self.by_hand.append(f"set {name}={value}: the call is in a library, or in code without a file")
            return
        named = {each.arg: each.value for each in call.node.keywords if each.arg}
        packed = [each.value for each in call.node.keywords if each.arg is None]
        starred = any(isinstance(each, ast.Starred) for each in call.node.args)
        old = named.get(name)
        if old is None and position is not None and position < len(call.node.args) and not starred:
            old = call.node.args[position]
        if old is not None:
            if not isinstance(old, ast.Constant):
                words = f"{call.text(old)} sets {name} in line {old.lineno}"
                self.by_hand.append(f"{words}: set it there instead, if it is an option of the script")
            self._edits[call.file].append((*call.span(old), value.encode()))
        elif packed:
            start, end = call.span(packed[0])
            new = f'{{**{call.text(packed[0])}, "{name}": {value}}}'
            self._edits[call.file].append((start, end, new.encode()))
        else:
            self._edits[call.file].append(call.added(f"{name}={value}"))

    def _pipeline(self, place: Place | None, chain: str, arguments: Mapping[str, Any]) -> None:
        """Replaces the call that made a DataLoader."""
        call = _Call.at(place)
        packed = call is None or any(each.arg is None for each in call.node.keywords)
        named = {each.arg: each.value for each in call.node.keywords} if call else {}
        found = [*call.node.args[:2], None, None][:2] if call else [None, None]
        dataset, size = found[0] or named.get("dataset"), found[1] or named.get("batch_size")
        more = "".join(
            f", {name}={value}" for name, value in arguments.items() if value is not False or "split" in name
        )
        if call is None or dataset is None or (size is None and packed):
            words = "replace the DataLoader by tfhet.torch.loader(tfhet.Pipeline(tfhet.FileList(DATASET.samples),"
            self.by_hand.append(f'{words} "{chain}", batch_size=N{more}))')
            return
        indent = " " * (len(line := call.line()) - len(line.lstrip()))
        count = call.text(size) if size is not None else "1"
        lines = [
            "tfhet.torch.loader(",
            "    tfhet.Pipeline(",
            f"        tfhet.FileList({call.text(dataset)}.samples),",
            f'        "{chain}",',
            f"        batch_size={count}{more},",
            "    )",
            ")",
        ]
        self._edits[call.file].append((call.start, call.end, f"\n{indent}".join(lines).encode()))


class _Call:
    """A call in the source of a file, with offsets in bytes."""

    def __init__(self, file: str, source: bytes, node: ast.Call) -> None:
        self.file, self.node, self._source = file, node, source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self.start, self.end = self.span(node)

    @classmethod
    def at(cls, place: Place | None) -> _Call | None:
        """Returns the call at a place; None if its source is not there any more."""
        if not place:
            return None
        try:
            source = Path(place["file"]).read_bytes()
            tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError):
            return None
        names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
        wanted = tuple(place[name] for name in ("line", "column", "end_line", "end_column"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and tuple(getattr(node, name) for name in names) == wanted:
                return cls(place["file"], source, node)
        return None

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Returns offsets of first and last byte."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        return self._source[slice(*self.span(node))].decode("utf-8")

    def line(self) -> str:
        """Returns the line in which the call begins."""
        return self._source.splitlines()[self.node.lineno - 1].decode("utf-8")

    def added(self, argument: str) -> tuple[int, int, bytes]:
        """Returns the edit that adds an argument at the end of the call."""
        inner: Sequence[ast.expr] = [*self.node.args, *(each.value for each in self.node.keywords)]
        at = max((self.span(each)[1] for each in inner), default=self.end - 1)
        return at, at, (f", {argument}" if inner else argument).encode()


def _import(source: bytes) -> list[tuple[int, int, bytes]]:
    """Returns the edit that imports tfhet after the other imports at the top of a file."""
    tree = ast.parse(source)
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if any(isinstance(node, ast.Import) and any(each.name == "tfhet.torch" for each in node.names) for node in imports):
        return []
    first = [*imports[-1:], *tree.body[:1]] if imports or ast.get_docstring(tree) is not None else []
    line = first[0].end_lineno if first else 0
    at = sum(map(len, source.splitlines(keepends=True)[:line]))
    return [(at, at, f"{IMPORT}\n".encode())]
