"""Rules of the doctor, grouped by subject: questions about facts, answered without looking at anything else.

MACHINE: Subject[HostFacts] = Subject("machine")

@MACHINE.rule("disk", "run records need room")
def disk(host: HostFacts) -> RuleAnswer:
    found = f"{host.disk_free_bytes / GIB:.1f} GiB"
    return limited(found, "make room") if host.disk_free_bytes < GIB else ok(found)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

Facts = TypeVar("Facts")


class Status(str, Enum):
    """How one thing is."""

    OK = "ok"
    LIMITED = "limited"
    """Works, with a limitation."""
    MISSING = "missing"
    """Not installed, or broken."""
    WRONG = "wrong"
    """Will fail."""
    UNKNOWN = "not tried"


@dataclass(frozen=True)
class Check:
    """One thing that was examined, as people read it."""

    section: str
    name: str
    status: Status
    found: str
    """A version, a number, or what is wrong."""
    why: str
    """What it is needed for, or what follows from it."""
    what_to_do: str = ""
    """What to do where it is not ok. See `advice`."""
    is_needed: bool = False
    """Whether nothing of tfhet works without it."""
    issue: str = ""
    """Where others met it: OWNER/REPOSITORY#NUMBER on GitHub."""

    @property
    def is_fatal(self) -> bool:
        return self.status is Status.WRONG or (self.is_needed and self.status is Status.MISSING)

    @property
    def advice(self) -> str:
        """What to do; "" where all is well."""
        return "" if self.status is Status.OK else self.what_to_do

    @property
    def reason(self) -> str:
        """Why it matters, with the issue where it is not ok."""
        return f"{self.why} ({self.issue})" if self.issue and self.status is not Status.OK else self.why

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value, "what_to_do": self.advice}


@dataclass(frozen=True)
class RuleAnswer:
    """What a rule says about some facts."""

    status: Status
    found: str
    what_to_do: str = ""


def ok(found: str) -> RuleAnswer:
    return RuleAnswer(Status.OK, found)


def limited(found: str, what_to_do: str) -> RuleAnswer:
    return RuleAnswer(Status.LIMITED, found, what_to_do)


def wrong(found: str, what_to_do: str) -> RuleAnswer:
    return RuleAnswer(Status.WRONG, found, what_to_do)


@dataclass(frozen=True)
class Rule(Generic[Facts]):
    """One question."""

    name: str
    """Name, unique within the subject."""
    look: Callable[[Facts], RuleAnswer | None]
    """Answers the question; None where it does not arise."""
    why: str
    """What follows when it is not ok."""
    issue: str = ""
    """Where others met it: OWNER/REPOSITORY#NUMBER on GitHub."""


class Subject(Generic[Facts]):
    """All rules about one kind of facts, in the order in which they are reported."""

    def __init__(self, section: str):
        self.section = section
        self.rules: list[Rule[Facts]] = []

    def rule(
        self, name: str, why: str, issue: str = "", *, when: Callable[[Facts], bool] = lambda facts: True
    ) -> Callable[[Callable[[Facts], RuleAnswer | None]], Callable[[Facts], RuleAnswer | None]]:
        """Adds the decorated function as a rule. when: whether the question arises at all."""

        def add(look: Callable[[Facts], RuleAnswer | None]) -> Callable[[Facts], RuleAnswer | None]:
            self.rules.append(Rule(name, lambda facts: look(facts) if when(facts) else None, why, issue))
            return look

        return add

    def checks(self, facts: Facts) -> Iterator[Check]:
        """What the rules find."""
        for rule in self.rules:
            answer = rule.look(facts)
            if answer is not None:
                status, found, what = answer.status, answer.found, answer.what_to_do
                yield Check(self.section, rule.name, status, found, rule.why, what, issue=rule.issue)
