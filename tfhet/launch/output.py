"""The output of one launcher: its log, its metrics, and the record that the leader completes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, Place, job_name
from tfhet.errors import TfhetError
from tfhet.launch.assignment import Assignment, known_roles
from tfhet.launch.hearing import Hearing
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import Leader
from tfhet.messages import MetricLine
from tfhet.record import RunFolder, RunSummary, machine, versions
from tfhet.telemetry import UP, Metric, emf_line, training_metrics
from tfhet.writer import Writer, write_whole

STDOUT = 1


class Log:
    """Standard output of one launcher. Nothing waits for its reader, and nothing raises when the reader is gone."""

    def __init__(self, assignment: Assignment):
        self._assignment = assignment
        self._lines = line_writer()

    def say(self, line: str) -> None:
        """Writes one line, prefixed with the host, unless it is noise."""
        if not self._assignment.plane.is_noise(line):
            self._lines.put(f"[{self._assignment.place.label}] {line}")

    def write_emf(self, line: MetricLine) -> None:
        """Writes the numbers of a metric line for CloudWatch, where the settings ask for it. CloudWatch wants a line of
        JSON alone, so it has no prefix."""
        if namespace := self._assignment.settings.emf_namespace:
            self._lines.put(emf_line(namespace, labels(self._assignment.place), line, SYSTEM.wall()))

    def close(self) -> None:
        """Writes the last lines; waits for the reader as `Writer.close` does."""
        self._lines.close()


def line_writer() -> Writer[str]:
    """Prints lines from a thread, each in one write: a program that puts a prefix before what it reads would tear the
    line from its end. If the reader is too slow, the oldest lines are dropped, and their number is printed."""

    def write(line: str) -> None:
        write_whole(STDOUT, f"{line}\n".encode(errors="replace"))

    return Writer("log", write, lambda lost: f"[tfhet] {lost} lines were dropped: the reader of this log was too slow")


def metrics_of(
    place: Place, hearing: Hearing, processes: Mapping[str, int], of_plane: Mapping[Metric, float]
) -> dict[Metric, float]:
    """All metrics that the launcher has now. processes: ids of its running processes, by name. of_plane: the metrics
    of its data plane, `UP` among them where processes of the plane are all that a host runs."""
    values = {UP: 0.0, **of_plane}
    if place.rank is not None:
        values[UP] = float(f"rank-{place.rank.rank}" in processes)
    return {**values, **training_metrics(hearing.totals, hearing.metrics)}


def labels(place: Place) -> dict[str, str]:
    """Labels of all metrics; those that this host does not have are omitted.

    The job's name is `training_job`, because Prometheus uses `job` for the scrape configuration.
    """
    every = {
        "training_job": job_name(place.env),
        "group": place.identity.current_group,
        "host": place.host,
        "role": place.roles.current.name,
        "rank": "" if place.rank is None else str(place.rank.rank),
    }
    return {name: value for name, value in every.items() if value}


def write_outcome(
    folder: RunFolder, assignment: Assignment, leader: Leader, result: JobResult, began_s: float
) -> RunSummary:
    """Completes `summary.json`, or creates it when the training wrote none."""
    try:
        summary = folder.read_summary()
        if summary.job_id != leader.job_id:  # of an earlier job with the same directory
            summary = RunSummary(job_id=leader.job_id)
    except TfhetError:
        summary = RunSummary(job_id=leader.job_id)
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
