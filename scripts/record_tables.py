"""Values and tables for documents, from the records in results/ and from the code: what scripts/figures.py writes.

A query names a figure, or a path of keys, in a record, `*` standing for any:

    faults.worst_exit_s                       the figure's value; `:low`, `:high`, `:n`, `:unit` for its other parts
    details.case.chain                        what stands there in the record
    machine                                   cores and CPU of the machine
    count details.schedules {kind: failure}   how many; `median`, `min` and `max` are the other functions
    count scaling.*.data_hosts_* <= 1.05      how many values are in that range
    median details.a.*.ms / median details.b.*.ms   of each list, where there are several
    faults.kill_every_5s.demand as .0%        in a format of Python; `as d` rounds to a whole number

A value without a format has three digits that matter. KINDS are the kinds of tables.
"""

from __future__ import annotations

import ast
import contextlib
import fnmatch
import importlib
import io
import json
import runpy
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from tfhet.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
"""Columns of a line in a document."""
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {"count": len, "median": median, "min": min, "max": max}


@cache
def read(name: str) -> dict[str, Any]:
    """The JSON of a record, by its path in the repository, with the intervals that it gives its figures."""
    from tfhet.record import Record, json_value

    try:
        content = json.loads((ROOT / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    if "figures" in content:
        content["figures"] = json_value(Record.from_json(content, name).figures)
    return content


def value(record: Mapping[str, Any], query: str) -> str:
    """The value of a query, as text; "" for null. Raises UsageError for what is not there."""
    if query == "machine":
        return f"{record['machine']['cores']} cores ({record['machine']['cpu'].replace('(R)', '')})"
    query, _, form = query.partition(" as ")
    found = [_term(record, term) for term in query.split(" / ")]
    rows = zip(*found, strict=True) if isinstance(found[0], list) else [tuple(found)]
    return ", ".join(_shown(row[0] if len(row) == 1 else row[0] / row[1], form) for row in rows)


def _shown(number: Any, form: str) -> str:
    from tfhet.report import numbers

    if number is None or isinstance(number, str):
        return number or ""
    if not form:
        return numbers.number(number)
    return f"{round(number):,d}" if form == "d" else format(number, form).replace("%", " %")


def _term(record: Mapping[str, Any], term: str) -> Any:
    first, _, rest = term.partition(" ")
    function, term = (FUNCTIONS[first], rest) if rest and first in FUNCTIONS else (None, term)
    term, bracket, wanted = term.partition(" {")
    term, limit, most = term.partition(" <= ")
    found = _find(record, term.strip())
    if bracket:
        asked = yaml.safe_load("{" + wanted)
        found = [row for row in found if all(row.get(key) == item for key, item in asked.items())]
    if limit:
        found = [each for each in found if each <= float(most)]
    if isinstance(found, (list, dict)) != bool(function):
        raise UsageError(f"{term!r} is {'many values: name a function' if not function else 'one value'}")
    if function in (len, None):
        return function(found) if function else found
    found = [each for each in found if each is not None]
    return [function(each) for each in found] if isinstance(found[0], list) else function(found)


def _find(record: Mapping[str, Any], path: str) -> Any:
    name, _, part = path.partition(":")
    figures = record.get("figures", {})
    found = [figures[each][part or "value"] for each in fnmatch.filter(figures, name)]
    if found:
        return found if "*" in name else found[0]

    def walk(node: Any, keys: Sequence[str]) -> Any:
        if not keys:
            return node
        if keys[0] == "*":
            return [walk(child, keys[1:]) for child in (node.values() if isinstance(node, dict) else node)]
        return walk(node[int(keys[0])] if isinstance(node, list) else node[keys[0]], keys[1:])

    try:
        return walk(record, path.split("."))
    except (IndexError, KeyError, TypeError, ValueError):
        raise UsageError(f"there is no {path!r}") from None


def table(kind: str, source: str, options: Mapping[str, Any]) -> str:
    """The lines of a table, of the kind and source that a marker names. Raises UsageError."""
    if kind not in KINDS:
        raise UsageError(f"no kind of table; known: {', '.join(KINDS)}")
    return KINDS[kind](source, **options)


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    shown = [f"| {' | '.join(line)} |\n" for line in lines]
    shown.insert(1, f"|{'---|' * len(head)}\n")
    return "".join(shown)


def _fenced(text: str) -> str:
    return f"```text\n{text}```\n"


def _figures(source: str, only: Sequence[str] = ("*",)) -> str:
    """The figures of a record whose names match one of the patterns `only`, in the order of the record."""
    from tfhet.record import Record
    from tfhet.report import figure_table, text

    figures = Record.read(ROOT / source).figures
    wanted = {name for pattern in only for name in fnmatch.filter(figures, pattern)}
    shown = {name: figure for name, figure in figures.items() if name in wanted}
    made = text(figure_table(shown))
    if max(map(len, made.splitlines())) <= WIDTH:
        return _fenced(made)
    against = list(dict.fromkeys(figure.against for figure in shown.values() if figure.against))
    marks = {what: f"[{number}]" for number, what in enumerate(against, start=1)}
    marked = {name: replace(figure, against=marks.get(figure.against or "")) for name, figure in shown.items()}
    return _fenced(text(figure_table(marked)) + "\n" + _folded(f"{mark} {what}" for what, mark in marks.items()))


def _run(source: str) -> str:
    """The table that a run ends with."""
    from tfhet.record import RunSummary
    from tfhet.report import run_table, text

    return _fenced(text(run_table(RunSummary.from_json(read(source), source))))


def _profile(source: str, last: str = "") -> str:
    """The output of `tfhet profile` for a record of its own, to the line that begins with `last`."""
    from tfhet.profile.command import show
    from tfhet.profile.result import Profile
    from tfhet.record import Record

    found = Profile.of(Record.read(ROOT / source))
    return _printed(lambda: show(found, wide=True), last=last)


def _command(source: str, first: str = "", last: str = "") -> str:
    """The output of a command of tfhet, from the line that begins with `first` to the one that begins with `last`."""
    from tfhet.__main__ import main

    words = [str(ROOT / word) if word.startswith("results/") else word for word in shlex.split(source)[1:]]
    return _printed(lambda: main([*words, "--wide"]), first, last)


def _printed(call: Callable[[], object], first: str = "", last: str = "") -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out):
        if call():
            raise UsageError("the command fails")
    lines = out.buffer.getvalue().decode().splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith(first)), None)
    end = next((i for i, line in enumerate(lines) if last and line.startswith(last)), None if last else len(lines) - 1)
    if begin is None or end is None:
        raise UsageError(f"no line that is printed begins with {first!r}, or with {last!r}")
    gap = ["[...]"]
    shown = (gap if begin else []) + lines[begin : end + 1] + (gap if end < len(lines) - 1 else [])
    return _fenced(_folded(shown))


