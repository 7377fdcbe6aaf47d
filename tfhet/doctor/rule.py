"""Rules of the doctor by subject, and their checks. A rule judges facts only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar


class Status(StrEnum):
    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"
    """Not installed, or broken."""
    WRONG = "wrong"
    UNKNOWN = "not tried"


@dataclass(frozen=True)
class Check:
    """The result of one examination, for people."""

    section: str
    name: str
    status: Status
    found: str
    """A version, a number, or what is wrong."""
    why: str
    """Its purpose, or the consequence."""
    what_to_do: str = ""
    """Empty if the status is ok."""
    is_needed: bool = False
    """Whether tfhet does not work without it."""
    issue: str = ""
    """Issue on GitHub about it, as OWNER/REPOSITORY#NUMBER."""

    @property
    def is_fatal(self) -> bool:
        return self.status is Status.WRONG or (self.is_needed and self.status is Status.MISSING)


Facts = TypeVar("Facts")


@dataclass(frozen=True)
class RuleAnswer:
    status: Status
    found: str
    what_to_do: str = ""


def ok(found: str) -> RuleAnswer:
    return RuleAnswer(Status.OK, found)


def report(status: Status, found: str, what_to_do: str, *, when: object = True, otherwise: str = "") -> RuleAnswer:
    """Reports `found` with a status if `when` is true; else reports `otherwise` (by default `found`) as ok."""
    return RuleAnswer(status, found, what_to_do) if when else ok(otherwise or found)


limited, wrong = functools.partial(report, Status.LIMITED), functools.partial(report, Status.WRONG)


Look = Callable[[Facts], "RuleAnswer | None"]
"""Judges facts; None if the rule does not apply."""


@dataclass(frozen=True)
class Rule(Generic[Facts]):
    name: str
    look: Look[Facts]
    why: str
    """Consequence of an answer that is not ok."""
    issue: str = ""


class Subject(Generic[Facts]):
    """All rules about one kind of facts, in the order of reports."""

    def __init__(self, section: str):
        self.section = section
        self.rules: list[Rule[Facts]] = []

    def rule(
        self, name: str, why: str, issue: str = "", *, when: Callable[[Facts], bool] = lambda facts: True
    ) -> Callable[[Look[Facts]], Look[Facts]]:
        """Adds the decorated function as a rule. when: whether the rule applies."""

        def add(look: Look[Facts]) -> Look[Facts]:
            self.rules.append(Rule(name, lambda facts: look(facts) if when(facts) else None, why, issue))
            return look

        return add

    def checks(self, facts: Facts) -> Iterator[Check]:
        """Yields the answer of each rule that applies."""
        for rule in self.rules:
            if (answer := rule.look(facts)) is not None:
                status, found, what = answer.status, answer.found, answer.what_to_do
                yield Check(self.section, rule.name, status, found, rule.why, what, issue=rule.issue)
