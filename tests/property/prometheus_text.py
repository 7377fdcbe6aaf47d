"""Prometheus' text format, version 0.0.4, read strictly; what a test or a dashboard says of it is checked by this."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_SAMPLE = re.compile(rf"({NAME})\{{([^\n]*)\}} (\S+)")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?(e[+-]?\d+)?|Inf)|NaN")


@dataclass(frozen=True)
class Family:
    """A metric with its one sample."""

    kind: str
    says: str
    labels: dict[str, str]
    value: float


def read(text: str) -> dict[str, Family]:
    """Families by name, in order. Raises ValueError for what the format does not have."""
    assert text.endswith("\n") or not text
    found: dict[str, Family] = {}
    lines = text.split("\n")[:-1]
    if len(lines) % 3:
        raise ValueError(f"{len(lines)} lines are no families of HELP, TYPE and one sample")
    for told, typed, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, said = _parts(rf"# HELP ({NAME}) (.*)", told)
        same, kind = _parts(rf"# TYPE ({NAME}) (counter|gauge)", typed)
        match = _SAMPLE.fullmatch(sample)
        if match is None or not name == same == match[1] or name in found:
            raise ValueError(f"{name}: not one family: {told!r}, {typed!r}, {sample!r}")
        if _NUMBER.fullmatch(match[3]) is None:
            raise ValueError(f"{name}: {match[3]} is no number")
        if (kind == "counter") != name.endswith("_total"):
            raise ValueError(f"{name}: is a {kind}")
        found[name] = Family(kind, _unescaped(said), _labels(match[2]), float(match[3]))
    return found


def _parts(pattern: str, line: str) -> tuple[str, str]:
    match = re.fullmatch(pattern, line)
    if match is None:
        raise ValueError(f"{line!r} is not {pattern}")
    return match[1], match[2]


def _labels(text: str) -> dict[str, str]:
    found, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match[1] in found:
            raise ValueError(f"labels {text!r}: at {at}")
        found[match[1]], at = _unescaped(match[2]), match.end()
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)
