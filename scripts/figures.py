"""Fills the marked places of the documents, from the records in results/ and from the code.

    python scripts/figures.py            writes every document that is stale, and names it
    python scripts/figures.py --check    writes nothing: names the stale documents, shows what differs, exits 1

A table stands between two comments, the first of which names its kind (see record_tables.py), its source, and options
in YAML; a line that ends with a backslash goes on in the next one. A value in a sentence stands between two comments
too, the first of which names the record and the query:

    <!-- figures results/launch.json {only: "launch.*_s"} -->
    ...
    <!-- end -->

    The suite has <!--= results/faults.json faults.cases as d -->65<!--/--> cases.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from pathlib import Path

import record_tables
import yaml

from tfhet.errors import TfhetError

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `benchmarks` is, which is not installed
DOCUMENTS = ("*.md", "docs/*.md", "tfhet/*.md", "benchmarks/**/*.md")
BLOCK = re.compile(r"^<!-- (\w+) (.*?)-->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"<!--=\s*(\S+)\s+(.*?)\s*-->(.*?)<!--/-->", re.DOTALL)


class MarkerError(Exception):
    """A marker that cannot be filled: names the line, and what is wrong with it."""


def fill(text: str) -> str:
    """The text of a document with every marked place filled. Raises MarkerError."""

    def block(found: re.Match[str]) -> str:
        kind, marker, old = found[1], found[2].replace("\\\n", ""), found[3]
        source, *options = re.split(r"\n| (?=\{)", marker, maxsplit=1)
        try:
            if "<!-- " in old:
                raise TfhetError("its `<!-- end -->` is missing")
            new = record_tables.table(kind, source.strip(), yaml.safe_load("".join(options)) or {})
        except (TfhetError, yaml.YAMLError, TypeError) as error:  # TypeError: an option that the kind does not have
            raise MarkerError(f"line {line(found)}: {kind} {source}: {error}") from error
        return found[0][: found.start(3) - found.start()] + new + "<!-- end -->"

    def inline(found: re.Match[str]) -> str:
        record, query, old = found[1], " ".join(found[2].split()), found[3]
        try:
            if "<!--" in old:
                raise TfhetError("its `<!--/-->` is missing")
            new = record_tables.value(record_tables.read(record), query)
        except TfhetError as error:
            raise MarkerError(f"line {line(found)}: {record} {query}: {error}") from error
        return found[0][: found.start(3) - found.start()] + new + "<!--/-->"

    def line(found: re.Match[str]) -> int:
        return found.string.count("\n", 0, found.start()) + 1

    if opened := re.search(r"^ *<!--=", text, flags=re.MULTILINE):
        raise MarkerError(f"line {line(opened)}: a line that begins with a comment is no part of its paragraph")
    ends = re.findall(r"^<!-- end -->$", text, flags=re.MULTILINE)
    for count, pattern in ((len(ends), BLOCK), (text.count("<!--/-->"), INLINE), (text.count("<!--="), INLINE)):
        if count != len(pattern.findall(text)):
            raise MarkerError(f"{count} comments open or close a marked place, and {len(pattern.findall(text))} match")
    return INLINE.sub(inline, BLOCK.sub(block, text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a document is stale")
    args = parser.parse_args()
    status = 0
    for path in sorted({path for pattern in DOCUMENTS for path in record_tables.ROOT.glob(pattern)}):
        name, old = path.relative_to(record_tables.ROOT).as_posix(), path.read_text(encoding="utf-8")
        try:
            new = fill(old)
        except MarkerError as error:
            print(f"figures: {name}: {error}", file=sys.stderr)
            status = 1
            continue
        if new == old:
            continue
        if args.check:
            diff = difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, f"{name}, filled")
            print("".join(diff), end="")
            print(f"figures: {name} is stale: run python scripts/figures.py", file=sys.stderr)
            status = 1
        else:
            path.write_text(new, encoding="utf-8")
            print(f"figures: {name} is filled anew")
    return status


if __name__ == "__main__":
    sys.exit(main())
