"""The parser of pages in tests, which fails on what no page may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

VOID = {"meta", "line", "path", "br", "col", "rect"}
LOADING = ("src", "href", "srcset", "xlink:href", "action", "data", "poster", "background")


class Page(HTMLParser):
    """The content of a page; fails on an element that is not closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        """Ids that `aria-labelledby` names."""
        self.headings: list[tuple[int, str]] = []
        self.words: list[str] = []
        self.titles: list[str] = []
        """Tooltips."""
        self.tables: list[list[list[str]]] = []
        """Rows of cells, as text."""
        self.elements: list[tuple[str, dict[str, str]]] = []
        """Tag and attributes of each element."""
        self.flaws: list[str] = []
        """Images without a description, header cells without a scope."""
        self.uncaptioned = 0
        """Figures and tables without a caption."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.elements.append((tag, named))
        self.loads += [f"{tag} {name}" for name in named if name in LOADING]
        self.ids += [named["id"]] if "id" in named else []
        self.references += named.get("aria-labelledby", "").split()
        if tag == "svg" and not (named.get("aria-label") or named.get("aria-labelledby")):
            self.flaws.append("svg without a description")
        if tag == "th" and named.get("scope") not in ("row", "col"):
            self.flaws.append("th without a scope")
        self.uncaptioned += (tag in ("figure", "table")) - (tag in ("figcaption", "caption"))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "title":
            self.titles.append("")
        elif re.fullmatch(r"h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID and (not self.open or self.open[-1] != tag):
            return  # <rect>: closed explicitly if it holds a title
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open and self.open[-1] == "title":
            self.titles[-1] += data
        if self.open and re.fullmatch(r"h[1-6]", self.open[-1]):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
        if self.tables and self.tables[-1] and self.tables[-1][-1] and {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    @property
    def text(self) -> str:
        """All words, with single spaces between them."""
        return " ".join(" ".join(self.words).split())

    @property
    def rows(self) -> list[list[str]]:
        """The rows of all tables."""
        return [[" ".join(cell.split()) for cell in row] for table in self.tables for row in table]

    def row(self, name: str) -> list[str]:
        """The first row that begins with this cell."""
        return next(row for row in self.rows if row and row[0] == name)

    def drawn(self, kind: str) -> list[dict[str, str]]:
        """The attributes of the elements of a class."""
        return [attrs for _, attrs in self.elements if kind in attrs.get("class", "").split()]


def _parsed(page: str) -> Page:
    found = Page()
    found.feed(page)
    assert found.open == [] and found.loads == []
    assert "http" not in page and "url(" not in page and "@import" not in page and "<script" not in page
    assert found.flaws == [] and found.uncaptioned == 0
    assert len(found.ids) == len(set(found.ids)) and set(found.references) <= set(found.ids)
    levels = [level for level, _ in found.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False)), found.headings
    return found


@pytest.fixture(scope="session")
def parsed() -> Callable[[str], Page]:
    """Parses a page and checks what holds for all pages.

    A page is balanced, loads nothing, has one heading of level 1 and skips no level, describes every image, and has a
    caption for every figure and table and a scope for every header cell.
    """
    return _parsed
