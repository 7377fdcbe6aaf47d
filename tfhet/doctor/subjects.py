"""The registry of rules. A new rule goes into the table of its subject, a new subject into this one."""

from __future__ import annotations

from typing import Any

from tfhet.doctor.cluster_rules import CLUSTER
from tfhet.doctor.host_rules import MACHINE
from tfhet.doctor.pipeline_rules import PIPELINE
from tfhet.doctor.rule import Subject
from tfhet.doctor.script_rules import SCRIPT
from tfhet.doctor.version_rules import VERSIONS

SUBJECTS: tuple[Subject[Any], ...] = (MACHINE, VERSIONS, CLUSTER, PIPELINE, SCRIPT)
