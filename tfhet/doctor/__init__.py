"""Finds what will fail before anything starts: in this machine, its packages, a cluster, a data set, a script.

from tfhet.cluster import environment
from tfhet.doctor import examine

print(examine(environment(), cluster_file="demo").verdict)
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.doctor.examination import SUBJECTS, Examination, examine
    from tfhet.doctor.rule import Check, Rule, Status


lazy.names_on_demand(__name__)
