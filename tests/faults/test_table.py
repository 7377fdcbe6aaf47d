"""Each case of the table of faults, on a cluster of its own."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from faults.cases import BUSY, CASES, CONTINUES, DAMAGES, NEVER_JOINS, REFUSES, STOPS, FaultCase
from faults.invariants import audited_epochs, judged, total, violations
from faults.job import EPOCHS, FinishedJob, allowance, cluster_named, lacking, run_job
from faults.judge import Run
from faults.sabotage import DAMAGED, busy_port, damaged_digits

STOPPED = {129, 130, 143}
"""Codes of jobs that were asked to stop."""
EARLY = ("same-base", "half-checkpoint")
"""Faults before the start of a job and after its end."""


@pytest.mark.slow
@pytest.mark.horovod
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_table(case: FaultCase, place: Path) -> None:
    if missing := lacking(case.hosts, case.parsed):
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    job, resumed = run(case, place)
    verdict = judged(job, resumed, [DAMAGED] * (case.before in DAMAGES))
    assert violations(job, verdict, resumed) + unexpected(case, job, resumed) == []


def run(case: FaultCase, place: Path) -> tuple[FinishedJob, FinishedJob | None]:
    """The job of a case, and the job that resumed from its checkpoints."""
    cluster = cluster_named(case.cluster)
    if case.before in DAMAGES:
        channel = damaged_digits(place / "data", case.before)
        cluster = dataclasses.replace(cluster, channels={"training": str(channel)})
    how = {"hosts": case.hosts} | ({"start": "alone"} if case.hosts == "namespace" else {})
    busy = case.before.removeprefix(BUSY) if case.before.startswith(BUSY) else ""
    job = run_job(
        cluster,
        case.command(),
        place,
        case.parsed,
        while_running=lambda job: busy_port(job, busy) if busy else contextlib.nullcontext(),
        **how,
    )
    if not case.resumes:
        return job, None
    return job, run_job(cluster, case.command(resumes=True), place / "again", checkpoints=job.checkpoints, **how)


def unexpected(case: FaultCase, job: FinishedJob, resumed: FinishedJob | None) -> list[str]:
    """Descriptions of the ways in which a job did not end as its case says."""
    summary, cause = job.summary, job.summary.cause or ""
    found = _codes(case, job)
    if len(job.named("fault.injected")) < sum(fault.kind != "late-join" for fault in job.faults):
        found.append("a fault was not done")
    if case.limit_s is not None:
        exit_s, limit_s = seconds_to_exit(case, job), case.limit_s * allowance()
        if exit_s is None or exit_s > limit_s:
            found.append(f"the last exit came after {exit_s} s, the limit is {limit_s:.3g} s")
        found += [f"the cause does not name {word!r}: {cause}" for word in case.named if not _is_named(word, job)]
    elif set(summary.lost_hosts) != {job.hosts[place] for place in case.lost}:
        found.append(f"lost hosts: {dict(summary.lost_hosts)}")
    if case.end == CONTINUES and total(summary.epochs, "bad") != case.bad * EPOCHS:
        found.append(f"{total(summary.epochs, 'bad')} records were skipped")
    if case.end == STOPS and Run.read(job.folder).steps and not list(job.checkpoints.glob("checkpoint-*")):
        found.append("no checkpoint was written")
    if resumed is not None and not total(audited_epochs(job, resumed), "before"):
        found.append("the job that resumed began its epoch again")
    if case.before == "truncated" and summary.steps:
        found.append(f"{summary.steps} steps were taken on a truncated file")
    return found


def _codes(case: FaultCase, job: FinishedJob) -> list[str]:
    codes = set(job.codes.values())
    if len(codes) > 1 and case.is_linked:
        return [f"the launchers end with different codes: {job.codes}"]
    wanted = 0 if case.end == CONTINUES else case.code
    if codes == {wanted} or (wanted is None and codes and not codes & {0, *STOPPED}):
        return []
    return [f"exit codes {job.summary.exit_codes}: {job.summary.cause}"]


def _is_named(word: str, job: FinishedJob) -> bool:
    names = [name for place, name in job.hosts.items() if place == word or (word == "data-" and place[:5] == word)]
    return any(name in (job.summary.cause or "") for name in names or [word])


def seconds_to_exit(case: FaultCase, job: FinishedJob) -> float | None:
    """Seconds from the moment that counts for a case to the exit of the last launcher."""
    if case.end == NEVER_JOINS:
        begins = [job.summary.started or 0.0]
    elif case.end == REFUSES:
        begins = _times(job.named("job.decided"))
    else:
        harm = [event for event in job.named("fault.injected") if not any(word in event["fault"] for word in EARLY)]
        begins = _times(harm)
    ends = _times(job.named("launchers.gone"))
    return max(ends) - min(begins) if ends and begins else None


def _times(events: Sequence[dict]) -> list[float]:
    return [float(event["time_s"]) for event in events]
