"""What is wrong before anything starts: this machine, what is installed on it, a cluster, a data set, a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.doctor.check import Check, Status
    from tfhet.doctor.examination import COLUMNS, Examination, Question, examine
    from tfhet.doctor.rule import Rule, RuleAnswer, Subject
    from tfhet.doctor.subjects import SUBJECTS

__all__ = [
    "COLUMNS",
    "SUBJECTS",
    "Check",
    "Examination",
    "Question",
    "Rule",
    "RuleAnswer",
    "Status",
    "Subject",
    "examine",
]

lazy.names_on_demand(
    __name__,
    {
        "check": "Check Status",
        "examination": "COLUMNS Examination Question examine",
        "rule": "Rule RuleAnswer Subject",
        "subjects": "SUBJECTS",
    },
)
