"""The outcome: the leader's additions to the trainer's record when the job is over."""

from __future__ import annotations

import dataclasses

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA
from tfhet.errors import TfhetError
from tfhet.launch.assignment import Assignment, known_roles
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import Leader
from tfhet.record import RunFolder, RunSummary, machine, versions


def write_outcome(
    folder: RunFolder, assignment: Assignment, leader: Leader, result: JobResult, began_s: float
) -> RunSummary:
    """Completes `summary.json`, or creates it when the training wrote none."""
    try:
        summary = folder.read_summary()
    except TfhetError:
        summary = RunSummary()
    place, by_name = assignment.place, {role.name: role for role in known_roles(assignment.settings)}
    groups = {}
    for group in place.identity.cluster.groups:
        role = by_name[place.roles.role_of(group.name) or DATA.name]
        groups[group.name] = {
            "hosts": list(group.hosts),
            "instance_type": group.instance_type,
            "role": role.name,
            **assignment.plane.host_facts(assignment.plane_settings, role),
            "ranks_per_host": place.local_size if role.trains else 0,
        }
    now_s = SYSTEM.wall()
    summary = dataclasses.replace(
        summary,
        mode=place.mode,
        started=began_s,
        duration_s=now_s - began_s,
        machine=machine(),
        versions=versions(),
        cluster=groups,
        exit_codes={place.member: result.code, **leader.exit_codes},
        exit_code=result.code,
        cause=result.headline if result.code else None,
        restarts=leader.restarts,
        lost_hosts=leader.lost_hosts,
        teardown_s=None if leader.trained_s is None else SYSTEM.monotonic() - leader.trained_s,
    )
    folder.create().write_summary(summary)
    return summary
