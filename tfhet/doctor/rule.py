"""A rule: a question about facts that were gathered, answered without looking at anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tfhet.doctor.check import Check, Status

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class RuleAnswer:
    """The answer."""

    status: Status
    found: str
    what_to_do: str = ""
    """Where it is not ok."""


def ok(found: str) -> RuleAnswer:
    return RuleAnswer(Status.OK, found)


def limited(found: str, what_to_do: str) -> RuleAnswer:
    """It works, and gives something up."""
    return RuleAnswer(Status.LIMITED, found, what_to_do)


def wrong(found: str, what_to_do: str) -> RuleAnswer:
    """It will fail."""
    return RuleAnswer(Status.WRONG, found, what_to_do)


@dataclass(frozen=True)
class Rule(Generic[Facts]):
    """One question."""

    name: str
    """No two rules of a subject share one."""
    look: Callable[[Facts], RuleAnswer | None]
    """None: the question does not arise."""
    why: str
    """What comes of it when it is not ok."""
    issue: str = ""
    """Where others met it: OWNER/REPOSITORY#NUMBER on GitHub."""


@dataclass(frozen=True)
class Subject(Generic[Facts]):
    """All rules about one kind of facts."""

    section: str
    rules: tuple[Rule[Facts], ...]

    def checks(self, facts: Facts) -> Iterator[Check]:
        """What the rules find, in their order."""
        for rule in self.rules:
            finding = rule.look(facts)
            if finding is not None:
                yield Check(
                    self.section,
                    rule.name,
                    finding.status,
                    finding.found,
                    rule.why,
                    finding.what_to_do,
                    issue=rule.issue,
                )
