"""The code that a record measures: its commit, and what each of its parts was.

A part is a folder or file of the checkout, or of the installed package. Its digest changes with what it does: of Python
files it is that of their syntax without docstrings and comments, which differs between versions of Python; of other
files that of their bytes. Tests, pages, and the costs that plans assume do not count.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the package: the checkout, where there is one."""
_LIMIT_S = 20.0
_NO_CODE = {".md", ".pyc", ".so", ".html", ".css", ".json"}
_ASSUMED = {"carrier.py", "costs.py"}
"""Files of costs that a plan assumes: they are taken from records, and would make each record old that they follow. A
suite to which they matter names them."""


@dataclass(frozen=True)
class MeasuredCode:
    """The code of one record."""

    commit: str
    """Commit of the checkout; "" where the package is installed, or git is missing."""
    is_clean: bool
    """Whether the parts were as committed; False without a commit."""
    parts: Mapping[str, str]
    """Digest of each part, by its path below ROOT."""

    @classmethod
    def of(cls, parts: Sequence[str], root: Path = ROOT) -> MeasuredCode:
        """The code as it is now. Raises OSError for a part that is not there."""
        commit = _git(root, "rev-parse", "HEAD").strip()
        changed = _git(root, "status", "--porcelain", "--", *parts).strip()
        return cls(commit, bool(commit) and not changed, {part: digest(root / part) for part in sorted(parts)})

    def to_json(self) -> dict[str, Any]:
        return {"commit": self.commit, "is_clean": self.is_clean, "parts": dict(self.parts)}


def changed(noted: Mapping[str, Any], root: Path = ROOT) -> list[str] | None:
    """The parts that have changed since a record noted them, or are gone, by path. None where it noted none."""
    parts = noted.get("parts")
    if not isinstance(parts, Mapping) or not parts:
        return None
    return [part for part, was in parts.items() if not (root / part).exists() or digest(root / part) != was]


def digest(path: Path) -> str:
    """16 hexadecimal digits for the code of a folder or file. Raises OSError."""
    whole = hashlib.sha256()
    for file in _files(path):
        content = file.read_bytes()
        if file.suffix == ".py":
            content = ast.dump(_without_docstrings(ast.parse(content))).encode()
        for text in (file.relative_to(path).as_posix().encode(), content):
            whole.update(len(text).to_bytes(8, "big") + text)
    return whole.hexdigest()[:16]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: there is no such part of the code")
    for file in sorted(path.rglob("*")):
        is_test = file.name.startswith(("test_", "conftest"))
        is_none = is_test or file.name in _ASSUMED or file.suffix in _NO_CODE or "__pycache__" in file.parts
        if file.is_file() and not is_none:
            yield file


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # the strings below names, too, are words for readers
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _git(root: Path, *words: str) -> str:
    """Returns what git prints; "" where there is no git, or no repository of which `root` is the top."""
    if shutil.which("git") is None or not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
