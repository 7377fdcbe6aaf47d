"""A Dockerfile as stages and steps, as far as the Dockerfile of this repository goes. Used by scripts/image.py."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KNOWN = ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "SHELL", "WORKDIR")


@dataclass(frozen=True)
class Step:
    """One instruction."""

    line: int
    word: str
    """RUN, COPY, ..."""
    text: str
    """What follows, continued lines as one, comments left out."""

    def flags(self) -> tuple[dict[str, str], str]:
        """The leading --name=value, and the rest."""
        found, rest = {}, self.text
        while match := re.match(r"--([a-z]+)=(\S+)\s+", rest):
            found[match[1]] = match[2]
            rest = rest[match.end() :]
        return found, rest

    def pairs(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The NAME=value of an ENV, LABEL or ARG, with variables filled in; an ARG without a value has ""."""
        words = shlex.split(self.text)
        return {name: expand(value, variables) for name, _, value in (word.partition("=") for word in words)}

    def words(self) -> list[str]:
        """The exec form of a CMD, ENTRYPOINT or SHELL. Raises ValueError for the shell form."""
        if not self.text.startswith("["):
            raise ValueError(f"line {self.line}: {self.word} in shell form: its shell would be PID 1; give a list")
        return [str(word) for word in json.loads(self.text)]


@dataclass(frozen=True)
class Stage:
    """What stands between two FROM."""

    name: str
    base: str
    """Another stage's name, or an image's, variables not yet filled in."""
    line: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Dockerfile:
    """The arguments in front of the first FROM, with their defaults, and the stages in order."""

    arguments: Mapping[str, str]
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage | None:
        """The stage of that name, or None: then it is an image's."""
        return next((stage for stage in self.stages if stage.name == name), None)


def read(text: str) -> Dockerfile:
    """Raises ValueError, with the line, for what is not known here."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for step in _steps(text):
        if step.word == "FROM":
            words = step.text.split()
            name = words[2] if len(words) == 3 and words[1].upper() == "AS" else ""
            stages.append(Stage(name, words[0], step.line, ()))
        elif stages:
            last = stages[-1]
            stages[-1] = Stage(last.name, last.base, last.line, (*last.steps, step))
        elif step.word == "ARG":
            arguments.update(step.pairs(arguments))
        else:
            raise ValueError(f"line {step.line}: {step.word} before the first FROM")
    return Dockerfile(arguments, tuple(stages))


def _steps(text: str) -> list[Step]:
    steps: list[Step] = []
    begun, joined = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or (not joined and not line.strip()):
            continue
        begun = begun or number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        word, _, rest = joined.strip().partition(" ")
        if word not in KNOWN:
            raise ValueError(f"line {begun}: {word} is not known here; known: {', '.join(KNOWN)}")
        steps.append(Step(begun, word, rest.strip()))
        begun, joined = 0, ""
    return steps


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with $NAME and ${NAME} filled in; unknown ones are empty, as Docker has it."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda match: variables.get(match[1] or match[2], ""), text)


class Ignored:
    """What a .dockerignore keeps out of the build context."""

    def __init__(self, text: str):
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        for line in map(str.strip, text.splitlines()):
            if line and not line.startswith("#"):
                self._rules.append((not line.startswith("!"), _pattern(line.lstrip("!"))))

    def __call__(self, path: str) -> bool:
        """Whether a path, relative to the context, is kept out. The last rule that fits it or its folder decides."""
        ignored = False
        for keeps_out, pattern in self._rules:
            if pattern.fullmatch(path):
                ignored = keeps_out
        return ignored


def _pattern(rule: str) -> re.Pattern[str]:
    kinds = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", rule.strip("/"))
    return re.compile("".join(kinds.get(part, re.escape(part)) for part in parts) + "(?:/.*)?")


def context_files(root: Path, source: str, ignored: Ignored) -> list[str]:
    """The files that a COPY of `source` takes from the context, relative to it. Raises FileNotFoundError."""
    path = root / source
    if path.is_dir():
        found = [each.relative_to(root).as_posix() for each in sorted(path.rglob("*")) if each.is_file()]
    else:
        found = [source] if path.is_file() else []
    taken = [each for each in found if not ignored(each)]
    if not taken:
        raise FileNotFoundError(f"COPY {source}: nothing of that name is in the build context (see .dockerignore)")
    return taken
