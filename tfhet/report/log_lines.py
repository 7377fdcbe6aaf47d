"""Lines of a job's log on a screen: equal lines of several ranks once, hosts in colours, errors marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import IO

from tfhet.messages import JobResultLine, parse_line

HUES = ("green", "yellow", "blue", "magenta", "cyan")
"""Colours of hosts, in the order of their escape sequences from 32 on; 31 is red."""
_PLACE = re.compile(r"(?:[\w.-]+ \| )?(?:\[\d+,[^\]]*\]<std\w+>:)?\[(?!tfhet\])([\w.-]+(?:/\d+)?)\] ")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
_COLOURS = re.compile(r"(\x1b\[[0-9;:]*m)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COUNT = re.compile(r" \((\d+) ranks\)$")
_ERROR = re.compile(
    r"(\[[\w.-]+\] )?(\[rank\d+\]: ?)?"  # PyTorch puts the rank before its tracebacks
    r"(Traceback \(|([A-Za-z_]\w*\.)*([A-Z]\w*)?(Error|Exception)(: |$)|\d{4}-\S+ \S+: [EF] |[EF]0000 )"
)


def harmless(text: str, *, keeps_colours: bool = False) -> str:
    """Strips control characters and sequences, which could move the cursor or set the title of a terminal; keeps line
    ends and tabs. keeps_colours: keeps colours, too, and ends them."""
    if keeps_colours and "\x1b" in text:
        parts = _COLOURS.split(text)
        found = "".join(part if index % 2 else harmless(part) for index, part in enumerate(parts))
        return f"{found}\x1b[0m" if len(parts) > 1 else found
    return text if text.isprintable() else _CONTROLS.sub("", _ESCAPES.sub("", text))


def printable(text: str, *, keeps_colours: bool = False) -> str:
    """`harmless`; of a line redrawn with `\\r` the last text remains."""
    return harmless(text.rstrip("\r").rpartition("\r")[2], keeps_colours=keeps_colours)


def place_of(line: str) -> tuple[str, str]:
    """Splits a line into its place (`algo-2`, `algo-2/0` with the rank, or "") and text; drops mpirun's prefix."""
    found = _PLACE.match(line)
    return (found[1], line[found.end() :]) if found else ("", line)


def gathered(lines: Sequence[str]) -> dict[int, str]:
    """Returns lines by index; equal lines of several ranks become one, as `... (2 ranks)`."""
    seen: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, object], int] = {}
    ranks: Counter[int] = Counter()
    for index, line in enumerate(lines):
        place, text = place_of(line)
        count = _COUNT.search(text)
        text = text[: count.start()] if count else text
        seen[place, text] += 1
        at = first.setdefault((text, seen[place, text]), index) if "/" in place else index
        ranks[at] += int(count[1]) if count else 1
    return {
        at: f"{_COUNT.sub('', lines[at])} ({number} ranks)" if number > 1 else lines[at] for at, number in ranks.items()
    }


def is_error(text: str) -> bool:
    """Whether a line without its place begins an error of a script, of TensorFlow or of a launcher."""
    return _ERROR.match(text) is not None or isinstance(parse_line(text), JobResultLine)


def hue(place: str) -> str:
    return HUES[sum(place.partition("/")[0].encode()) % len(HUES)]


def painted(line: str, is_coloured: bool) -> str:
    """Returns the line for a screen: `printable`, with its place in the colour of its host, and `!`, in red, before an
    error."""
    place, raw = place_of(line)
    text = printable(raw)
    is_bad = is_error(text)
    text = text if is_bad else printable(raw, keeps_colours=is_coloured)
    text = f"! {text}" if is_bad else text
    if is_coloured:
        text = f"\x1b[31m{text}\x1b[0m" if is_bad else text
        place = f"\x1b[{32 + HUES.index(hue(place))}m[{place}]\x1b[0m" if place else ""
        return f"{place} {text}" if place else text
    return f"[{place}] {text}" if place else text


def has_colours(out: IO[str], env: Mapping[str, str]) -> bool:
    """Whether to use colours: on a terminal or with FORCE_COLOR, but not with NO_COLOR."""
    return (out.isatty() or bool(env.get("FORCE_COLOR"))) and not env.get("NO_COLOR")
