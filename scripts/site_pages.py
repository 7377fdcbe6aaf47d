"""The pages of the documentation site that are not in docs/, and the links between all of them: a hook of MkDocs.

A document may link to any file of the repository, as GitHub shows it. On the site, a link to a document leads to its
page, a link to another file to a copy of it, and a link to a folder to its README, or to a list of what is in it. A
link to what is not there stays as it is, and `mkdocs build --strict` refuses it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the tests load this file without MkDocs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "tfhet/README.md"),
    *("benchmarks/README.md", "benchmarks/*/README.md", "examples/README.md", "examples/*/README.md"),
)
COPIES = "files"
"""Folder of the site with the copies of other files that pages link to, by their place in the repository."""
REFERENCE = "reference"
"""Folder of the site with the pages that are made of docstrings."""

_CODE_OR_LINK = re.compile(r"^```.*?^```|`[^`\n]*`|(?<=\]\()(?P<target>[^)\s]+)(?=[\s)])", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"^(```\w+) [^\n]*$", re.MULTILINE)
"""Words for the tests, after the language of a block; the site's Markdown does not know them."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the reference to the navigation."""
    pages = {"tfhet": f"{REFERENCE}/index.md"} | {f"tfhet.{room}": f"{REFERENCE}/{room}.md" for room in faces()}
    config.nav = [*(config.nav or []), {"Reference": [{title: page} for title, page in pages.items()]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Makes every page of the site, and the copies that they link to."""
    from mkdocs.structure.files import File

    pages = {path: page_of(path) for pattern in DOCUMENTS for path in sorted(found(pattern))}
    made = Gathered(pages)
    for path in pages:
        made.write(path, (ROOT / path).read_text())
    for file in list(files.documentation_pages()):
        files.remove(file)
    for page, text in {**made.texts, **reference()}.items():
        files.append(File.generated(config, page, content=text))
    for path in sorted(made.copied):
        files.append(File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path)))
    return files


class Gathered:
    """Pages with the links that they have on the site.

    pages: for each document of the repository, its page.
    """

    def __init__(self, pages: dict[str, str]) -> None:
        self.pages = dict(pages)
        self.texts: dict[str, str] = {}
        """The Markdown of each page."""
        self.copied: set[str] = set()
        """Paths of the other files that pages link to."""

    def write(self, path: str, text: str) -> None:
        """Adds the page of a document, and whatever it links to."""
        page = self.pages[path]

        def on_the_site(match: re.Match[str]) -> str:
            target = match["target"]
            if target is None or re.match(r"[a-z][a-z0-9+.-]*:|#", target):
                return match[0]
            file, _, anchor = target.partition("#")
            there = self.place_of(normpath(f"{dirname(path)}/{file}".lstrip("/")))
            return f"{relpath(there, dirname(page) or '.')}{'#' if anchor else ''}{anchor}" if there else target

        self.texts[page] = _MARKS.sub(r"\1", _CODE_OR_LINK.sub(on_the_site, text))

    def place_of(self, path: str) -> str | None:
        """The place on the site of a file or folder of the repository; None for one that is not there."""
        whole = ROOT / path
        if whole.is_dir() and (whole / "README.md").is_file():
            path = f"{path}/README.md"
        if path in self.pages:
            return self.pages[path]
        if path.startswith("docs/") and whole.is_file():
            return path.removeprefix("docs/")
        if whole.is_file():
            self.copied.add(path)
            return f"{COPIES}/{path}"
        if whole.is_dir():
            self.pages[path] = f"{COPIES}/{path}/index.md"
            names = sorted(each.name for each in whole.iterdir() if each.is_file())
            self.write(path, "\n".join([f"# {path}", "", *(f"- [{name}]({whole.name}/{name})" for name in names)]))
            return self.pages[path]
        return None


def found(pattern: str) -> Iterator[str]:
    """Files of the repository, by a pattern."""
    return (path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def page_of(path: str) -> str:
    """README.md -> index.md, docs/README.md -> guides.md, docs/plan.md -> plan.md, CHANGELOG.md -> changelog.md."""
    folder, _, name = path.rpartition("/")
    if folder == "docs":
        return "guides.md" if name == "README.md" else name
    return f"{folder}/index.md".lstrip("/") if name == "README.md" else name.lower()


def reference() -> dict[str, str]:
    """The pages of the reference: the public names of tfhet, and those of every room, with their docstrings."""
    pages = {f"{REFERENCE}/index.md": described("tfhet")}
    return pages | {f"{REFERENCE}/{room}.md": described(f"tfhet.{room}") for room in faces()}


def described(module: str) -> str:
    """A page on a module: its docstring, and its public names, those left out that share an assignment (`a, b = ...`):
    what they are is not known without importing them."""
    docstring = ast.get_docstring(source(module)) or ""
    shown = sorted(name for name, home in public(module).items() if name in alone(home))
    return "\n\n".join([f"# {module}", with_example(docstring), *(f"::: {module}.{name}" for name in shown)])


def with_example(docstring: str) -> str:
    """The docstring with a fence around its example, where nothing but Python follows the first paragraph: there, the
    formatter takes away the indentation by which Markdown would know code."""
    first, _, rest = docstring.partition("\n\n")
    try:
        ast.parse(rest)
    except SyntaxError:
        return docstring
    return f"{first}\n\n```python\n{rest}\n```" if rest else first


def faces() -> list[str]:
    """The rooms that offer names."""
    return sorted(room for path in ROOT.glob("tfhet/*/__init__.py") if public(f"tfhet.{(room := path.parent.name)}"))


def public(module: str) -> dict[str, str]:
    """The public names of a package, those that its `__init__` imports from its modules, each with its module."""
    return {name: home for name, home in imported(module).items() if home.startswith(f"{module}.")}


def imported(module: str) -> dict[str, str]:
    """The names that a module imports from others, for types or at all, each with its module."""
    imports = (node for node in ast.walk(source(module)) if isinstance(node, ast.ImportFrom))
    return {name.name: str(node.module) for node in imports for name in node.names}


def alone(module: str) -> set[str]:
    """The names that a module defines or imports, but for those of assignments to several names."""
    names = {*imported(module)}
    for node in source(module).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def source(module: str) -> ast.Module:
    """The source of a module, or of the `__init__` of a package."""
    path = ROOT / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
