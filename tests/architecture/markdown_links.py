"""Links between Markdown files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from posixpath import normpath


def dead_links(path: str, text: str, read: Callable[[str], str | None]) -> list[str]:
    """Returns the links of a Markdown file to files or headings that do not exist, one line each.

    read: path in the repository -> text of the file, "" for a folder or a binary file, None if it does not exist.
    """
    breaches = []
    for target in re.findall(r"\]\(<?([^)>\s]+)>?[^)]*\)", _without_code(text)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = normpath(str(PurePosixPath(path).parent / file)) if file else path
        content = read(linked)
        if content is None:
            breaches.append(f"{path}: no file {target}")
        elif anchor and linked.endswith(".md") and anchor not in heading_anchors(content):
            breaches.append(f"{path}: no heading {target}")
    return breaches


def heading_anchors(markdown: str) -> set[str]:
    """Returns the anchors that GitHub gives to the headings of a Markdown text."""
    anchors: set[str] = set()
    for title in re.findall(r"^#+ +(.+?) *#* *$", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S), flags=re.M):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in anchors:
            number += 1
        anchors.add(numbered)
    return anchors


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