def _folded(lines: Iterable[str]) -> str:
    """Lines, those that are too wide for a document broken between words."""
    return "".join(
        f"{textwrap.fill(line, WIDTH, subsequent_indent='  ') if len(line) > WIDTH else line}\n" for line in lines
    )


def _rows(
    source: str,
    columns: Any,
    rows: Any = None,
    cell: str = "",
    corner: str = "",
    each: str = "",
    gaps: bool = False,
) -> str:
    """A table of chosen rows and columns: cells are text with [[queries]] in it.

    `rows` are labels, or labels and what stands for `$row` in cells and in the record's name; `columns` are headings
    with their cells, or, beside a `cell` that all share, headings with what stands for `$column`. `each` names a list
    of the record instead: a row for each entry, in which the cells' queries look. With `gaps` a cell of which a value
    is missing is empty, but no row or column is.
    """

    def filled(template: str, record: Mapping[str, Any]) -> str:
        parts = template.replace("]]", "[[").split("[[")
        try:
            values = [value(record, query) for query in parts[1::2]]
        except UsageError:
            if not gaps:
                raise
            return ""
        if gaps and "" in values:
            return ""
        return "".join(text + found for text, found in zip(parts[::2], [*values, ""], strict=True))

    heads = columns if isinstance(columns, dict) else {name: name for name in columns}
    cells = {head: (cell or text, text) for head, text in heads.items()}
    if each:
        lines = [[filled(text, entry) for text, _ in cells.values()] for entry in _find(read(source), each)]
        return _markdown(heads, lines)
    lines = []
    for label, row in (rows if isinstance(rows, dict) else {name: name for name in rows}).items():
        record = read(source.replace("$row", row))
        made = [text.replace("$row", row).replace("$column", column) for text, column in cells.values()]
        lines.append([filled(text, record) for text in made])
        lines[-1].insert(0, label)
    if not all(any(line[1:]) for line in lines) or not all(map(any, zip(*lines, strict=True))):
        raise UsageError("a row or a column is empty")
    return _markdown([corner, *heads], lines)


