"""The output of one launcher: its log, its metrics, and the record that the leader completes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, Place, environment, job_name
from tfhet.coroutines import in_thread
from tfhet.errors import TfhetError
from tfhet.launch.assignment import Assignment, known_roles
from tfhet.launch.job_result import STOPPED_CODES, JobResult
from tfhet.launch.leader import Leader
from tfhet.launch.script_output import ScriptOutput
from tfhet.messages import MetricLine
from tfhet.record import RunFolder, RunSummary, machine, versions
from tfhet.report import gathered, has_colours, painted
from tfhet.telemetry import UP, Metric, emf_line, gpu_count, training_metrics
from tfhet.writer import Writer, write_whole

STDOUT = 1
PAGE_S = 3.0
"""Seconds that the leader may spend on the page of the run at its end."""
LOG_BYTES, NOISE_BYTES = 64 << 20, 8 << 20
"""Bytes after which a launcher writes no more lines, and no more noise, to its host's log file."""


class Log:
    """Standard output of one launcher, and its host's log file in the record, which includes noise. Nothing waits for a
    reader or the disk, and nothing raises if the reader is gone."""

    def __init__(self, assignment: Assignment, record: RunFolder):
        self._assignment = assignment
        self._gpus = gpu_count(assignment.place.env)
        self._lines, self._file = line_writer(), file_writer(record, assignment.place.host)

    def say(self, line: str) -> None:
        """Writes one line, prefixed with the host; noise only to the file."""
        is_noise = self._assignment.plane.is_noise(line, self._gpus)
        line = f"[{self._assignment.place.label}] {line}"
        self._file.put((line, is_noise))
        if not is_noise:
            self._lines.put(line)

    def write_emf(self, line: MetricLine) -> None:
        """Writes a metric line for CloudWatch, if the settings ask for it: JSON without a prefix."""
        if namespace := self._assignment.settings.emf_namespace:
            self._lines.put(emf_line(namespace, labels(self._assignment.place), line, SYSTEM.wall()))

    def close(self) -> None:
        """Writes the last lines; waits for reader and disk as `Writer.close` does."""
        self._file.close()
        self._lines.close()


def line_writer(*, gathers: bool = False) -> Writer[str]:
    """Prints lines from a thread, each in one write. If the reader is too slow, the oldest lines are dropped and
    counted. gathers: whether a line waits for a moment, so that equal lines of several ranks are printed once."""
    is_terminal = has_colours(sys.stdout, environment())

    def write(line: str) -> None:
        write_whole(STDOUT, f"{painted(line, True) if is_terminal else line}\n".encode(errors="replace"))

    dropped: Callable[[int], str] = "[tfhet] {} lines were dropped: the reader of this log was too slow".format
    return Writer("log", write, dropped, gather=(lambda lines: gathered(lines).values()) if gathers else None)


def file_writer(folder: RunFolder, host: str) -> Writer[tuple[str, bool]]:
    """Appends (line, is_noise) to a host's log file, up to LOG_BYTES and NOISE_BYTES."""
    size = 0

    def write(entry: tuple[str, bool]) -> None:
        nonlocal size
        line, is_noise = entry
        if size < (NOISE_BYTES if is_noise else LOG_BYTES):
            content = f"{line}\n".encode(errors="replace")
            size += len(content)
            full = b"" if size < LOG_BYTES else b"[tfhet] this file is full: standard output has the rest\n"
            folder.write_log(host, content + full)

    return Writer("log file", write, lambda lost: (f"[tfhet] {lost} lines were dropped: the disk was too slow", False))


async def load_page() -> None:
    """Imports the modules for a page, 0.2 s of CPU time, before the end of the job needs them. Raises nothing."""
    with contextlib.suppress(Exception):  # `write_page` reports it
        await in_thread(_draw, None)


async def write_page(folder: RunFolder, say: Callable[[str], None]) -> None:
    """Writes the page of the run into its record. Reports failures in one line; raises nothing."""
    try:
        async with asyncio.timeout(PAGE_S):
            await in_thread(_draw, folder)
    except TimeoutError:
        say(f"the page of the run was not made within {PAGE_S:g} s: `tfhet report` on its record makes it")
    except Exception as error:  # noqa: BLE001  it must not change the exit code
        say(f"the page of the run cannot be written: {' '.join(str(error).split())}")


def _draw(folder: RunFolder | None) -> None:
    from tfhet.report import Given, RunView, page, write_html  # a launcher starts without them

    if folder is None:
        page(Given([RunView.of(RunSummary())]))  # which compiles the templates
    else:
        write_html(folder)


def metrics_of(
    place: Place, output: ScriptOutput, processes: Mapping[str, int], of_plane: Mapping[Metric, float]
) -> dict[Metric, float]:
    """Current metrics of the launcher. processes: ids of its running processes, by name. of_plane: metrics of its data
    plane, including `UP` on hosts that run only processes of the plane."""
    values = {UP: 0.0, **of_plane}
    if place.rank is not None:
        values[UP] = float(f"rank-{place.rank.rank}" in processes)
    return {**values, **training_metrics(output.totals, output.metrics)}


def labels(place: Place) -> dict[str, str]:
    """Labels of all metrics. Prometheus uses `job` itself, hence `training_job`."""
    every = {
        "training_job": job_name(place.env),
        "group": place.identity.current_group,
        "host": place.host,
        "role": place.roles.current.name,
        "rank": "" if place.rank is None else str(place.rank.rank),
    }
    return {name: value for name, value in every.items() if value}


def write_outcome(
    folder: RunFolder,
    assignment: Assignment,
    leader: Leader,
    result: JobResult,
    began_s: float,
    plane_use: Mapping[str, Mapping[str, float]],
    has_read: bool,
) -> RunSummary:
    """Completes `summary.json`, or creates it if the training wrote none."""
    summary = RunSummary(job_id=leader.job_id)
    with contextlib.suppress(TfhetError):
        found = folder.read_summary()
        summary = found if found.job_id == leader.job_id else summary  # else it is an earlier job's
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
    summary = dataclasses.replace(
        summary,
        has_read=has_read or (False if assignment.plane.sees_reads else None),
        mode=place.mode,
        started=began_s,
        duration_s=SYSTEM.wall() - began_s,
        machine=machine(),
        versions=versions(),
        cluster=groups,
        exit_codes={place.member: result.code, **leader.exit_codes},
        exit_code=result.code,
        cause=result.headline if result.code else None,
        failures=tuple(_other_failures(folder, assignment, result)) if result.code else (),
        restarts=leader.restarts.count,
        lost_hosts=leader.lost_hosts,
        plane_use=plane_use,
        teardown_s=None if leader.trained_s is None else SYSTEM.monotonic() - leader.trained_s,
    )
    summary = leader.account.completed(summary)
    folder.create().write_summary(summary)
    return summary


def _other_failures(folder: RunFolder, assignment: Assignment, result: JobResult) -> Iterator[str]:
    """Yields `RunSummary.failures`. A signal that ended a script after the job result is the launcher's own."""
    is_decided = False
    for event in folder.events():
        is_decided = is_decided or event.get("event") == "job.decided"
        code, said = event.get("code", 0), str(event.get("cause"))
        if event.get("event") != "rank.ended" or code in STOPPED_CODES or (is_decided and code > 128):
            continue
        if said not in result.headline and not assignment.strategy.is_consequence(said):
            yield said
