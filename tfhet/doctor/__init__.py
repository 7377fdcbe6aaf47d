"""Finds what will fail before anything starts: in this machine, its packages, a cluster, a data set, a script.

from tfhet.cluster import environment
from tfhet.doctor import examine

print(examine(environment(), cluster_file="demo").verdict)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.doctor.examination import SUBJECTS, Examination, examine
    from tfhet.doctor.rule import Check, Rule, Status

__all__ = ["SUBJECTS", "Check", "Examination", "Rule", "Status", "examine"]

lazy.names_on_demand(__name__)