def _fields(source: str) -> Iterable[tuple[str, str, Any]]:
    """Name, docstring and default of each field of a dataclass, which is not imported."""
    module, _, name = source.rpartition(".")
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    bodies = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    if not bodies:
        raise UsageError(f"there is no class {source}")
    for field, below in zip(bodies[0], bodies[0][1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if field.value and "NOT_AN_ARGUMENT" in ast.unparse(field.value):
            continue
        if not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
            raise UsageError(f"{source}.{field.target.id} has no docstring")
        try:
            default = ast.literal_eval(field.value) if field.value else None
        except ValueError:  # a name: its value is that of the class
            default = getattr(getattr(importlib.import_module(module), name), field.target.id, None)
        yield field.target.id, " ".join(str(below.value.value).split()), default


def _settings(source: str, links: Mapping[str, str] | None = None) -> str:
    """The arguments that one or several classes of settings have, with `links` from their names."""
    rows = []
    for kind in source.split():
        for name, words, default in _fields(kind):
            shown = f"[`--{name}`]({links[name]})" if links and name in links else f"`--{name}`"
            rows.append([shown, words, "" if default == "" else f"`{default}`"])
    return _markdown(["argument", "meaning", "default"], rows)


def _attributes(source: str) -> str:
    """The fields of a class, without defaults."""
    return _markdown(["field", "meaning"], ([f"`{name}`", words] for name, words, _ in _fields(source)))


def _chains(source: str) -> str:
    """The chains that have a name, from the module that holds them, run by itself: its package needs TensorFlow."""
    chains = runpy.run_path(str(ROOT / source))["CHAINS"]
    return _markdown(["chain", "stages"], ([f"`{name}`", f"`{text}`"] for name, text in chains.items()))


def _published(source: str) -> str:
    """Published runs beside what the plan's model predicts of them."""
    from benchmarks.plan.published import predictions
    from tfhet.report.numbers import interval, number

    rows, before = [], ""
    for one in predictions():
        run, before = one.run if one.run != before else "", one.run
        predicted = f"{number(one.predicted.value)} {one.predicted.unit} ({interval(one.predicted)})"
        rows.append([run, one.what, predicted, f"{one.published:.0f} {one.predicted.unit}"])
    return _markdown(["run", "what", "predicted", "published"], rows)


def _records(source: str) -> str:
    """Every benchmark record of the folder, when it was made, on which machine, and whether its code has changed."""
    import records

    rows = [
        [
            f"[{each.path.stem}](../{each.path.relative_to(ROOT)})",
            *(
                each.record.created[:10],
                f"`{each.commit}`" if each.commit else "",
                value(read(f"{source}/{each.path.name}"), "machine"),
                each.words,
            ),
        ]
        for each in records.aged(ROOT)
    ]
    return _markdown(["record", "made", "commit", "machine", "its code"], rows)


def _worth(source: str, side: int = 0) -> str:
    """The demands of published trainings on a host, from the records in a folder; with `side`, a line for each one."""
    from benchmarks.worth import answer

    head, rows = answer.by_training(side, ROOT / source) if side else (list(answer.HEAD), answer.rows(ROOT / source))
    return _markdown(head, rows)


KINDS: Mapping[str, Callable[..., str]] = {
    "figures": _figures,
    "run": _run,
    "profile": _profile,
    "command": _command,
    "table": _rows,
    "settings": _settings,
    "fields": _attributes,
    "chains": _chains,
    "published": _published,
    "records": _records,
    "worth": _worth,
}
